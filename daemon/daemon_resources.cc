#include "daemon/daemon_resources.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/kineto_folder.h"
#include "base/rpc/status_macros.h"
#include "base/tls/tls_folder.h"

namespace lockstep::daemon {
namespace {

// The certificate binds the daemon to a node.
absl::Status TakeNodeOfCertificate(const tls::OpenFile& open, Options& options) {
  if (options.tls_dir.empty()) return absl::OkStatus();
  const tls::TlsFolder folder(options.tls_dir, std::make_shared<SystemClock>(), &LogNothing, open);
  if (!folder.has_certificate()) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::CheckedCertificate own, folder.Check(tls::Holder::kNode));
  if (options.node_id.empty()) options.node_id = own.identity.name;
  if (options.node_id == own.identity.name) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--node-id ", options.node_id, ": the certificate in ",
                                                    options.tls_dir, " is of node ", own.identity.name,
                                                    "; leave --node-id out"));
}

absl::StatusOr<rpc::Token> LoadToken(const Options& options, const HostAccess& access) {
  if (!options.with_broker) return rpc::Token::Load(options.token_file);
  const InputFile file = access.OpenToRead(options.token_file);
  if (file.fd.ok()) return rpc::Token::LoadOpen(file.fd, options.token_file);
  return absl::PermissionDeniedError(absl::StrCat("token file ", options.token_file, " ", file.why));
}

}  // namespace

LogSink SinkOf(Log& log) {
  return [&log](LogLevel level, const char* event, std::initializer_list<LogField> fields) {
    log.Write(level, event, fields);
  };
}

KinetoPathOptions KinetoPathOptionsOf(const Options& options, uid_t owner) {
  return {.owner = owner,
          .folder = KinetoFolderOf(options.socket),
          .well_known_names = options.kineto == Options::Kineto::kOn};
}

std::string ControlSocketOf(const Options& options) { return SocketFolderOf(options) + "/control.sock"; }

std::string SocketFolderOf(const Options& options) {
  const size_t slash = options.socket.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : options.socket.substr(0, slash);
}

absl::StatusOr<DaemonSockets> OpenDaemonSockets(const Options& options, AbstractName abstract_name) {
  const uid_t owner = geteuid();
  const std::string folder = SocketFolderOf(options);
  LOCKSTEP_RETURN_IF_ERROR(PrepareSocketFolder(folder));
  LOCKSTEP_ASSIGN_OR_RETURN(Fd lock, LockFile(options.socket + ".lock"));
  // The Kineto socket opens first: a process that finds the other sockets must find this one too.
  KinetoSockets kineto;
  if (options.kineto != Options::Kineto::kOff)
    kineto = KinetoCapturePath::OpenSockets(KinetoPathOptionsOf(options, owner), abstract_name);
  // Root's sockets accept all users; the caller's identity from the kernel decides their rights.
  const mode_t mode = owner == 0 ? 0666 : 0600;
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket control,
                            ListeningSocket::Open(ControlSocketOf(options), SOCK_STREAM, mode));
  LOCKSTEP_ASSIGN_OR_RETURN(ListeningSocket clients,
                            ListeningSocket::Open(options.socket, SOCK_SEQPACKET, mode));
  return DaemonSockets{owner, std::move(lock), std::move(kineto), std::move(control), std::move(clients)};
}

absl::StatusOr<DaemonResources> OpenDaemonResources(Options& options, DaemonSockets sockets,
                                                    std::shared_ptr<const HostAccess> access, Log& log) {
  DaemonResources resources{
      .sockets = std::move(sockets), .access = std::move(access), .security = {}, .audit_lines = nullptr};
  resources.security.tls_dir = options.tls_dir;
  resources.security.open_file = [access = resources.access](const std::string& path) {
    return access->OpenToRead(path);
  };
  LOCKSTEP_RETURN_IF_ERROR(TakeNodeOfCertificate(resources.security.open_file, options));
  if (options.plaintext) resources.security.plaintext = rpc::SecuritySettings::Plaintext::kYes;
  if (!options.token_file.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(resources.security.token, LoadToken(options, *resources.access));
  }
  if (!options.audit_file.empty()) {
    const AuditCopy copy = options.audit_syslog ? AuditCopy::kSyslog : AuditCopy::kNone;
    LOCKSTEP_ASSIGN_OR_RETURN(resources.audit_lines,
                              OpenAuditFile(options.audit_file, copy, "lockstepd", SinkOf(log),
                                            [access = resources.access](const std::string& path) {
                                              return access->OpenToAppend(path);
                                            }));
  }
  return resources;
}

}  // namespace lockstep::daemon
