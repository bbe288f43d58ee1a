// Authority signs the certificates of aggregators, nodes and users.
//
// It is for sites without an authority of their own. Its private key is worth as much as all certificates
// that it can sign.
#ifndef LOCKSTEP_BASE_TLS_AUTHORITY_H_
#define LOCKSTEP_BASE_TLS_AUTHORITY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "base/tls/identity.h"

namespace lockstep::tls {

// A private key and the request for a certificate for it (both PEM).
struct KeyAndRequest {
  std::string key;
  std::string request;
};

// Makes a new P-256 key. The request names nobody, because the authority decides whom the certificate names.
absl::StatusOr<KeyAndRequest> MakeRequest();

struct RevokedCertificate {
  std::string serial;  // hexadecimal
  HostTime since;
};

struct SignedCertificate {
  std::string pem;
  std::string serial;  // hexadecimal
  HostTime not_after;
};

// Immutable; any thread.
class Authority {
 public:
  // Makes a new authority with a P-256 key, valid for ten years from `now`.
  static absl::StatusOr<Authority> Make(HostTime now);
  // kInvalidArgument: the texts (PEM) are not an authority's certificate and its key.
  static absl::StatusOr<Authority> Of(std::string_view certificate, std::string_view key);
  // Derives an authority from a secret. Equal secrets give equal authorities, bit for bit, so that all who
  // know the secret trust each other without another file. The certificate lets anybody test guesses of the
  // secret. Therefore it takes about 50 ms (scrypt), unless the secret is 64 hexadecimal digits.
  static absl::StatusOr<Authority> OfSecret(std::string_view secret);

  std::string certificate() const;  // PEM
  std::string key() const;          // PEM; secret

  // Signs a certificate for the key of `request` (PEM). Its alternative names are the URI of the identity and
  // `hosts`. These are names and IP addresses of machines. Lockstep ignores them.
  // kInvalidArgument: the request's signature is wrong, its key is too weak, or a name is not valid.
  absl::StatusOr<SignedCertificate> Sign(std::string_view request, const Identity& identity,
                                         const std::vector<std::string>& hosts, HostTime now,
                                         Nanos lifetime) const;
  // Returns the list (PEM) of all revoked certificates. It is valid as long as the authority, because a list
  // that expires would lock out every node.
  absl::StatusOr<std::string> Revoke(const std::vector<RevokedCertificate>& revoked, HostTime now) const;

 private:
  struct Pair;
  explicit Authority(std::shared_ptr<const Pair> pair) : pair_(std::move(pair)) {}
  std::shared_ptr<const Pair> pair_;
};

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_AUTHORITY_H_
