// LogCursor reads an operation log (operation_log.h) piece by piece, as it grows. It copies a few numbers of
// each entry and no text, so that a daemon can read the logs of all its ranks each second.
//
// The writer may be hostile, stopped or dead. The numbers are copies, and otherwise unchecked.
#ifndef LOCKSTEP_WIRE_RING_LOG_CURSOR_H_
#define LOCKSTEP_WIRE_RING_LOG_CURSOR_H_

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "wire/ring/operation_log.h"
#include "wire/ring/segment.h"

namespace lockstep::ring {

struct LogRecord {
  LogKind kind = LogKind::kOperation;
  uint64_t communicator = 0;
  // Of a collective: among those of its communicator, from 1; 0: a message. Of a step: the step's.
  uint64_t number = 0;
  // Equal for operations of one communicator with the same function, datatype and count.
  uint64_t shape = 0;
  // Of a step, only `entered`: its begin. Of an operation that did not end, `completed` is 0.
  HostTime entered, started, completed;
};

// One thread at a time. Segments of one process may follow each other, with another cursor for each.
class LogCursor {
 public:
  // Returns the entries after those of the last call, in the order of their begin. It ends before an
  // operation that has not ended at `settled`, because its stages may still change. It does not wait for
  // operations whose end is not reported, as inside CUDA graphs and on copy engines: those before an ended
  // one of the same communicator. An operation that hangs delays the others until half a log of them follows
  // it.
  std::vector<LogRecord> Read(const Segment& segment, HostTime settled);

  // Entries that were overwritten before they were read, or that were not readable.
  uint64_t missed() const { return missed_; }

 private:
  bool NeverEnds(const Segment& segment, const LogRecord& record, uint64_t newest, HostTime settled) const;

  uint64_t next_ = 0;   // position; 0: the first call starts with the oldest entry
  bool began_ = false;  // an entry was read
  uint64_t missed_ = 0;
};

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_LOG_CURSOR_H_
