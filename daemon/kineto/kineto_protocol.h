// Encodes and parses the datagrams between PyTorch's libkineto and a tracing daemon
// (docs/formats/kineto_ipc.md). Pure functions.
//
// The protocol is dynolog's. A process started with KINETO_USE_DAEMON asks the socket with the daemon's name
// every few seconds whether a trace is wanted. No byte from a client is trusted; its identity comes from the
// kernel.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_PROTOCOL_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::daemon {

// Prefix of the socket file that a client binds for its answers, in the folder KINETO_IPC_SOCKET_DIR.
inline constexpr char kKinetoClientPrefix[] = "dynoconfigclient";
inline constexpr size_t kKinetoHeaderBytes = 40;
// Limit for the process and its ancestors, in its pid namespace; clients send at most 11.
inline constexpr size_t kMostKinetoPids = 64;
// Largest valid request. The receiver reads one byte more to detect longer ones.
inline constexpr size_t kLargestKinetoRequest = kKinetoHeaderBytes + 16 + 4 * kMostKinetoPids;
// A datagram must fit the smallest usual socket buffer.
inline constexpr size_t kLargestKinetoConfig = 32u << 10;

struct KinetoRequest {
  enum class Kind : uint8_t { kRegister, kPoll };
  Kind kind = Kind::kPoll;
  // The trace types that the client would accept now. Old clients always send kEvents | kActivities. New ones
  // send kActivities, or 0 while busy.
  static constexpr int32_t kEvents = 1;
  static constexpr int32_t kActivities = 2;
  int32_t wants = 0;
  int64_t job = 0;  // SLURM_JOB_ID, or 0
  int32_t gpu = 0;  // set in a register request
  // The client's pid, then its ancestors', in the client's pid namespace. At least one.
  std::vector<int32_t> pids;
};

// kInvalidArgument: the datagram is not a valid request. Its sender gets no answer.
absl::StatusOr<KinetoRequest> ParseKinetoRequest(std::span<const std::byte> datagram);

// The answer to a poll: the text of a request, or empty if none is pending. `config` has at most
// kLargestKinetoConfig bytes.
std::string EncodeKinetoPollReply(std::string_view config);
// The answer to a register request: the number of known processes of the job.
std::string EncodeKinetoRegisterReply(int32_t processes);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_PROTOCOL_H_
