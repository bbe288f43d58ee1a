// Trust decides whether a certificate is valid, and whose it is.
//
// Both ends of a connection use it: a daemon and a CLI for the aggregator's certificate, the aggregator for
// those of nodes and users. TLS itself has proved that the peer has the certificate's private key.
#ifndef LOCKSTEP_BASE_TLS_TRUST_H_
#define LOCKSTEP_BASE_TLS_TRUST_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "base/tls/identity.h"

namespace lockstep::tls {

// Part that the holder of a certificate has in a connection.
enum class Part : uint8_t { kServer, kClient };

struct CheckedCertificate {
  Identity identity;
  HostTime not_after;              // end of its validity
  std::vector<std::string> hosts;  // names and addresses of the machine, if it has any
};

// Immutable; any thread.
class Trust {
 public:
  // `anchors` has the certificates of one or more authorities. `revoked` has their lists of revoked
  // certificates; there may be none. Both are in PEM form. kInvalidArgument: one cannot be read, or a list
  // is not signed by one of the anchors.
  static absl::StatusOr<Trust> Of(std::string_view anchors, std::string_view revoked);

  // Checks the first certificate of `chain` (PEM). The others are intermediate ones. It checks signatures,
  // validity at `now`, purpose and revocation. The certificate must name exactly one holder.
  // kUnauthenticated states the first fault, with the holder's name as far as it can be read.
  absl::StatusOr<CheckedCertificate> Check(std::string_view chain, Part part, HostTime now) const;

 private:
  struct Store;
  explicit Trust(std::shared_ptr<const Store> store) : store_(std::move(store)) {}
  std::shared_ptr<const Store> store_;
};

// Reads a certificate without a check: for messages and for dates of one's own certificate. kInvalidArgument:
// it cannot be read, or it does not name exactly one holder.
absl::StatusOr<CheckedCertificate> ReadCertificate(std::string_view pem);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TRUST_H_
