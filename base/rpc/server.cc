#include "base/rpc/server.h"

#include <grpcpp/security/server_credentials.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

absl::Status CheckFolder(const std::string& socket_path) {
  const size_t slash = socket_path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : socket_path.substr(0, slash);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot use folder ", folder));
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat("folder ", folder, " of socket ", socket_path,
                     " must belong to you and be accessible to you only: chmod 700 ", folder));
  }
  return absl::OkStatus();
}

absl::Status RemoveDeadSocket(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return absl::OkStatus();
  if (!S_ISSOCK(info.st_mode)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists and is not a socket: choose another path"));
  }
  if (ConnectUnix(path).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat("another process listens on ", path, ": choose another path"));
  }
  if (unlink(path.c_str()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot remove dead socket ", path));
  return absl::OkStatus();
}

}  // namespace

void Configure(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

absl::Status MayListen(const Address& address, HasToken token) {
  if (address.is_unix() || token == HasToken::kYes) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("TCP port ", address.target(),
                   " needs a token, because every user of the machine can reach it; give --token-file"));
}

absl::Status Listen(grpc::ServerBuilder& builder, const Address& address, const Token& token, int* port) {
  if (address.is_unix()) {
    LOCKSTEP_RETURN_IF_ERROR(CheckFolder(address.path()));
    LOCKSTEP_RETURN_IF_ERROR(RemoveDeadSocket(address.path()));
  } else {
    LOCKSTEP_RETURN_IF_ERROR(MayListen(address, token.empty() ? HasToken::kNo : HasToken::kYes));
  }
  builder.AddListeningPort(address.target(), grpc::InsecureServerCredentials(), port);
  return absl::OkStatus();
}

}  // namespace lockstep::rpc
