// An answer of NCCL's RAS: how many collectives each member of each communicator has called. It comes from
// formats/ras, and CompareRasReadings and CheckWithRas take it.
//
// RAS counts operations and knows no times, so one answer cannot tell a late rank from a moment of a fast
// job.
#ifndef LOCKSTEP_ANALYSIS_HANG_RAS_STATE_H_
#define LOCKSTEP_ANALYSIS_HANG_RAS_STATE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep::analysis {

struct RasProcess {
  std::string host;  // as RAS writes it: a numeric address
  int32_t pid = 0;   // in the process's own pid namespace; 0: not known
  friend bool operator==(const RasProcess&, const RasProcess&) = default;
};

struct RasMember {
  RasProcess process;
  enum class Status : uint8_t {
    kUnknown,  // the text does not state it
    kStarting,
    kRunning,
    kFinalizing,
    kAborted,
    kFailed,
    kNotInIt,       // its process answers, and has left the communicator or not joined it yet
    kUnresponsive,  // its process does not answer
    kDead,          // RAS has given its process up
  };
  Status status = Status::kUnknown;
  friend bool operator==(const RasMember&, const RasMember&) = default;
};

// Members that have called an operation equally often.
struct RasGroup {
  uint64_t count = 0;
  size_t size = 0;
  std::vector<int32_t> members;  // those that RAS lists, ascending; may be fewer than `size`
  friend bool operator==(const RasGroup&, const RasGroup&) = default;
};

struct RasOperation {
  std::string function;  // NCCL's name, as AllReduce; empty: all collectives together (NCCL 2.24, 2.25)
  std::vector<RasGroup> groups;  // by count, ascending
  friend bool operator==(const RasOperation&, const RasOperation&) = default;
};

struct RasCommunicator {
  uint64_t hash = 0;
  int32_t size = 0;
  std::map<int32_t, RasMember> members;  // those that RAS lists, by their number in the communicator
  // In the order of RAS. The text has only those of which the counts differ.
  std::vector<RasOperation> operations;
  friend bool operator==(const RasCommunicator&, const RasCommunicator&) = default;
};

struct RasState {
  std::string nccl_version;
  // True: all communicators and members are listed (JSON). False: only those with a difference (text).
  bool is_complete = false;
  std::vector<RasCommunicator> communicators;
  std::vector<RasProcess> silent;  // processes that did not answer, as far as the text names them
  std::vector<RasProcess> dead;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_RAS_STATE_H_
