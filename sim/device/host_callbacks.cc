#include "sim/device/host_callbacks.h"

#include <sys/prctl.h>

namespace lockstep::sim {

HostCallbacks::~HostCallbacks() {
  std::thread thread;
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    thread = std::move(thread_);
  }
  wake_.SignalAll();
  if (thread.joinable()) thread.join();
}

void HostCallbacks::Run(std::function<void()> function) {
  MutexLock lock(&mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  waiting_.push_back(std::move(function));
  wake_.SignalAll();
}

void HostCallbacks::Loop() {
  prctl(PR_SET_NAME, "simgpu-host");
  MutexLock lock(&mutex_);
  while (true) {
    wake_.Wait(&mutex_,
               [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::function<void()> function = std::move(waiting_.front());
    waiting_.pop_front();
    MutexUnlock unlocked(&mutex_);
    function();
  }
}

}  // namespace lockstep::sim
