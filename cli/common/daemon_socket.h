// The node's daemon: which of its places answers, and starting one where none does.
#ifndef LOCKSTEP_CLI_DAEMON_SOCKET_H_
#define LOCKSTEP_CLI_DAEMON_SOCKET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cli/common/installation.h"

namespace lockstep::cli {

// The files of one daemon's folder.
struct DaemonPlace {
  std::string client_socket;
  std::string control_socket;  // gRPC, beside it
};

// `argument` is --daemon, may be empty; the rest of the search order comes from the environment.
class DaemonFinder {
 public:
  explicit DaemonFinder(std::string argument);

  // The first place that answers. kNotFound tells of each place why not, kPermissionDenied why `argument` is
  // not trusted.
  absl::StatusOr<DaemonPlace> Find() const;
  // Find, or a new daemon at the place that was asked for, else at the last usable one. Of several processes
  // at once, one starts it and the others wait. kDeadlineExceeded: it did not answer in time, its log is
  // named.
  absl::StatusOr<DaemonPlace> FindOrStart(const Siblings& siblings, Nanos ready_within) const;

  struct Place {
    std::string path;
    std::string why_not;  // empty: answers
  };
  std::vector<Place> Places() const;

 private:
  absl::StatusOr<std::string> PlaceToStart() const;
  absl::Status Start(const Siblings& siblings, const std::string& socket, Nanos ready_within) const;

  std::string argument_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_DAEMON_SOCKET_H_
