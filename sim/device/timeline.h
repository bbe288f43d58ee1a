// Runs the simulated device's work in time. An item starts when it has been submitted to the device and all
// items that it follows are over.
//
// Starts and ends are computed, so that a late wake-up of the thread changes no time. Effects and completion
// wait for the wall clock: CLOCK_MONOTONIC nanoseconds, which all processes of the machine share. An item
// whose end depends on other ranks (a collective) has an ExternalCompletion. One thread of the timeline
// advances the items. Any thread may submit and wait.
#ifndef LOCKSTEP_SIM_DEVICE_TIMELINE_H_
#define LOCKSTEP_SIM_DEVICE_TIMELINE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace lockstep::sim {

struct Item;
using ItemRef = std::shared_ptr<Item>;

// Determines the end of an item. The timeline's thread calls it, so that it must not block. It may call the
// timeline.
class ExternalCompletion {
 public:
  virtual ~ExternalCompletion() = default;
  // The item's start is known. The implementation calls Timeline::SetEnd once it knows the end.
  virtual void Entered(const ItemRef& item, int64_t start_ns) = 0;
  // The wall clock has reached the start. The implementation calls Timeline::SetDone once the effects are
  // complete.
  virtual void Begin(const ItemRef& item) = 0;
};

struct Item {
  int64_t earliest_start_ns = 0;
  int64_t duration_ns = 0;
  std::vector<ItemRef> after;
  std::function<void()> effect;            // called in order, when the wall clock reaches the start
  std::function<void(const Item&)> timed;  // called as soon as start and end are known
  std::shared_ptr<ExternalCompletion> external;

  // Written by the timeline under its lock. Start and end are set before `timed` is called.
  int64_t start_ns = -1;
  int64_t end_ns = -1;
  bool begun = false;
  bool effects_done = false;
  bool done = false;
};

class Timeline {
 public:
  using Clock = std::function<int64_t()>;  // nanoseconds
  // `tick` runs on the timeline's thread after each reading of the clock.
  Timeline(Clock clock, std::function<void(int64_t now)> tick);
  ~Timeline();  // unfinished items stay unfinished
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Starts the thread. Without it, the owner calls Advance (in tests).
  void Start();
  void Submit(const ItemRef& item);
  void Wait(const ItemRef& item);
  bool Done(const ItemRef& item);
  void WaitForAll();
  void SetEnd(const ItemRef& item, int64_t end_ns);
  void SetDone(const ItemRef& item);
  // Advances all items as far as the clock allows. Returns the time of the next event, or INT64_MAX if all
  // items wait for an ExternalCompletion.
  int64_t Advance();

 private:
  void Run();
  // Returns true if the item is over. It releases the lock during the item's calls.
  bool AdvanceItem(Item& item, const ItemRef& ref, int64_t now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock clock_;
  const std::function<void(int64_t)> tick_;
  Mutex mutex_;
  CondVar wake_;
  CondVar finished_;
  // The order is that of submission, so that an item comes after all items that it follows.
  std::list<ItemRef> open_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_TIMELINE_H_
