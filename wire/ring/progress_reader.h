// Reads a progress table (progress.h) and an operation log (operation_log.h) whose writer may be hostile,
// stopped in the middle of a write, or dead. The numbers and texts are copies, and otherwise unchecked.
#ifndef LOCKSTEP_WIRE_RING_PROGRESS_READER_H_
#define LOCKSTEP_WIRE_RING_PROGRESS_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "wire/ring/segment.h"

namespace lockstep::ring {

// The values of ProgressOperation. A stage that was not reached has the time 0.
struct OperationProgress {
  uint64_t position = 0;
  uint64_t number = 0;
  uint64_t count = 0;
  HostTime entered, launched, started, completed;
  std::string function;
  std::string datatype;
  int32_t peer = 0;
};

struct CommunicatorProgress {
  uint64_t communicator = 0;
  std::string name;  // empty: the application gave none
  int32_t rank = 0;
  int32_t ranks = 0;
  bool reports_launches = false;
  bool reports_kernels = false;
  uint64_t operations_entered = 0;
  uint64_t collectives_entered = 0;
  std::vector<OperationProgress> operations;  // by position
  uint32_t unreadable = 0;                    // operations that were being written, also after several tries
};

// Returns the living communicators.
std::vector<CommunicatorProgress> ReadProgress(const Segment& segment);

struct LoggedOperation {
  uint64_t communicator = 0;
  // Of a message that was launched: its number among those with the same peer and direction, from 0.
  uint64_t message_number = 0;
  OperationProgress operation;  // `position` and `number` are those in the communicator
};

struct LoggedStep {
  uint64_t number = 0;
  HostTime begin;
  bool marked = false;  // by lockstep_step_begin, not by the name of a range
};

struct LoggedCommunicator {
  uint64_t communicator = 0;
  std::string name;
  int32_t rank = 0;
  int32_t ranks = 0;
};

// A copy of an operation log.
struct OperationLog {
  std::vector<LoggedOperation> operations;  // in the order of their begin
  std::vector<LoggedStep> steps;            // in the order of their begin
  // Living ones, and ended ones whose place in the progress table is not taken again.
  std::vector<LoggedCommunicator> communicators;
  // Earlier entries were overwritten. HostTime(): none was.
  HostTime complete_since;
  uint32_t unreadable = 0;  // entries that were being written, also after several tries
};

// Returns the entries except those that ended before `since`.
OperationLog ReadLog(const Segment& segment, HostTime since);

// Returns the numbers of ranks of the log's communicators, by their ids.
std::map<uint64_t, int32_t> RanksByCommunicator(const Segment& segment);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_PROGRESS_READER_H_
