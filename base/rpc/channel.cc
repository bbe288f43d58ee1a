#include "base/rpc/channel.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/rpc/address.h"
#include "base/rpc/backoff.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

grpc::ChannelArguments Arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, static_cast<int>(kFirstBackoff.millis()));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(kLongestBackoff.millis()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Channels with equal arguments would share a connection, and one blocked channel would then block the
  // others.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return arguments;
}

}  // namespace

void PrepareProcess() {
  setenv("GRPC_ENABLE_FORK_SUPPORT", "0", 1);
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // gRPC stays initialized until the process ends. Its own shutdown joins a thread that may be in a poll for
  // 10 s, and a third of all short captures had to wait for it.
  grpc_init();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address, const Security* tcp) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Address parsed, Address::Parse(address));
  if (parsed.is_unix())
    return grpc::CreateCustomChannel(parsed.target(), grpc::InsecureChannelCredentials(), Arguments());
  if (tcp == nullptr) return NotProtected(absl::StrCat("a connection to ", address));
  return grpc::CreateCustomChannel(parsed.target(), tcp->channel_credentials(), Arguments());
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectOver(Fd socket) {
  if (!socket.ok()) return absl::InvalidArgumentError("the socket is not open");
  const int flags = fcntl(socket.get(), F_GETFL);
  if (flags < 0 || fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make the socket non-blocking");
  }
  return grpc::CreateCustomInsecureChannelFromFd("lockstep", socket.release(), Arguments());
}

absl::StatusOr<Fd> ConnectUnix(const std::string& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(to.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path ", path, ": must have 1 to ", sizeof(to.sun_path) - 1, " characters"));
  }
  std::memcpy(to.sun_path, path.data(), path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, "cannot create a socket");
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot connect to ", path));
  }
  return fd;
}

void Prepare(grpc::ClientContext& context, const Token& token, Nanos deadline) {
  context.set_wait_for_ready(true);
  if (deadline != Nanos::Max()) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::nanoseconds(deadline.ns()));
  }
  if (!token.empty()) context.AddMetadata(kTokenMetadata, std::string(token.sent()));
}

}  // namespace lockstep::rpc
