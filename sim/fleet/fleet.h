// Fleet runs the simulated daemons of lockstep-sim-fleet on a few threads.
#ifndef LOCKSTEP_SIM_FLEET_FLEET_H_
#define LOCKSTEP_SIM_FLEET_FLEET_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/rpc/security.h"
#include "base/rpc/token.h"
#include "sim/fleet/fleet_captures.h"
#include "sim/fleet/fleet_daemon.h"
#include "sim/fleet/options.h"

namespace lockstep::sim {

class Fleet final : public FleetEvents {
 public:
  // `security` protects a TCP connection; null for a Unix socket. `print` receives each line of output, and
  // is called by one thread at a time.
  Fleet(const FleetOptions& options, rpc::Token token, std::shared_ptr<rpc::Security> security,
        std::function<void(const std::string&)> print);
  // Ends the streams and waits for the threads.
  ~Fleet() override;
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // Runs until `stop` returns true, which it asks ten times a second, or until the requested number of
  // captures has ended. An error says which daemon lost its stream, and why.
  absl::Status Run(const std::function<bool()>& stop);

  void OnRegistered() override;
  void OnOver(uint32_t daemon, const absl::Status& why, Expected expected) override;

 private:
  absl::Status Open();
  void Serve();

  const FleetOptions options_;
  const rpc::Token token_;
  const std::shared_ptr<rpc::Security> security_;
  const std::function<void(const std::string&)> print_;  // set before Run
  FleetCaptures captures_;                               // thread-safe
  grpc::CompletionQueue queue_;                          // thread-safe
  std::vector<std::unique_ptr<FleetDaemon>> daemons_;    // thread: owner
  std::vector<std::thread> threads_;                     // thread: owner
  MonoTime opened_at_;                                   // set before the threads start

  Mutex mutex_;
  CondVar changed_;
  uint32_t registered_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t over_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t captures_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_FLEET_H_
