// Messages on the daemon's client socket (AF_UNIX, SOCK_SEQPACKET): one struct per packet, fixed size per
// type.
//
//   client                                    daemon
//   Hello            ──▶
//                    ◀──  Welcome (+ memfd by SCM_RIGHTS)   or  Refuse
//                    ◀──  Arm
//   State armed      ──▶                                     or  State failed, with why
//                    ◀──  Start (T0, T1)                    or with a trigger: then
//   State waiting    ──▶                                     (again whenever the step changes, once a second
//   at most)
//                    ◀──  Start                             only after kReportStep: the step that all ranks
//                    begin at
//   State capturing  ──▶                                     at T0, or when the trigger came
//   Profile          ──▶ (+ memfd by SCM_RIGHTS)             before State done, where Arm asked for it
//   State done       ──▶                                     after T1, or after Stop
//                    ◀──  Stop                               early end
//
// A client that reconnects offers the segment it holds (Hello.has_segment, + its memfd by SCM_RIGHTS): the
// daemon drains what an earlier daemon left in it and then sends a new Welcome. Who the peer is comes from
// the kernel (SO_PEERCRED), never from these bytes. All numbers little-endian; text is UTF-8,
// zero-terminated, cut to fit. Document: docs/formats/handshake.md; version rule as record.h: a message grows
// at its end only (Hello carries the client's newest layout, the daemon answers with that or an older one it
// knows).
#ifndef LOCKSTEP_COMMON_RING_HANDSHAKE_H_
#define LOCKSTEP_COMMON_RING_HANDSHAKE_H_

#include <cstdint>

namespace lockstep::ring {

enum class MessageType : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kRefuse = 3,
  kArm = 4,
  kStart = 5,
  kStop = 6,
  kState = 7,
  kProfile = 8,
};

struct MessageHeader {
  uint64_t magic;  // kHandshakeMagic
  MessageType type;
  uint32_t bytes;  // whole message
};
inline constexpr uint64_t kHandshakeMagic = 0x31304B485354534Cull;  // "LSTSHK01"

struct Hello {
  MessageHeader header;
  uint32_t layout_major;
  uint32_t layout_minor;
  int32_t claimed_pid;  // in the client's pid namespace, for messages only
  uint32_t has_segment;
  uint64_t process_start_ticks;  // /proc/self/stat field 22: with the pid it names the process
  uint32_t cupti_version;        // 0 while CUPTI is not open
  uint32_t entry;                // how we got in: 1 CUDA_INJECTION64_PATH, 2 LD_PRELOAD, 3 linked
  char version[32];              // of the client library
  char program[128];             // /proc/self/comm or argv[0]
  // "NAME=value\n" lines: the identity variables of contract.md ("Who is who") that are set in this process.
  char identity[3072];
};
static_assert(sizeof(Hello) == 3280);

struct Welcome {
  MessageHeader header;
  uint32_t layout_major;
  uint32_t layout_minor;
  uint64_t segment_bytes;
  uint64_t incarnation;
  uint64_t epoch;
};
static_assert(sizeof(Welcome) == 48);

struct Refuse {
  MessageHeader header;
  char reason[240];
};
static_assert(sizeof(Refuse) == 256);

// What to record: bit per class of records.
enum Activities : uint32_t {
  kActivityKernel = 1u << 0,
  kActivityMemcpy = 1u << 1,
  kActivityMemset = 1u << 2,
  kActivityRuntime = 1u << 3,
  kActivityDriver = 1u << 4,
  kActivitySync = 1u << 5,
  kActivityNvtx = 1u << 6,
  kActivityNccl = 1u << 7,
  kActivityMemory = 1u << 8,
  kActivityNcclKernelTimes = 1u << 9,  // KernelChannelRecord; implies kActivityNccl, as the next
  kActivityNcclProxy = 1u << 10,       // ProxyOpRecord
  kActivityPythonProfile = 1u << 11,   // no record: a Profile; since 1.4
};
// Driver means the launch calls only; memory and what follows it are opt-in.
inline constexpr uint32_t kDefaultActivities = 0xFF;

struct Arm {
  MessageHeader header;
  uint64_t capture;  // the daemon's number for this request
  uint64_t epoch;    // of the strings of this capture
  uint32_t activities;
  uint32_t reserved0;
};
static_assert(sizeof(Arm) == 40);

// What opens the window.
enum class Begin : uint32_t {
  kAtT0 = 0,
  kAtStep = 1,   // one step before step `step` begins, or at its begin where that is past: what ran before it
                 // is then known
  kAtRange = 2,  // the first range `range` that begins: its text, or TEXT@DOMAIN
  kAtProfilerStart = 3,  // cudaProfilerStart or lockstep_profiler_start
  kReportStep = 4,       // nothing yet: say which step this rank is at; a second Start follows
};

// What closes it, where `begin` is not kAtT0.
enum class End : uint32_t {
  kAfterDuration = 0,  // `duration_ns` after it was opened
  kAfterSteps =
      1,  // when `steps` steps have ended, and one step's time later: the device runs behind its host
  kAtRangeEnd = 2,      // of the range that opened it
  kAtProfilerStop = 3,  // cudaProfilerStop or lockstep_profiler_stop
};

struct Start {
  MessageHeader header;
  uint64_t capture;
  int64_t t0_realtime_ns;  // the client's host clock; records that start in [t0, t1) are kept
  int64_t t1_realtime_ns;  // with a trigger: it is looked for from t0 to t1, and its end for as long again
  // Since 1.1; all 0 from an older daemon.
  Begin begin;
  End end;
  uint64_t step;
  uint64_t steps;
  int64_t duration_ns;
  char range[128];
};
static_assert(sizeof(Start) == 200);
inline constexpr uint32_t kStartBytes_1_0 = 40;

struct Stop {
  MessageHeader header;
  uint64_t capture;
  uint32_t abort;  // 1: forget it, nothing is wanted any more
  uint32_t reserved0;
};
static_assert(sizeof(Stop) == 32);

// Why a client could not be armed, where that decides what is done about it.
enum class Refusal : uint32_t {
  kNone = 0,  // `text` says it all
  kHeld = 1,  // another tool in the process holds CUPTI
};

enum class ClientState : uint32_t {
  kIdle = 0,
  kArmed = 1,
  kCapturing = 2,
  kDone = 3,
  kFailed = 4,
  kWaiting = 5
};

struct State {
  MessageHeader header;
  uint64_t capture;
  ClientState state;
  uint32_t cupti_version;
  int64_t late_ns;          // kCapturing: how long after T0 the client learned of it, 0 when in time
  uint64_t records;         // kDone: written to the rings in this capture
  uint64_t outside_window;  // kDone: seen but outside [T0, T1): not a loss
  char text[240];           // kFailed: why, one sentence; kDone: what there is to say of the window
  // Since 1.1; not sent to a daemon whose Welcome says 1.0.
  int64_t t0_realtime_ns;  // kDone after a trigger: the window that was recorded, else 0
  int64_t t1_realtime_ns;
  uint64_t step;    // kWaiting: the step that has begun last
  int64_t step_ns;  // kWaiting: how long the last one took; at least so long where none has ended; 0 while no
                    // step was seen
  // Since 1.3; not sent to a daemon whose Welcome says less.
  Refusal refusal;  // kFailed
  uint32_t reserved0;
  char holder[64];  // kHeld: who, as CUPTI or the clock tells it; empty: it cannot be told
};
static_assert(sizeof(State) == 400);
inline constexpr uint32_t kStateBytes_1_0 = 296;
inline constexpr uint32_t kStateBytes_1_1 = 328;  // and 1.2

// What Python's profiler took of the process's main thread, for that capture, with the file as cProfile
// writes it: a memory file sealed against change. Since 1.4; not sent to a daemon whose Welcome says less.
struct Profile {
  MessageHeader header;
  uint64_t capture;
  uint64_t bytes;    // of the file, at most kMostProfileBytes; 0: there is none
  int64_t begin_ns;  // the client's CLOCK_REALTIME: when the profiler was begun and ended in truth
  int64_t end_ns;
  char text[240];  // why there is none
};
static_assert(sizeof(Profile) == 288);
inline constexpr uint64_t kMostProfileBytes = 64u << 20;

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_HANDSHAKE_H_
