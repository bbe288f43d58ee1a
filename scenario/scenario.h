// What a world of simulated ranks does: the scenario format (docs/formats/scenario.md).
//
// Written by the generator (generator.h) and by `lockstep export --format scenario`; read by sim/ and by
// nothing else. A scenario holds causes, not stamps: signed gaps and own durations. Replayed without a fault
// it gives back the recorded stamps to the nanosecond; with one, everything behind the fault moves as it
// would in the job.
//
//   call        start = max(end of the thread's previous host op, turn origin) + gap
//               end   = max(start + own, ends of the device work it waits for) + tail
//   device op   start = max(end of the stream's previous op, start of its call, ends of the events it waits
//   for,
//                           turn origin) + gap;  end = start + own
//   collective  as a device op, but end = latest start among the members whose data it needs + own
//
// A plain value: copyable, no thread of its own. Times are virtual nanoseconds (common/base/time.h,
// kVirtual).
#ifndef LOCKSTEP_COMMON_SCENARIO_SCENARIO_H_
#define LOCKSTEP_COMMON_SCENARIO_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::scenario {

inline constexpr uint32_t kNoIndex = 0xFFFFFFFF;

enum class OpKind : uint8_t {
  kCall,  // a runtime or driver call of a host thread
  kPush,
  kPop,  // an NVTX range of a host thread
  kKernel,
  kCopy,
  kSet,
  kCollective,  // device work on a stream
  kRecordEvent,
  kWaitEvent,  // order between streams
};

enum class Collective : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBarrier,      // every member needs every member
  kSendReceive,  // one kernel with everybody's sends and receives: likewise
  kBroadcast,
  kScatter,  // members need the root
  kReduce,
  kGather,  // the root needs everybody, the others nobody
  kSend,
  kReceive,  // the receiver needs the sender; above `buffered_bytes` both need both
};
inline constexpr int kCollectives = 12;

enum class Needs : uint8_t { kAll, kRoot, kRootNeedsAll, kPeer };
Needs NeedsOf(Collective op);
// "all_reduce", … as report.json writes them.
std::string_view CollectiveName(Collective op);

// What a blocking call waits for: all work enqueued before it, and its own, on ...
enum class Wait : uint8_t { kNothing, kStreams, kAllStreams };

struct Geometry {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t registers = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  bool operator==(const Geometry&) const = default;
};

// One line of a rank's program. Fields that its kind does not name are left at their default and ignored.
struct Op {
  OpKind kind = OpKind::kCall;
  uint32_t line = 0;         // in the file it was read from, 0 = made in memory; not compared
  uint32_t thread = 0;       // host ops: index into Rank::threads
  uint32_t stream = 0;       // device and event ops: index into Rank::streams
  bool launched = true;      // device ops: by the last call above; else by nobody that is known
  Nanos gap;                 // signed
  Nanos own;                 // >= 0, but a collective's may be negative (clocks disagree by that much)
  uint32_t name = kNoIndex;  // kernels, collectives, pushes: index into Scenario::names
  // calls
  uint32_t cbid = 0;  // CUPTI's callback id
  bool driver = false;
  Wait wait = Wait::kNothing;
  std::vector<uint32_t> wait_streams;
  Nanos tail;  // signed
  // kernels and collectives
  Geometry geometry;
  // copies, sets, collectives (NCCL's convention: bytes of the count a rank passes)
  uint64_t bytes = 0;
  uint32_t copy_kind = 0;  // CUpti_ActivityMemcpyKind
  uint32_t value = 0;      // sets
  // collectives
  Collective collective = Collective::kAllReduce;
  uint32_t group = 0;  // index into Scenario::groups
  int32_t peer = -1;   // rank in the group: root of rooted operations, other side of sends and receives
  std::string datatype;
  // events
  uint32_t event = 0;

  bool IsHost() const { return kind == OpKind::kCall || kind == OpKind::kPush || kind == OpKind::kPop; }
  bool IsDevice() const {
    return kind == OpKind::kKernel || kind == OpKind::kCopy || kind == OpKind::kSet ||
           kind == OpKind::kCollective;
  }
};

struct Group {
  uint64_t comm = 0;  // NCCL's communicator id; 0: NCCL's profiler is not told of the group
  std::string name;
  std::vector<uint32_t> members;  // world ranks in the order of their rank in the group
};

struct Rank {
  std::string host;
  uint32_t device = 0;
  std::vector<uint32_t> streams;  // CUPTI's stream ids
  std::vector<uint32_t> threads;  // numbers that tell threads apart; 0 is the main thread
  std::vector<Op> program;        // one turn, in the order the host issues it
};

// kChain: a rank's next turn follows its own previous one. kLoop: turn k of every rank has its origin at k *
// period.
enum class Pacing : uint8_t { kChain, kLoop };

struct Scenario {
  Pacing pacing = Pacing::kChain;
  Nanos period;            // kLoop
  uint32_t noise_ppm = 0;  // standard deviation of device durations, relative
  uint64_t buffered_bytes = 4 * 1024 * 1024;
  // "{step}" in a push's name becomes the turn's number; "{step:3:1}" counts three steps a turn: 3 * turn
  // + 1.
  std::vector<std::string> names;
  std::vector<Group> groups;
  std::vector<Rank> ranks;

  // The text's index, added when it is new. Linear in the number of names.
  uint32_t AddName(std::string_view text);
};

// Checks what the text cannot show line by line: indices, that all members of a group run the same
// collectives in the same order, that sends and receives pair. The error names rank and line. A valid
// scenario may still deadlock; a dry run (sim/dry_run.h) tells.
absl::Status Validate(const Scenario& scenario);

// Everything takes `factor` times as long.
void Stretch(Scenario& scenario, uint32_t factor);

// Never crashes on hostile text. Errors: kInvalidArgument, "FILE:LINE: what is wrong; what would be right".
// The result is Validate()d.
absl::StatusOr<Scenario> Parse(std::string_view text, std::string_view file_name);
absl::StatusOr<Scenario> ReadFile(const std::string& path);

// Hands the text to `out` piece by piece and stops at its first error. Parse() gives the same scenario back.
absl::Status Write(const Scenario& scenario, const std::function<absl::Status(std::string_view)>& out);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_COMMON_SCENARIO_SCENARIO_H_
