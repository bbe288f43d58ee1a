// Runs the application's host functions in order, on one thread, as the driver does. The first function
// starts the thread.
#ifndef LOCKSTEP_SIM_DEVICE_HOST_CALLBACKS_H_
#define LOCKSTEP_SIM_DEVICE_HOST_CALLBACKS_H_

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace lockstep::sim {

class HostCallbacks {
 public:
  ~HostCallbacks();
  // Any thread may call it. It does not wait.
  void Run(std::function<void()> function);

 private:
  void Loop();

  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_HOST_CALLBACKS_H_
