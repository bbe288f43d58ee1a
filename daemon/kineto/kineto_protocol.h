// The datagrams that PyTorch's libkineto and a tracing daemon exchange (docs/formats/kineto_ipc.md). Pure.
//
// Somebody else's protocol, dynolog's: a job that was started with KINETO_USE_DAEMON asks whoever holds the
// daemon's name, every few seconds, whether a trace is wanted. Every byte from a client is a claim; who it is
// comes from the kernel, never from here.
#ifndef LOCKSTEP_DAEMON_KINETO_PROTOCOL_H_
#define LOCKSTEP_DAEMON_KINETO_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::daemon {

// Of the file that a client binds for its answers, in the folder of KINETO_IPC_SOCKET_DIR.
inline constexpr char kKinetoClientPrefix[] = "dynoconfigclient";
inline constexpr size_t kKinetoHeaderBytes = 40;
// The process and its ancestors, as it sees them; clients send 11 at most.
inline constexpr size_t kMostKinetoPids = 64;
// What a request may have in all; one byte more tells that it has too many.
inline constexpr size_t kLargestKinetoRequest = kKinetoHeaderBytes + 16 + 4 * kMostKinetoPids;
// A datagram must fit the smallest usual socket buffer.
inline constexpr size_t kLargestKinetoConfig = 32u << 10;

struct KinetoRequest {
  enum class Kind : uint8_t { kRegister, kPoll };
  Kind kind = Kind::kPoll;
  // What a poll would take now. Old clients always say kEvents | kActivities; new ones kActivities, or
  // nothing while busy.
  static constexpr int32_t kEvents = 1;
  static constexpr int32_t kActivities = 2;
  int32_t wants = 0;
  int64_t job = 0;  // SLURM_JOB_ID, or 0
  int32_t gpu = 0;  // of a register
  // The client's pid, then its ancestors', in the client's pid namespace. At least one.
  std::vector<int32_t> pids;
};

// kInvalidArgument with what is wrong. Whoever sends that gets no answer.
absl::StatusOr<KinetoRequest> ParseKinetoRequest(std::span<const std::byte> datagram);

// The answer to a poll: the text of a request, or nothing pending. `config` is at most kLargestKinetoConfig.
std::string EncodeKinetoPollReply(std::string_view config);
// The answer to a register: how many processes of the job are known.
std::string EncodeKinetoRegisterReply(int32_t processes);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_PROTOCOL_H_
