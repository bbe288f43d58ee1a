#include "aggregator/ingest/durable_acks.h"

#include <algorithm>
#include <utility>

namespace lockstep::aggregator {

DurableAcks::DurableAcks(DaemonRegistry& daemons, std::function<void()> sync)
    : daemons_(daemons), sync_(std::move(sync)), thread_([this] { Run(); }) {}

void DurableAcks::Add(const DaemonKey& daemon, uint64_t through) {
  {
    MutexLock lock(&mutex_);
    uint64_t& stored = stored_[daemon];
    stored = std::max(stored, through);
  }
  changed_.SignalAll();
}

void DurableAcks::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

void DurableAcks::Run() {
  while (true) {
    std::map<DaemonKey, uint64_t> stored;
    {
      MutexLock lock(&mutex_);
      changed_.Wait(&mutex_,
                    [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !stored_.empty(); });
      if (stored_.empty()) return;
      stored.swap(stored_);
    }
    sync_();
    for (const auto& [daemon, through] : stored) daemons_.Acknowledge(daemon, through);
  }
}

}  // namespace lockstep::aggregator
