// The place where a rank's NCCL listens for questions to its RAS, from the rank's environment.
#ifndef LOCKSTEP_DAEMON_RAS_RAS_PLACE_H_
#define LOCKSTEP_DAEMON_RAS_RAS_PLACE_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::daemon {

inline constexpr uint16_t kDefaultRasPort = 28028;

// A loopback address of this node. RAS that listens on all addresses is reached there too.
struct Loopback {
  enum class Family : uint8_t { kIp4, kIp6 };
  Family family = Family::kIp4;
  uint16_t port = 0;

  // Returns the address's length.
  socklen_t ToSocketAddress(sockaddr_storage& to) const;
};

struct RasPlace {
  std::string name;  // as "localhost:28028"
  // In the order in which they are tried. "localhost" has both, because NCCL takes the resolver's first one.
  std::vector<Loopback> addresses;
};

// `environment` is of EnvironmentLines. kFailedPrecondition: RAS is off, or listens elsewhere; the message is
// for the user.
absl::StatusOr<RasPlace> RasPlaceOf(const std::string& environment);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_RAS_RAS_PLACE_H_
