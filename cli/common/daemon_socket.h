// Finds the node's daemon among the possible sockets, and starts one if none answers.
#ifndef LOCKSTEP_CLI_COMMON_DAEMON_SOCKET_H_
#define LOCKSTEP_CLI_COMMON_DAEMON_SOCKET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cli/common/installation.h"

namespace lockstep::cli {

// The sockets of one daemon.
struct DaemonPlace {
  std::string client_socket;
  std::string control_socket;  // gRPC, in the same folder
};

// `argument` is the value of --daemon and may be empty. The rest of the search order comes from the
// environment.
class DaemonFinder {
 public:
  explicit DaemonFinder(std::string argument);

  // Returns the first place that answers. kNotFound gives the reason for each place. kPermissionDenied: the
  // folder of `argument` is not trusted.
  absl::StatusOr<DaemonPlace> Find() const;
  // Returns a running daemon like Find, or starts one at the requested place, else at the last usable one. If
  // several processes call it at once, one starts the daemon and the others wait. kDeadlineExceeded: the
  // daemon did not answer in time; the error names its log.
  absl::StatusOr<DaemonPlace> FindOrStart(const Installation& installation, Nanos ready_within) const;

  struct Place {
    std::string path;
    std::string why_not;  // empty: a daemon answers
  };
  std::vector<Place> Places() const;

 private:
  absl::StatusOr<std::string> PlaceToStart() const;
  absl::Status Start(const Installation& installation, const std::string& socket, Nanos ready_within) const;

  std::string argument_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_DAEMON_SOCKET_H_
