#include "sim/device/host_callbacks.h"

#include <sys/prctl.h>

namespace lockstep::sim {

HostCallbacks::~HostCallbacks() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostCallbacks::Run(std::function<void()> function) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  waiting_.push_back(std::move(function));
  wake_.notify_one();
}

void HostCallbacks::Loop() {
  prctl(PR_SET_NAME, "simgpu-host");
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const std::function<void()> function = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    function();
    lock.lock();
  }
}

}  // namespace lockstep::sim
