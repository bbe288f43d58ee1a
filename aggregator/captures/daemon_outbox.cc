#include "aggregator/captures/daemon_outbox.h"

#include <utility>

namespace lockstep::aggregator {

void DaemonOutbox::Send(const DaemonKey& daemon, const v1::FromAggregator& message) {
  if (daemons_.Send(daemon, message)) return;
  MutexLock lock(&mutex_);
  kept_[daemon].push_back(message);
}

void DaemonOutbox::Send(const std::vector<DaemonKey>& daemons, const v1::FromAggregator& message) {
  for (const DaemonKey& daemon : daemons) Send(daemon, message);
}

void DaemonOutbox::Resend(const DaemonKey& daemon) {
  std::vector<v1::FromAggregator> messages;
  {
    MutexLock lock(&mutex_);
    const auto it = kept_.find(daemon);
    if (it == kept_.end()) return;
    messages = std::move(it->second);
    kept_.erase(it);
  }
  for (const v1::FromAggregator& message : messages) Send(daemon, message);
}

}  // namespace lockstep::aggregator
