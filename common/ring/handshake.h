// Messages on the daemon's client socket (AF_UNIX, SOCK_SEQPACKET): one struct per packet, fixed size per type.
//
//   client                                    daemon
//   Hello            ──▶
//                    ◀──  Welcome (+ memfd by SCM_RIGHTS)   or  Refuse
//                    ◀──  Arm
//   State armed      ──▶                                     or  State failed, with why
//                    ◀──  Start (T0, T1)
//   State capturing  ──▶
//   State done       ──▶                                     after T1, or after Stop
//                    ◀──  Stop                               early end
//
// A client that reconnects offers the segment it holds (Hello.has_segment, + its memfd by SCM_RIGHTS): the daemon drains what
// an earlier daemon left in it and then sends a new Welcome. Who the peer is comes from the kernel (SO_PEERCRED), never
// from these bytes. All numbers little-endian; text is UTF-8, zero-terminated, cut to fit. Document:
// docs/formats/handshake.md; version rule as record.h (Hello carries the client's newest layout, the daemon answers with
// that or an older one it knows).
#ifndef LOCKSTEP_COMMON_RING_HANDSHAKE_H_
#define LOCKSTEP_COMMON_RING_HANDSHAKE_H_

#include <cstdint>

namespace lockstep::ring {

enum class MessageType : uint32_t {
  kHello = 1, kWelcome = 2, kRefuse = 3, kArm = 4, kStart = 5, kStop = 6, kState = 7,
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
  kActivityKernel = 1u << 0, kActivityMemcpy = 1u << 1, kActivityMemset = 1u << 2, kActivityRuntime = 1u << 3,
  kActivityDriver = 1u << 4, kActivitySync = 1u << 5, kActivityNvtx = 1u << 6, kActivityNccl = 1u << 7,
  kActivityMemory = 1u << 8,
  kActivityNcclKernelTimes = 1u << 9,  // KernelChannelRecord; implies kActivityNccl, as the next
  kActivityNcclProxy = 1u << 10,       // ProxyOpRecord
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

struct Start {
  MessageHeader header;
  uint64_t capture;
  int64_t t0_realtime_ns;  // the client's host clock; records that start in [t0, t1) are kept
  int64_t t1_realtime_ns;
};
static_assert(sizeof(Start) == 40);

struct Stop {
  MessageHeader header;
  uint64_t capture;
  uint32_t abort;  // 1: forget it, nothing is wanted any more
  uint32_t reserved0;
};
static_assert(sizeof(Stop) == 32);

enum class ClientState : uint32_t { kIdle = 0, kArmed = 1, kCapturing = 2, kDone = 3, kFailed = 4 };

struct State {
  MessageHeader header;
  uint64_t capture;
  ClientState state;
  uint32_t cupti_version;
  int64_t late_ns;          // kCapturing: how long after T0 the client learned of it, 0 when in time
  uint64_t records;         // kDone: written to the rings in this capture
  uint64_t outside_window;  // kDone: seen but outside [T0, T1): not a loss
  char text[240];           // kFailed: why, one sentence
};
static_assert(sizeof(State) == 296);

}  // namespace lockstep::ring

#endif  // LOCKSTEP_COMMON_RING_HANDSHAKE_H_
