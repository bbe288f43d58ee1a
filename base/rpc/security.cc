#include "base/rpc/security.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rpc/job_token.h"
#include "base/rpc/status_macros.h"
#include "base/rpc/tls_security.h"
#include "base/tls/authority.h"
#include "base/tls/tls_folder.h"

namespace lockstep::rpc {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;
using grpc::experimental::IdentityKeyCertPair;
using grpc::experimental::StaticDataCertificateProvider;

constexpr unsigned kLookForNewFilesSeconds = 1;
// Of the certificate that a server makes for itself. It is in no file and ends with the server.
constexpr Nanos kOwnLifetime = Nanos::Seconds(86'400) * 3650;

class Plain final : public Security {
 public:
  std::shared_ptr<grpc::ServerCredentials> server_credentials() const override {
    return grpc::InsecureServerCredentials();
  }
  std::shared_ptr<grpc::ChannelCredentials> channel_credentials() const override {
    return grpc::InsecureChannelCredentials();
  }
  absl::StatusOr<std::optional<tls::Identity>> CheckClient(
      const grpc::ServerContext& /*context*/) const override {
    return std::nullopt;
  }
  absl::StatusOr<tls::Identity> CheckCertificate(const std::string& /*chain*/) const override {
    return absl::UnauthenticatedError("this port has no TLS, so it knows no certificates");
  }
  std::string server_problem() const override { return ""; }
  bool has_certificate() const override { return false; }
  Kind kind() const override { return Kind::kPlaintext; }
};

// Reads the files now. A client asks again for each connection.
absl::StatusOr<TlsParts::Provider> ProviderOfFiles(const tls::TlsFolder& folder,
                                                   TlsParts::OwnCertificate own) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string authorities, folder.ReadAuthorities());
  std::vector<IdentityKeyCertPair> pairs;
  if (own == TlsParts::OwnCertificate::kYes) {
    LOCKSTEP_ASSIGN_OR_RETURN(tls::KeyPair pair, folder.ReadKeyPair());
    pairs.push_back({std::move(pair.key), std::move(pair.chain)});
  }
  return std::make_shared<StaticDataCertificateProvider>(authorities, pairs);
}

absl::StatusOr<std::shared_ptr<Security>> OfFolder(const SecuritySettings& settings, tls::Holder holder,
                                                   std::shared_ptr<const Clock> clock, LogSink log) {
  auto folder = std::make_shared<tls::TlsFolder>(settings.tls_dir, clock, std::move(log), settings.open_file);
  LOCKSTEP_RETURN_IF_ERROR(folder->CurrentTrust().status());
  TlsParts parts;
  parts.kind = Security::Kind::kCertificates;
  parts.trust = [folder] { return folder->CurrentTrust(); };
  parts.client_certificates = TlsParts::ClientCertificates::kRequested;
  // A user may name their node's folder, whose certificate is of no use to them, for its ca.crt.
  const bool use_own =
      holder == tls::Holder::kUser ? folder->HolderOfCertificate() == holder : folder->has_certificate();
  if (use_own || holder == tls::Holder::kAggregator) {
    LOCKSTEP_RETURN_IF_ERROR(folder->Check(holder).status());
    parts.own_certificate = TlsParts::OwnCertificate::kYes;
  }
  if (holder == tls::Holder::kAggregator) {
    // A server's connections are made by gRPC, which must therefore look for new files itself.
    parts.provider = [folder]() -> absl::StatusOr<TlsParts::Provider> {
      return std::make_shared<FileWatcherCertificateProvider>(
          folder->PathOf(tls::kKeyFile), folder->PathOf(tls::kCertificateFile),
          folder->PathOf(tls::kAuthoritiesFile), kLookForNewFilesSeconds);
    };
  } else {
    parts.provider = [folder, own = parts.own_certificate] { return ProviderOfFiles(*folder, own); };
  }
  return std::make_shared<TlsSecurity>(std::move(parts), std::move(clock));
}

// The holder of a token for one job cannot derive the authority, so that token contains it.
absl::StatusOr<std::shared_ptr<Security>> OfJobToken(const Token& token, std::shared_ptr<const Clock> clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(const JobClaims claims, ReadJobToken(token.text()));
  if (claims.authority.empty()) {
    return absl::FailedPreconditionError(
        "the token has no certificate of the aggregator's authority: give --tls-dir with its ca.crt");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(tls::Trust trust, tls::Trust::Of(claims.authority, ""));
  TlsParts parts;
  parts.kind = Security::Kind::kToken;
  parts.trust = [trust] { return trust; };
  parts.provider = [authority = claims.authority]() -> absl::StatusOr<TlsParts::Provider> {
    return std::make_shared<StaticDataCertificateProvider>(authority, std::vector<IdentityKeyCertPair>());
  };
  return std::make_shared<TlsSecurity>(std::move(parts), std::move(clock));
}

absl::StatusOr<tls::KeyPair> MakePair(const tls::Authority& authority, const tls::Identity& identity,
                                      const Clock& clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::KeyAndRequest made, tls::MakeRequest());
  LOCKSTEP_ASSIGN_OR_RETURN(
      tls::SignedCertificate certificate,
      authority.Sign(made.request, identity, {tls::kHttpName}, clock.Realtime(), kOwnLifetime));
  return tls::KeyPair{std::move(certificate.pem), made.key};
}

absl::StatusOr<std::shared_ptr<Security>> OfToken(const Token& token, TlsParts::OwnCertificate own,
                                                  std::shared_ptr<const Clock> clock) {
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::Authority authority, tls::Authority::OfSecret(token.text()));
  LOCKSTEP_ASSIGN_OR_RETURN(tls::Trust trust, tls::Trust::Of(authority.certificate(), ""));
  std::vector<IdentityKeyCertPair> pairs;
  if (own == TlsParts::OwnCertificate::kYes) {
    LOCKSTEP_ASSIGN_OR_RETURN(const tls::KeyPair pair,
                              MakePair(authority, {tls::Holder::kAggregator, ""}, *clock));
    pairs.push_back({pair.key, pair.chain});
  }
  TlsParts parts;
  parts.kind = Security::Kind::kToken;
  parts.trust = [trust] { return trust; };
  parts.own_certificate = own;
  parts.provider = [anchor = authority.certificate(), pairs]() -> absl::StatusOr<TlsParts::Provider> {
    return std::make_shared<StaticDataCertificateProvider>(anchor, pairs);
  };
  return std::make_shared<TlsSecurity>(std::move(parts), std::move(clock));
}

}  // namespace

absl::Status NotProtected(const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat(what,
                   " needs protection, because others can reach it: give --token-file, or --tls-dir with "
                   "certificates"));
}

absl::StatusOr<std::shared_ptr<tls::TlsServer>> TlsForHttp(const SecuritySettings& settings,
                                                           tls::Holder holder,
                                                           std::shared_ptr<const Clock> clock, LogSink log) {
  using Clients = tls::TlsServer::ClientCertificates;
  if (settings.plaintext == SecuritySettings::Plaintext::kYes) return nullptr;
  if (!settings.tls_dir.empty()) {
    const auto folder = std::make_shared<tls::TlsFolder>(settings.tls_dir, clock, log, settings.open_file);
    LOCKSTEP_RETURN_IF_ERROR(folder->Check(holder).status());
    return tls::TlsServer::Make([folder] { return folder->ReadKeyPair(); }, Clients::kRequested,
                                std::move(clock), std::move(log));
  }
  if (settings.token.empty()) return NotProtected("an HTTP port");
  LOCKSTEP_ASSIGN_OR_RETURN(const tls::Authority authority, tls::Authority::OfSecret(settings.token.text()));
  // This certificate proves no node's id, because the token speaks for all nodes.
  const tls::Identity identity = {holder, holder == tls::Holder::kNode ? tls::kHttpName : ""};
  LOCKSTEP_ASSIGN_OR_RETURN(tls::KeyPair pair, MakePair(authority, identity, *clock));
  return tls::TlsServer::Make([pair = std::move(pair)] { return pair; }, Clients::kIgnored, std::move(clock),
                              std::move(log));
}

const char* ProtectionName(Security::Kind kind) {
  switch (kind) {
    case Security::Kind::kCertificates:
      return "certificates";
    case Security::Kind::kToken:
      return "token";
    case Security::Kind::kPlaintext:
      return "plaintext";
  }
  return "";
}

absl::Status MayListen(const GivenSettings& given) {
  if (given.token) return absl::OkStatus();
  if (!given.plaintext) return given.tls_dir ? absl::OkStatus() : NotProtected("a TCP port");
  // Nobody presents a certificate without TLS.
  if (given.munge) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "others can reach a TCP port without encryption, so callers must prove who they are: give --token-file "
      "or --munge");
}

absl::StatusOr<std::shared_ptr<Security>> Security::ForServer(const SecuritySettings& settings,
                                                              std::shared_ptr<const Clock> clock,
                                                              LogSink log) {
  if (settings.plaintext == SecuritySettings::Plaintext::kYes) return std::make_shared<Plain>();
  if (!settings.tls_dir.empty())
    return OfFolder(settings, tls::Holder::kAggregator, std::move(clock), std::move(log));
  if (settings.token.empty()) return NotProtected("a TCP connection");
  return OfToken(settings.token, TlsParts::OwnCertificate::kYes, std::move(clock));
}

absl::StatusOr<std::shared_ptr<Security>> Security::ForClient(const SecuritySettings& settings,
                                                              tls::Holder holder,
                                                              std::shared_ptr<const Clock> clock,
                                                              LogSink log) {
  if (settings.plaintext == SecuritySettings::Plaintext::kYes) return std::make_shared<Plain>();
  if (!settings.tls_dir.empty()) return OfFolder(settings, holder, std::move(clock), std::move(log));
  if (settings.token.empty()) return NotProtected("a TCP connection");
  if (IsJobToken(settings.token.text())) return OfJobToken(settings.token, std::move(clock));
  return OfToken(settings.token, TlsParts::OwnCertificate::kNo, std::move(clock));
}

}  // namespace lockstep::rpc
