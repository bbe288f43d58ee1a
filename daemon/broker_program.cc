#include "daemon/broker_program.h"

#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/access/user_directory.h"
#include "base/rpc/address.h"
#include "base/rpc/status_macros.h"
#include "base/service_manager.h"
#include "base/tls/tls_folder.h"
#include "daemon/broker/broker_service.h"
#include "daemon/broker/privileges.h"
#include "daemon/node/own_access.h"
#include "daemon/node/socket.h"

namespace lockstep::daemon {
namespace {

constexpr Nanos kNoWatchdog = Nanos::Seconds(3600);

std::string BrokerSocketOf(const Options& options) { return SocketFolderOf(options) + "/broker.sock"; }

// The order of the sockets. All further ones are those at which PyTorch's profilers ask.
constexpr size_t kControlSocket = 0;
constexpr size_t kClientSocket = 1;
constexpr size_t kFirstKinetoSocket = 2;

std::vector<int> DescriptorsOf(const DaemonSockets& sockets) {
  std::vector<int> descriptors = {sockets.control.fd(), sockets.clients.fd()};
  for (const KinetoSocket& socket : sockets.kineto.sockets) descriptors.push_back(socket.fd());
  return descriptors;
}

Fd SignalsThatEnd() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
  return Fd(signalfd(-1, &set, SFD_CLOEXEC));
}

std::string FolderOfSocket(int socket) {
  sockaddr_un address = {};
  socklen_t length = sizeof(address) - 1;  // a zero follows
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  const std::string path = address.sun_path;
  return path.substr(0, path.rfind('/'));
}

}  // namespace

BrokerSettings BrokerSettingsOf(const Options& options, const DaemonSockets& sockets) {
  BrokerSettings settings;
  for (const KinetoSocket& socket : sockets.kineto.sockets)
    settings.socket_folders.push_back(socket.folder());
  for (const std::string& text : options.aggregators) {
    const absl::StatusOr<rpc::Address> address = rpc::Address::Parse(text);
    if (address.ok() && address->is_unix()) settings.connectable.push_back(address->path());
  }
  if (!options.token_file.empty()) settings.readable.push_back(options.token_file);
  if (!options.tls_dir.empty()) {
    const tls::TlsFolder folder(options.tls_dir, nullptr, &LogNothing);
    for (const char* file : {tls::kAuthoritiesFile, tls::kCertificateFile, tls::kKeyFile, tls::kRevokedFile})
      settings.readable.push_back(folder.PathOf(file));
  }
  for (const std::string& file : {options.audit_file, options.log_file}) {
    if (!file.empty()) settings.appendable.push_back(file);
  }
  return settings;
}

absl::Status RunBrokerService(const Options& options, Log& log) {
  if (geteuid() != 0) return absl::PermissionDeniedError("--broker-for: only root can be the broker");
  const std::optional<uid_t> user = SystemUsers().UserOf(options.broker_for);
  if (!user || *user == 0) {
    return absl::NotFoundError(
        absl::StrCat("--broker-for ", options.broker_for,
                     ": the user does not exist, or it is root; create one: adduser --system --group ",
                     options.broker_for));
  }
  // The abstract name belongs to a network namespace, and the service may have one of its own.
  LOCKSTEP_ASSIGN_OR_RETURN(const DaemonSockets sockets, OpenDaemonSockets(options, AbstractName::kNo));
  for (const std::string& error : sockets.kineto.errors) log.Warning("kineto_socket", {{"reason", error}});
  // All users may connect, but only the daemon's user is served.
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket own,
                            ListeningSocket::Open(BrokerSocketOf(options), SOCK_SEQPACKET, 0666));
  const Fd stop = SignalsThatEnd();
  if (!stop.ok()) return absl::ErrnoToStatus(errno, "cannot wait for signals");
  if (!BecomeBroker()) return absl::PermissionDeniedError("the broker cannot give up its capabilities");
  BrokerSettings settings = BrokerSettingsOf(options, sockets);
  settings.sockets = DescriptorsOf(sockets);
  const OwnAccess access;
  Broker broker(std::move(settings), access);
  BrokerService service(std::move(own), *user, broker, log);
  log.Info("broker", {{"socket", BrokerSocketOf(options)}, {"user", options.broker_for}, {"pid", getpid()}});
  const char* manager = std::getenv(kServiceManagerVariable);
  NotifyServiceManager(manager, kServiceReady);
  const std::optional<Nanos> watchdog =
      WatchdogPeriod(std::getenv(kWatchdogTimeVariable), std::getenv(kWatchdogPidVariable), getpid());
  service.Run(stop.get(), watchdog.value_or(kNoWatchdog),
              [manager] { NotifyServiceManager(manager, kServiceAlive); });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<BrokerAccess>> ConnectToBroker(const Options& options) {
  const std::string path = BrokerSocketOf(options);
  sockaddr_un address = {};
  const socklen_t length = PathAddress(path, &address);
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (length == 0 || !socket.ok() ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    return absl::UnavailableError(absl::StrCat(
        "no broker listens at ", path, ": start lockstepd-broker.service, or leave --with-broker out"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Peer peer, PeerOf(socket.get()));
  if (peer.uid != 0)
    return absl::PermissionDeniedError(
        absl::StrCat("the broker at ", path, " is user ", peer.uid, "'s, not root's"));
  return std::make_shared<BrokerAccess>(std::move(socket));
}

absl::StatusOr<DaemonSockets> ReceiveDaemonSockets(const Options& options, const BrokerAccess& broker) {
  Fd control = broker.TakeSocket(kControlSocket);
  if (!control.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the broker refuses user ", geteuid(), ": run as the user of its --broker-for"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket control_socket,
                            ListeningSocket::Received(ControlSocketOf(options), std::move(control)));
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket clients,
                            ListeningSocket::Received(options.socket, broker.TakeSocket(kClientSocket)));
  KinetoSockets kineto;
  if (options.kineto != Options::Kineto::kOff) {
    kineto = OpenKinetoSockets(
        options.kineto == Options::Kineto::kOn ? AbstractName::kYes : AbstractName::kNo, {});
    for (size_t i = kFirstKinetoSocket;; ++i) {
      Fd socket = broker.TakeSocket(i);
      if (!socket.ok()) break;
      const std::string folder = FolderOfSocket(socket.get());
      kineto.sockets.emplace_back(std::move(socket), folder);
    }
  }
  return DaemonSockets{0, Fd(), std::move(kineto), std::move(control_socket), std::move(clients)};
}

}  // namespace lockstep::daemon
