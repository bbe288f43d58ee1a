// Identifies a caller by MUNGE, the service by which the machines of a Slurm cluster already trust each
// other.
//
// A credential identifies the user that made it. It is valid for one minute, and can be decoded once. We run
// the programs `munge` and `unmunge`, whose command lines are the same everywhere. We load no library of
// MUNGE, because our programs bring their own libc.
#ifndef LOCKSTEP_BASE_RPC_MUNGE_H_
#define LOCKSTEP_BASE_RPC_MUNGE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::rpc {

inline constexpr char kMungeMetadata[] = "lockstep-munge";

// MungePrograms and tests implement it. Any thread may call it.
class CallerCredentials {
 public:
  virtual ~CallerCredentials() = default;
  // Returns a credential of this process's user, for one call. kUnavailable states why there is none.
  virtual absl::StatusOr<std::string> Make() const = 0;
  // Returns the user that made it. kUnauthenticated: it is forged, expired, used before, or made for another
  // service.
  virtual absl::StatusOr<uid_t> Read(const std::string& credential) const = 0;
};

// Returns the user in the output of a successful `unmunge --numeric --keys=STATUS,UID`. The end of the output
// is the credential's payload, which its maker chose. Pure function. Errors are those of
// CallerCredentials::Read.
absl::StatusOr<uid_t> ParseUnmunged(const std::string& output);

class MungePrograms final : public CallerCredentials {
 public:
  struct Settings {
    std::string munge = "munge";  // searched in PATH unless it has a folder
    std::string unmunge = "unmunge";
    std::string socket;  // socket of munged; empty: the default
    Nanos timeout = Nanos::Seconds(5);
  };
  explicit MungePrograms(Settings settings) : settings_(std::move(settings)) {}

  absl::StatusOr<std::string> Make() const override;
  absl::StatusOr<uid_t> Read(const std::string& credential) const override;

 private:
  const Settings settings_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_MUNGE_H_
