// Who a caller is, by MUNGE: the service that a Slurm cluster's machines already trust each other by.
//
// A credential says which user made it; it is decoded once and for a minute only. We run the programs `munge`
// and `unmunge`, whose command lines are the same everywhere, rather than load a library into programs that
// bring their own libc.
#ifndef LOCKSTEP_COMMON_RPC_MUNGE_H_
#define LOCKSTEP_COMMON_RPC_MUNGE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace lockstep::rpc {

inline constexpr char kMungeMetadata[] = "lockstep-munge";

// Implemented by: MungePrograms, and tests. Any thread.
class CallerCredentials {
 public:
  virtual ~CallerCredentials() = default;
  // A credential of this process's user, for one call. kUnavailable says why there is none.
  virtual absl::StatusOr<std::string> Make() const = 0;
  // Who made it. kUnauthenticated: forged, expired, used before, or made for something else than Lockstep.
  virtual absl::StatusOr<uid_t> Read(const std::string& credential) const = 0;
};

class MungePrograms final : public CallerCredentials {
 public:
  struct Settings {
    std::string munge = "munge";  // searched in PATH where they name no folder
    std::string unmunge = "unmunge";
    std::string socket;  // of munged; empty: where it is by default
    Nanos timeout = Nanos::Seconds(5);
  };
  explicit MungePrograms(Settings settings) : settings_(std::move(settings)) {}

  absl::StatusOr<std::string> Make() const override;
  absl::StatusOr<uid_t> Read(const std::string& credential) const override;

 private:
  const Settings settings_;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_COMMON_RPC_MUNGE_H_
