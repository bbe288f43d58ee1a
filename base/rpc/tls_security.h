// Security by TLS, with certificates from files or of a token's authority.
#ifndef LOCKSTEP_BASE_RPC_TLS_SECURITY_H_
#define LOCKSTEP_BASE_RPC_TLS_SECURITY_H_

#include <grpcpp/security/tls_certificate_provider.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/rpc/security.h"
#include "base/tls/trust.h"

namespace lockstep::rpc {

struct TlsParts {
  Security::Kind kind = Security::Kind::kToken;
  // gRPC takes the program's own certificate and key from the result, and the certificates of the
  // authorities. Each channel and server asks for it again.
  using Provider = std::shared_ptr<grpc::experimental::CertificateProviderInterface>;
  std::function<absl::StatusOr<Provider>()> provider;
  // Returns the authorities that are trusted now.
  std::function<absl::StatusOr<tls::Trust>()> trust;
  enum class OwnCertificate : uint8_t { kNo, kYes };
  OwnCertificate own_certificate = OwnCertificate::kNo;  // needed for a server
  enum class ClientCertificates : uint8_t { kIgnored, kRequested };
  ClientCertificates client_certificates = ClientCertificates::kIgnored;
};

class TlsSecurity final : public Security {
 public:
  TlsSecurity(TlsParts parts, std::shared_ptr<const Clock> clock);
  ~TlsSecurity() override;

  std::shared_ptr<grpc::ServerCredentials> server_credentials() const override;
  std::shared_ptr<grpc::ChannelCredentials> channel_credentials() const override;
  absl::StatusOr<std::optional<tls::Identity>> CheckClient(const grpc::ServerContext& context) const override;
  absl::StatusOr<tls::Identity> CheckCertificate(const std::string& chain) const override;
  std::string server_problem() const override;
  bool has_certificate() const override { return parts_.own_certificate == TlsParts::OwnCertificate::kYes; }
  Kind kind() const override { return parts_.kind; }

 private:
  class ServerCheck;
  struct Result {
    MonoTime at;
    absl::StatusOr<tls::Identity> holder;
  };

  absl::StatusOr<tls::Identity> Check(const std::string& chain) const;

  const TlsParts parts_;
  const std::shared_ptr<const Clock> clock_;
  // gRPC may check a server after this object has ended.
  const std::shared_ptr<ServerCheck> server_check_;
  // Returns the last provider that could be made.
  TlsParts::Provider CurrentProvider() const;

  mutable Mutex mutex_;
  mutable TlsParts::Provider provider_ ABSL_GUARDED_BY(mutex_);
  // Results of the last second, by the certificate's text: a check takes 0.2 ms, and each daemon calls often.
  mutable absl::flat_hash_map<std::string, Result> results_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_TLS_SECURITY_H_
