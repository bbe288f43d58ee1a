// WorkThread does work that may take seconds, so that the main thread goes on. The thread starts with the
// first work, and sleeps while there is none.
#ifndef LOCKSTEP_DAEMON_LOOP_WORK_THREAD_H_
#define LOCKSTEP_DAEMON_LOOP_WORK_THREAD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "daemon/loop/event_loop.h"

namespace lockstep::daemon {

// The main thread, except for what is stated otherwise.
class WorkThread {
 public:
  struct Work {
    std::function<void()> run;   // on the thread
    std::function<void()> done;  // afterwards, on the main thread
  };

  // `loop` outlives this. At most `most_waiting` works wait besides the one that runs.
  WorkThread(EventLoop& loop, size_t most_waiting) : loop_(loop), most_waiting_(most_waiting) {}
  // Waits for the work that runs. Works that wait are not run.
  ~WorkThread();

  // Works run one after the other, in the order of these calls. Returns false if too many wait; neither part
  // of the work is then called.
  [[nodiscard]] bool Add(Work work);

 private:
  void Run();  // the thread

  EventLoop& loop_;
  const size_t most_waiting_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Work> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // thread: main
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_LOOP_WORK_THREAD_H_
