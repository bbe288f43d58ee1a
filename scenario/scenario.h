// A scenario is the program of a world of simulated ranks. Its text format is docs/formats/scenario.md.
//
// The generator (generator.h) and `lockstep export --format scenario` write scenarios, and only sim/ reads
// them. A scenario holds causes instead of stamps: signed gaps and service times. A replay without a fault
// reproduces the recorded stamps to the nanosecond. With a fault, all later operations move as they would in
// the job.
//
//   call        start = max(end of the thread's previous host op, end of the last host op above of the thread
//                           that it follows, iteration origin) + gap
//               end   = max(start + service time, ends of the device work it waits for) + tail
//   device op   start = max(end of the stream's previous op, start of its call,
//                           ends of the events it waits for, iteration origin) + gap
//               end   = start + service time
//   collective  as a device op, but end = latest start among the kernels whose data it needs + service time
//
// A scenario is a plain value, which can be copied. Times are virtual nanoseconds (base/time.h, kVirtual).
#ifndef LOCKSTEP_SCENARIO_SCENARIO_H_
#define LOCKSTEP_SCENARIO_SCENARIO_H_

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
  kSendReceive,  // one kernel with the sends and receives of all members: every member needs every member
  kBroadcast,
  kScatter,  // members need the root
  kReduce,
  kGather,  // the root needs every member, the others need none
  kSend,
  kReceive,  // the receiver needs the sender; above `buffered_bytes` both need each other
};
inline constexpr int kCollectives = 12;

enum class Needs : uint8_t { kAll, kRoot, kRootNeedsAll, kPeer };
Needs NeedsOf(Collective op);
// Returns "all_reduce", … as in report.json.
std::string_view CollectiveName(Collective op);

// The streams for which a blocking call waits. It waits for all work enqueued on them before it, and for its
// own.
enum class Wait : uint8_t { kNothing, kStreams, kAllStreams };

// A send or receive of a communication kernel.
struct Message {
  Collective collective = Collective::kSend;  // kSend or kReceive
  int32_t peer = -1;                          // rank in the group
  uint64_t bytes = 0;
  bool operator==(const Message&) const = default;
};

struct Geometry {
  uint32_t grid[3] = {1, 1, 1};
  uint32_t block[3] = {1, 1, 1};
  uint32_t registers = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
  bool operator==(const Geometry&) const = default;
};

// One line of a rank's program. Fields that do not belong to its kind keep their default and are ignored.
struct Op {
  OpKind kind = OpKind::kCall;
  uint32_t line = 0;    // line in the source file, 0 = made in memory; not compared
  uint32_t thread = 0;  // host ops: index into Rank::threads
  // host ops: another thread, which hands over to this one with its last host op above; kNoIndex: none
  uint32_t follows = kNoIndex;
  uint32_t stream = 0;  // device and event ops: index into Rank::streams
  bool launched =
      true;            // device ops: true if the last call above launched it, false if the launch is unknown
  Nanos gap;           // signed
  Nanos service_time;  // >= 0; negative only for a collective, if clocks disagree by more than its duration
  uint32_t name = kNoIndex;  // kernels, collectives, pushes: index into Scenario::names
  // calls
  uint32_t cbid = 0;  // CUPTI's callback id
  bool driver = false;
  Wait wait = Wait::kNothing;
  std::vector<uint32_t> wait_streams;
  Nanos tail;  // signed
  // kernels and collectives
  Geometry geometry;
  // copies, sets, collectives (as in NCCL, the bytes of the count that a rank passes)
  uint64_t bytes = 0;
  uint32_t copy_kind = 0;  // CUpti_ActivityMemcpyKind
  uint32_t value = 0;      // sets
  // collectives
  Collective collective = Collective::kAllReduce;
  uint32_t group = 0;  // index into Scenario::groups
  int32_t peer = -1;   // rank in the group: root of rooted operations, peer of sends and receives
  std::string datatype;
  // sends and receives: the kernel's other messages, in the same group. `collective`, `peer` and `bytes` are
  // the first one.
  std::vector<Message> more;
  // events
  uint32_t event = 0;

  bool IsHost() const { return kind == OpKind::kCall || kind == OpKind::kPush || kind == OpKind::kPop; }
  bool IsDevice() const {
    return kind == OpKind::kKernel || kind == OpKind::kCopy || kind == OpKind::kSet ||
           kind == OpKind::kCollective;
  }
};

// Returns the messages of a communication kernel in their order. Empty for all ops but sends and receives.
std::vector<Message> MessagesOf(const Op& op);

struct Group {
  uint64_t comm = 0;  // NCCL's communicator id; 0: hidden from NCCL's profiler
  std::string name;
  std::vector<uint32_t> members;  // world ranks in the order of their rank in the group
};

struct Rank {
  std::string host;
  uint32_t device = 0;
  std::vector<uint32_t> streams;  // CUPTI's stream ids
  std::vector<uint32_t> threads;  // numbers that identify threads; 0 is the main thread
  std::vector<Op> program;        // one iteration, in the order the host issues it
};

// kChain: a rank's next iteration follows its own previous one. kLoop: iteration k of every rank has the
// origin k * period.
enum class Pacing : uint8_t { kChain, kLoop };

struct Scenario {
  Pacing pacing = Pacing::kChain;
  Nanos period;            // kLoop
  uint32_t noise_ppm = 0;  // relative standard deviation of device durations
  uint64_t buffered_bytes = 4 * 1024 * 1024;
  // "{step}" in a push's name becomes the iteration's number. "{step:3:1}" counts three steps per iteration:
  // 3 * iteration + 1.
  std::vector<std::string> names;
  std::vector<Group> groups;
  std::vector<Rank> ranks;

  // Returns the index of `text`, and adds it if it is new. It takes time linear in the number of names.
  uint32_t AddName(std::string_view text);
};

// Checks the rules that involve several lines: valid indices, the same collectives in the same order on all
// members of a group, and pairs of sends and receives. The k-th send from one rank to another in a group
// belongs to the k-th receive. The error names rank and line. A valid scenario may still deadlock;
// sim/engine/dry_run.h finds that.
absl::Status Validate(const Scenario& scenario);

// Multiplies all times by `factor`.
void Stretch(Scenario& scenario, uint32_t factor);

// Parses a scenario and validates it. Hostile text never makes it crash. kInvalidArgument has "FILE:LINE:
// problem; remedy".
absl::StatusOr<Scenario> Parse(std::string_view text, std::string_view file_name);
absl::StatusOr<Scenario> ReadFile(const std::string& path);

// Passes the text to `out` piece by piece, and stops at its first error. Parse() reproduces the same
// scenario.
absl::Status Write(const Scenario& scenario, const std::function<absl::Status(std::string_view)>& out);

}  // namespace lockstep::scenario

#endif  // LOCKSTEP_SCENARIO_SCENARIO_H_
