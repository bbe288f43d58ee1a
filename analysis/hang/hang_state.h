// The state of a job's ranks in their communicators at one moment: the input of ExplainHang. It comes from
// the daemons (`lockstep hang`) or from files of PyTorch's Flight Recorder.
//
// Times are ages, each measured on the clock of the rank's own node. Clocks of different nodes are not
// compared.
#ifndef LOCKSTEP_ANALYSIS_HANG_HANG_STATE_H_
#define LOCKSTEP_ANALYSIS_HANG_HANG_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::analysis {

// A collective or message that a rank has entered.
struct HangOperation {
  uint64_t position = 0;  // among the communicator's operations on this rank, from 1
  uint64_t number = 0;    // among its collectives, from 1, equal on all ranks; 0: a message
  std::string function;   // NCCL's name, as AllReduce
  std::string datatype;   // NCCL's name, as ncclFloat32
  uint64_t count = 0;     // elements
  int32_t peer = -1;      // of a message, in the communicator; the root of a collective. -1: not known
  Nanos entered_ago;
  bool launched = false;
  bool started = false;    // its kernel runs on the GPU
  bool completed = false;  // its kernel has ended
  // Since the latest of these stages; unset: not known.
  std::optional<Nanos> started_ago, completed_ago;
};

struct HangCommunicator {
  uint64_t id = 0;
  std::string name;   // empty: the application gave none
  int32_t rank = 0;   // in the communicator
  int32_t ranks = 0;  // 0: not known
  // True if `launched`, or `started` and `completed`, are known.
  bool reports_launches = false;
  bool reports_kernels = false;
  uint64_t collectives_entered = 0;
  std::vector<HangOperation> operations;  // the latest, by position
};

// An open network operation: one channel of a collective or message, to or from a member on another host.
struct HangTransfer {
  enum class Direction : uint8_t { kReceive, kSend };
  // The reason why its oldest open step has not ended.
  enum class Wait : uint8_t {
    kNone,     // no step is open
    kGpu,      // send: for the GPU's data. Receive: for the GPU to take the data
    kPeer,     // send: for a buffer of the peer
    kNetwork,  // send: for the network to complete it. Receive: for the peer's data
    kFlush,    // receive: until the GPU can see the data
  };
  uint64_t communicator = 0;
  uint64_t position = 0;  // of the operation among the communicator's on this rank; 0: not known
  Direction direction = Direction::kReceive;
  int32_t peer = 0;  // in the communicator
  uint32_t channel = 0;
  uint32_t steps = 0;  // 0: not known
  uint32_t steps_done = 0;
  Wait wait = Wait::kNone;
  Nanos moved_ago;  // since any of its steps moved
};

struct HangFrame {
  std::string file;
  int32_t line = 0;  // 0: not known
  std::string function;
};

// The functions that a thread executes, the innermost first.
struct HangStack {
  std::string thread;  // its name; empty for a Python stack, which is that of the main thread
  std::vector<HangFrame> frames;
  bool more = false;  // there are further frames
};

struct HangStacks {
  HangStack python;
  std::string python_problem;     // without frames: the reason
  std::vector<HangStack> native;  // the main thread's first; then threads in CUDA and NCCL
  std::string native_problem;     // the reason why there is none; empty: nobody has asked
};

struct HangRank {
  RankId rank;
  std::string host;
  int32_t local_rank = -1;  // -1: not known
  int32_t pid = 0;
  enum class Life : uint8_t {
    kRunning,
    kStopped,  // by a signal or a debugger
    kEnded,
    kUnknown,  // the kernel does not show the process
  };
  Life life = Life::kUnknown;
  std::string end_reason;  // of kEnded
  Nanos ended_ago;
  // The share of one processor that it used between two looks; unset: there was one look.
  std::optional<double> cpu_share;
  // Bytes per second that it read and wrote between two looks.
  std::optional<double> transfer_rate;
  std::string wait_channel;          // kernel function in which its main thread waits; may be empty
  std::optional<HangStacks> stacks;  // unset: nobody has looked
  bool moved = false;                // the Python stack was another one at an earlier look
  std::vector<HangCommunicator> communicators;
  uint64_t unreadable = 0;  // operations that are missing in them
  std::vector<HangTransfer> transfers;
  uint64_t missing_transfers = 0;  // further open ones
};

struct HangJob {
  std::string job;
  uint32_t uid = 0;        // of its user; dumps do not have it
  int32_t world_size = 0;  // 0: not known
  std::vector<HangRank> ranks;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_HANG_STATE_H_
