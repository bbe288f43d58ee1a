// Messages on the daemon's client socket (AF_UNIX, SOCK_SEQPACKET). Each packet holds one struct, and each
// type has a fixed size.
//
//   client                                    daemon
//   Presence         ──▶                                    only while the process has no CUDA context
//   Hello            ──▶
//                    ◀──  Welcome (+ memfd by SCM_RIGHTS)   or Refuse
//                    ◀──  Arm
//   State armed      ──▶                                    or State failed, with the reason
//                    ◀──  Start (T0, T1)                    State waiting follows only with a trigger
//   State waiting    ──▶                                    again at each new step, at most once a second
//                    ◀──  Start                             only after kReportStep: the step of all ranks
//   State capturing  ──▶                                    at T0 or at the trigger
//   Profile          ──▶ (+ memfd by SCM_RIGHTS)            before State done, if Arm requested it
//   State done       ──▶                                    after T1 or Stop
//                    ◀──  Stop                              ends the capture early
//
// A client that reconnects gets a new segment. Records that an earlier daemon left in the old one belong to a
// capture that ended with that daemon. The daemon identifies the peer by the kernel's credentials
// (SO_PEERCRED), never by these bytes.
//
// Numbers are little-endian. Text is UTF-8, zero-terminated and cut to fit. Document:
// docs/formats/handshake.md. The version rule is that of record.h: a message grows only at its end. Hello
// carries the client's newest layout, and the daemon answers with that layout or with an older one that it
// knows.
#ifndef LOCKSTEP_WIRE_RING_HANDSHAKE_H_
#define LOCKSTEP_WIRE_RING_HANDSHAKE_H_

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
  kPresence = 9,
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
  int32_t claimed_pid;           // in the client's pid namespace, only for messages
  uint32_t reserved;             // 1 from older clients, which also pass their old segment; both are ignored
  uint64_t process_start_ticks;  // /proc/self/stat field 22; identifies the process together with the pid
  uint32_t cupti_version;        // 0 while CUPTI is not open
  uint32_t entry;     // how the library was loaded: 1 CUDA_INJECTION64_PATH, 2 LD_PRELOAD, 3 linked
  char version[32];   // of the client library
  char program[128];  // /proc/self/comm or argv[0]
  // Lines of "NAME=value": the variables of client/identity.cc that are set in this process.
  char identity[3072];
};
static_assert(sizeof(Hello) == 3280);

// The process has loaded the client, but has no CUDA context yet. It may be a launcher or a loader worker.
// The daemon does not answer, and shows the process in its status. Hello follows on the same connection when
// the first context exists. The message exists since 1.6; an older daemon refuses it.
struct Presence {
  MessageHeader header;
  // All fields are as in Hello.
  uint32_t layout_major;
  uint32_t layout_minor;
  int32_t claimed_pid;
  uint32_t entry;
  char version[32];
  char program[128];
};
static_assert(sizeof(Presence) == 192);

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

// The kinds of records to capture, one bit each.
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
  kActivityNcclKernelTimes = 1u << 9,  // KernelChannelRecord; this and the next imply kActivityNccl
  kActivityNcclProxy = 1u << 10,       // ProxyOpRecord
  kActivityPythonProfile = 1u << 11,   // not a record but a Profile; since 1.4
};
// kActivityDriver records launch calls only. The default leaves out kActivityMemory and all later bits.
inline constexpr uint32_t kDefaultActivities = 0xFF;

struct Arm {
  MessageHeader header;
  uint64_t capture;  // the daemon's number for this request
  uint64_t epoch;    // epoch of this capture's strings
  uint32_t activities;
  uint32_t reserved0;
};
static_assert(sizeof(Arm) == 40);

// The event that opens the window.
enum class Begin : uint32_t {
  kAtT0 = 0,
  kAtStep = 1,   // one step before step `step`, so that earlier work is known; at its begin if it is too late
                 // for that
  kAtRange = 2,  // at the first range `range` that begins: TEXT or TEXT@DOMAIN
  kAtProfilerStart = 3,  // cudaProfilerStart or lockstep_profiler_start
  kReportStep = 4,       // not yet: the client reports its step; a second Start follows
};

// The event that closes the window if `begin` is not kAtT0.
enum class End : uint32_t {
  kAfterDuration = 0,  // `duration_ns` after the window opened
  // One step's time after the end of `steps` steps, because the device runs behind its host.
  kAfterSteps = 1,
  kAtRangeEnd = 2,      // at the end of the range that opened it
  kAtProfilerStop = 3,  // cudaProfilerStop or lockstep_profiler_stop
};

struct Start {
  MessageHeader header;
  uint64_t capture;
  int64_t t0_realtime_ns;  // on the client's host clock; records that start in [t0, t1) are kept
  int64_t t1_realtime_ns;  // with a trigger: the begin may come from t0 to t1, and the end within the same
                           // time after it
  // The fields from here on exist since 1.1. A Start of 1.0 counts as 0 in all of them.
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
  uint32_t abort;  // 1: discard the capture
  uint32_t reserved0;
};
static_assert(sizeof(Stop) == 32);

// The reason why a client could not be armed, if the daemon acts on it.
enum class Refusal : uint32_t {
  kNone = 0,  // only `text` has the reason
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

// The reason why a window closed before its requested end. A window that the daemon or the user closed has
// none.
enum class Cut : uint32_t {
  kNone = 0,
  kEndMissed = 1,     // its closing event did not occur before the timeout
  kProgramEnded = 2,  // the process ended
  kTaken = 3,  // another tool took CUPTI or it failed: records are missing from some time on; since 1.6
};

struct State {
  MessageHeader header;
  uint64_t capture;
  ClientState state;
  uint32_t cupti_version;
  int64_t late_ns;          // kCapturing: time from T0 until the client received Start, 0 if it was in time
  uint64_t records;         // kDone: records written to the rings in this capture
  uint64_t outside_window;  // kDone: records outside [T0, T1), which are not lost ones
  char text[240];           // kFailed: the reason, one sentence; kDone: a remark on the window
  // The fields from here on exist since 1.1. A daemon whose Welcome says 1.0 does not receive them.
  int64_t t0_realtime_ns;  // kDone after a trigger, or with a Cut: begin of the recorded window; else 0
  int64_t t1_realtime_ns;
  uint64_t step;    // kWaiting: the step that began last
  int64_t step_ns;  // kWaiting: length of the last complete step; without one, time since the first began; 0:
                    // no step yet
  // The fields from here on exist since 1.3. A daemon whose Welcome says less does not receive them.
  Refusal refusal;  // kFailed
  Cut cut;          // kDone; since 1.5, older clients send kNone
  char holder[64];  // kHeld: the tool's name from CUPTI or the clock; empty: unknown
};
static_assert(sizeof(State) == 400);
inline constexpr uint32_t kStateBytes_1_0 = 296;
inline constexpr uint32_t kStateBytes_1_1 = 328;  // and 1.2

// The profile that Python's profiler took of the process's main thread in that capture. The memfd holds the
// output of cProfile and is sealed against changes. The message exists since 1.4, and a daemon whose Welcome
// says less does not receive it.
struct Profile {
  MessageHeader header;
  uint64_t capture;
  uint64_t bytes;    // of the file, at most kMostProfileBytes; 0: no profile
  int64_t begin_ns;  // begin of the profiling on the client's CLOCK_REALTIME
  int64_t end_ns;
  char text[240];  // the reason for no profile
};
static_assert(sizeof(Profile) == 288);
inline constexpr uint64_t kMostProfileBytes = 64u << 20;

}  // namespace lockstep::ring

#endif  // LOCKSTEP_WIRE_RING_HANDSHAKE_H_
