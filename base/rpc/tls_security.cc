#include "base/rpc/tls_security.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server_context.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status.h"
#include "base/rpc/status_macros.h"

namespace lockstep::rpc {
namespace {

constexpr Nanos kResultsLast = Nanos::Seconds(1);
constexpr size_t kMostResults = 4096;

using grpc::experimental::TlsCustomVerificationCheckRequest;

}  // namespace

// Checks the certificate of a server and keeps the reason for the last refusal.
class TlsSecurity::ServerCheck {
 public:
  ServerCheck(Security::Kind kind, std::function<absl::StatusOr<tls::Trust>()> trust,
              std::shared_ptr<const Clock> clock)
      : kind_(kind), trust_(std::move(trust)), clock_(std::move(clock)) {}

  absl::Status Check(const std::string& chain) {
    absl::Status good = Decide(chain);
    MutexLock lock(&mutex_);
    problem_ = good.ok() ? "" : std::string(good.message());
    return good;
  }
  void Forget() {
    MutexLock lock(&mutex_);
    problem_.clear();
  }
  std::string problem() const {
    MutexLock lock(&mutex_);
    return problem_;
  }

 private:
  absl::Status Decide(const std::string& chain) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const tls::Trust trust, trust_());
    const auto checked = trust.Check(chain, tls::Part::kServer, clock_->Realtime());
    if (checked.ok() && checked->identity.holder == tls::Holder::kAggregator) return absl::OkStatus();
    if (kind_ == Security::Kind::kToken) {
      return absl::UnauthenticatedError(
          "the aggregator does not have this token: use the token file with which it was started, or "
          "--tls-dir if "
          "it uses certificates");
    }
    if (!checked.ok()) return checked.status();
    return absl::UnauthenticatedError(
        absl::StrCat("the server is ", tls::TextOf(checked->identity), ", not an aggregator"));
  }

  const Security::Kind kind_;
  const std::function<absl::StatusOr<tls::Trust>()> trust_;
  const std::shared_ptr<const Clock> clock_;
  mutable Mutex mutex_;
  std::string problem_ ABSL_GUARDED_BY(mutex_);
};

namespace {

// gRPC's side of a ServerCheck.
template <typename ServerCheck>
class Verifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit Verifier(std::shared_ptr<ServerCheck> check) : check_(std::move(check)) {}
  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)> /*done*/,
              grpc::Status* result) override {
    const grpc::string_ref chain = request->peer_cert_full_chain();
    *result = ToGrpc(check_->Check(std::string(chain.data(), chain.size())));
    return true;  // `result` is set
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::shared_ptr<ServerCheck> check_;
};

}  // namespace

TlsSecurity::TlsSecurity(TlsParts parts, std::shared_ptr<const Clock> clock)
    : parts_(std::move(parts)),
      clock_(std::move(clock)),
      server_check_(std::make_shared<ServerCheck>(parts_.kind, parts_.trust, clock_)) {}

TlsSecurity::~TlsSecurity() = default;

TlsParts::Provider TlsSecurity::CurrentProvider() const {
  absl::StatusOr<TlsParts::Provider> made = parts_.provider();
  MutexLock lock(&mutex_);
  if (made.ok()) provider_ = *std::move(made);
  return provider_;
}

// gRPC requests the client's certificate and proves that the client has its key. CheckClient decides for each
// call whether the certificate is valid. A refusal then has a sentence and a line in the audit log, and a
// revoked certificate is refused on connections that already exist.
std::shared_ptr<grpc::ServerCredentials> TlsSecurity::server_credentials() const {
  grpc::experimental::TlsServerCredentialsOptions options(CurrentProvider());
  options.watch_identity_key_cert_pairs();
  if (parts_.client_certificates == TlsParts::ClientCertificates::kRequested)
    options.set_cert_request_type(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> TlsSecurity::channel_credentials() const {
  server_check_->Forget();  // an earlier refusal says nothing about the new channel
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(CurrentProvider());
  options.watch_root_certs();
  if (parts_.own_certificate == TlsParts::OwnCertificate::kYes) options.watch_identity_key_cert_pairs();
  // ServerCheck makes gRPC's own checks and more, and has a reason for each refusal.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<Verifier<ServerCheck>>(server_check_));
  return grpc::experimental::TlsCredentials(options);
}

absl::StatusOr<tls::Identity> TlsSecurity::Check(const std::string& chain) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::Trust trust, parts_.trust());
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::CheckedCertificate checked,
                            trust.Check(chain, tls::Part::kClient, clock_->Realtime()));
  return checked.identity;
}

absl::StatusOr<std::optional<tls::Identity>> TlsSecurity::CheckClient(
    const grpc::ServerContext& context) const {
  if (parts_.client_certificates == TlsParts::ClientCertificates::kIgnored) return std::nullopt;
  // On a server the chain does not contain the client's own certificate.
  std::string chain;
  for (const char* property : {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME}) {
    for (const grpc::string_ref& part : context.auth_context()->FindPropertyValues(property))
      chain.append(part.data(), part.size());
  }
  if (chain.empty()) return std::nullopt;
  return CheckCertificate(chain);
}

absl::StatusOr<tls::Identity> TlsSecurity::CheckCertificate(const std::string& chain) const {
  const MonoTime now = clock_->Monotonic();
  {
    MutexLock lock(&mutex_);
    const auto known = results_.find(chain);
    if (known != results_.end() && now - known->second.at < kResultsLast) return known->second.holder;
  }
  absl::StatusOr<tls::Identity> holder = Check(chain);
  MutexLock lock(&mutex_);
  if (results_.size() >= kMostResults) results_.clear();
  results_.insert_or_assign(chain, Result{now, holder});
  return holder;
}

std::string TlsSecurity::server_problem() const { return server_check_->problem(); }

}  // namespace lockstep::rpc
