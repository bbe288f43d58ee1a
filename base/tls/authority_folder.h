// AuthorityFolder keeps an authority on disk:
//   ca.crt      its certificate
//   ca.key      its private key (mode 0600)
//   index.txt   all certificates that it has signed, in the format of `openssl ca`
//   ca.crl      the revoked ones
// `openssl ca` can continue with such a folder.
#ifndef LOCKSTEP_BASE_TLS_AUTHORITY_FOLDER_H_
#define LOCKSTEP_BASE_TLS_AUTHORITY_FOLDER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/time.h"
#include "base/tls/authority.h"
#include "base/tls/identity.h"

namespace lockstep::tls {

// A line of index.txt.
struct IssuedCertificate {
  std::optional<Identity> identity;  // nothing: the certificate is none of Lockstep's
  std::string serial;                // hexadecimal
  HostTime not_after;
  std::optional<HostTime> revoked;
};

// Several processes may use one folder. One thread at a time.
class AuthorityFolder {
 public:
  // Creates the folder (mode 0700) with a new authority. kAlreadyExists: it has one.
  static absl::StatusOr<AuthorityFolder> Create(const std::string& path, HostTime now);
  // kNotFound, kPermissionDenied, kInvalidArgument: with the file and the remedy.
  static absl::StatusOr<AuthorityFolder> Open(const std::string& path);

  std::string PathOf(const char* file) const { return path_ + "/" + file; }
  const Authority& authority() const { return authority_; }

  // Signs as Authority::Sign, and records the certificate before it returns it.
  absl::StatusOr<SignedCertificate> Sign(std::string_view request, const Identity& identity,
                                         const std::vector<std::string>& hosts, HostTime now, Nanos lifetime);
  // Revokes all certificates of a holder that have not expired. Returns their number.
  absl::StatusOr<size_t> Revoke(const Identity& identity, HostTime now);
  absl::StatusOr<std::vector<IssuedCertificate>> Issued() const;

 private:
  AuthorityFolder(std::string path, Authority authority)
      : path_(std::move(path)), authority_(std::move(authority)) {}
  // Keeps other processes away until the result is destroyed.
  absl::StatusOr<Fd> Lock() const;

  std::string path_;
  Authority authority_;
};

// ---- Lines of index.txt; pure functions

std::string IndexLine(const IssuedCertificate& certificate);
// Returns nothing if the line is malformed.
std::optional<IssuedCertificate> ParseIndexLine(std::string_view line);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_AUTHORITY_FOLDER_H_
