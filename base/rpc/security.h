// Security protects the TCP connections of a program with TLS. It also identifies the program at the other
// end. Unix sockets need none of it, because the kernel protects and identifies their ends.
//
// Three kinds:
//   a folder with certificates   A server requests a certificate from its clients, and calls are made in the
//                                name of the certificate's holder. A client may have none, and prove its user
//                                by a token or by MUNGE.
//   a token                      All who know the token derive the same authority from it (tls::Authority).
//                                The server has a certificate of that authority. Clients send the token,
//                                and only after they have checked the server's certificate.
//   plaintext                    Everybody on the way can read tokens and records, and alter them.
//
// Plaintext has to be asked for. It is for a network that is protected in another way.
#ifndef LOCKSTEP_BASE_RPC_SECURITY_H_
#define LOCKSTEP_BASE_RPC_SECURITY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/rpc/token.h"
#include "base/tls/identity.h"
#include "base/tls/tls_folder.h"
#include "base/tls/tls_server.h"

namespace grpc {
class ChannelCredentials;
class ServerContext;
class ServerCredentials;
}  // namespace grpc

namespace lockstep::rpc {

// Settings of the same names.
struct SecuritySettings {
  std::string tls_dir;  // folder with ca.crt, tls.crt, tls.key (tls::TlsFolder); empty: none
  tls::OpenFile open_file = &tls::OpenDirectly;  // opens the folder's files, but for a gRPC server
  Token token;                                   // may be empty
  enum class Plaintext : uint8_t { kNo, kYes };
  Plaintext plaintext = Plaintext::kNo;
};

// Any thread.
class Security {
 public:
  virtual ~Security() = default;

  // kFailedPrecondition: the settings have neither a folder nor a token, and do not ask for plaintext; the
  // message has the remedy. Other errors are those of the folder's files. `holder` is the owner of the
  // folder's certificate, which a client may lack. `log` is that of tls::TlsFolder.
  static absl::StatusOr<std::shared_ptr<Security>> ForServer(const SecuritySettings& settings,
                                                             std::shared_ptr<const Clock> clock, LogSink log);
  static absl::StatusOr<std::shared_ptr<Security>> ForClient(const SecuritySettings& settings,
                                                             tls::Holder holder,
                                                             std::shared_ptr<const Clock> clock, LogSink log);

  virtual std::shared_ptr<grpc::ServerCredentials> server_credentials() const = 0;
  virtual std::shared_ptr<grpc::ChannelCredentials> channel_credentials() const = 0;

  // Returns the holder of the certificate of a call's client; nothing if it presented none.
  // kUnauthenticated: the certificate is not valid (tls::Trust::Check).
  virtual absl::StatusOr<std::optional<tls::Identity>> CheckClient(
      const grpc::ServerContext& context) const = 0;
  // Returns the holder of a client's certificate (a chain in PEM form) of which the client has proved that it
  // has the key. Errors as above.
  virtual absl::StatusOr<tls::Identity> CheckCertificate(const std::string& chain) const = 0;
  // Returns why the certificate of a server was refused since the last channel_credentials(); empty if none
  // was. gRPC itself only reports that it is not connected.
  virtual std::string server_problem() const = 0;
  // Returns whether a client proves its identity with a certificate.
  virtual bool has_certificate() const = 0;
  enum class Kind : uint8_t { kCertificates, kToken, kPlaintext };
  virtual Kind kind() const = 0;
};

// The error for a TCP connection or port without protection, with the remedy. `what` begins the sentence.
absl::Status NotProtected(const std::string& what);

// Returns the same protection for an HTTP port of `holder`, an aggregator or a node; null for plaintext. With
// a token, the certificate has the host name tls::kHttpName. Errors as those of Security::ForServer.
absl::StatusOr<std::shared_ptr<tls::TlsServer>> TlsForHttp(const SecuritySettings& settings,
                                                           tls::Holder holder,
                                                           std::shared_ptr<const Clock> clock, LogSink log);

// For `lockstep status`: "certificates", "token" or "plaintext".
const char* ProtectionName(Security::Kind kind);

// Settings that a server was given.
struct GivenSettings {
  bool tls_dir = false;
  bool token = false;
  bool munge = false;
  bool plaintext = false;
};
// Checks that a server with a TCP port protects it and can identify its callers. kFailedPrecondition has the
// remedy.
absl::Status MayListen(const GivenSettings& given);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_SECURITY_H_
