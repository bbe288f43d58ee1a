// Runs the application's host functions in order, on one thread, as the driver does. The first function
// starts the thread.
#ifndef LOCKSTEP_SIM_DEVICE_HOST_CALLBACKS_H_
#define LOCKSTEP_SIM_DEVICE_HOST_CALLBACKS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lockstep::sim {

class HostCallbacks {
 public:
  ~HostCallbacks();
  // Any thread may call it. It does not wait.
  void Run(std::function<void()> function);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_HOST_CALLBACKS_H_
