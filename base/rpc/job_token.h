// A token for one job and a limited time. A holder of the aggregator's token can make one, without the
// aggregator. Its holder may see or capture that job only.
//
// It is one line of text: "lockstep-job-1.CLAIMS.SIGNATURE.AUTHORITY". The claims say what it allows; anybody
// can read them. The signature is an HMAC (SHA-256) with a key that is derived from the aggregator's token.
// The last part has the certificate of the authority that the client must trust. It is for the client alone,
// which does not send it.
#ifndef LOCKSTEP_BASE_RPC_JOB_TOKEN_H_
#define LOCKSTEP_BASE_RPC_JOB_TOKEN_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::rpc {

struct JobClaims {
  std::string job;
  uid_t owner = 0;  // the job's user, by the number of the aggregator's system
  enum class Role : uint8_t { kViewer, kOperator };
  Role role = Role::kViewer;
  HostTime until;
  // The authority's certificate (PEM); empty: the client has --tls-dir.
  std::string authority;
};

inline constexpr size_t kLongestJobToken = 8192;

// Returns whether the text begins as such a token does.
bool IsJobToken(std::string_view text);
// Returns the part that a call sends: all but the authority.
std::string_view SentPart(std::string_view job_token);

// `secret` is the aggregator's token. kInvalidArgument: the job has no name, or more than 256 bytes.
absl::StatusOr<std::string> MakeJobToken(std::string_view secret, const JobClaims& claims);
// `sent` is the part that a call sends. kUnauthenticated: it is malformed, signed with another secret, or has
// expired at `now`. The result has no authority.
absl::StatusOr<JobClaims> CheckJobToken(std::string_view secret, std::string_view sent, HostTime now);
// Reads the claims without a check of signature and time. kInvalidArgument: the text is malformed.
absl::StatusOr<JobClaims> ReadJobToken(std::string_view text);

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_JOB_TOKEN_H_
