#include "daemon/loop/work_thread.h"

#include <utility>

namespace lockstep::daemon {

WorkThread::~WorkThread() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  if (thread_.joinable()) thread_.join();
}

bool WorkThread::Add(Work work) {
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  MutexLock lock(&mutex_);
  if (waiting_.size() == most_waiting_) return false;
  waiting_.push_back(std::move(work));
  changed_.SignalAll();
  return true;
}

void WorkThread::Run() {
  while (true) {
    Work work;
    {
      MutexLock lock(&mutex_);
      changed_.Wait(
          &mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work.run();
    loop_.Post(std::move(work.done));
  }
}

}  // namespace lockstep::daemon
