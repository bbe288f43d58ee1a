// The simulated device's work in time: items with what they must follow, each starting when that is over and
// it has been given to the device, each taking the time it takes.
//
// Starts and ends are computed, so that a late wake-up of ours is in no figure; effects and completion wait
// for the wall clock (CLOCK_MONOTONIC nanoseconds, the same for all processes of the machine). An item whose
// end others decide (a collective) has a Remote. One thread of its own carries items on; anybody may submit
// and wait.
#ifndef LOCKSTEP_SIM_DEVICE_TIMELINE_H_
#define LOCKSTEP_SIM_DEVICE_TIMELINE_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::sim {

struct Item;
using ItemRef = std::shared_ptr<Item>;

// Calls come from the timeline's thread, which must not be held up, and may call the timeline back.
class Remote {
 public:
  virtual ~Remote() = default;
  // The item's start is known. Answer with Timeline::SetEnd when its end is.
  virtual void Entered(const ItemRef& item, int64_t start_ns) = 0;
  // The wall clock is there. Answer with Timeline::SetDone when its effects are.
  virtual void Begin(const ItemRef& item) = 0;
};

struct Item {
  int64_t given_ns = 0;  // not before
  int64_t duration_ns = 0;
  std::vector<ItemRef> after;
  std::function<void()> effect;            // when the wall clock is at its start, in order
  std::function<void(const Item&)> timed;  // as soon as start and end are known
  std::shared_ptr<Remote> remote;

  // The timeline's, under its lock; start and end stand when `timed` is called.
  int64_t start_ns = -1;
  int64_t end_ns = -1;
  bool begun = false;
  bool effects_done = false;
  bool done = false;
};

class Timeline {
 public:
  using Clock = std::function<int64_t()>;  // nanoseconds
  // `tick` runs on the timeline's thread after each look at the clock.
  Timeline(Clock clock, std::function<void(int64_t now)> tick);
  ~Timeline();  // what is unfinished stays so
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Starts the thread. Without it the owner calls Advance (tests).
  void Start();
  void Submit(const ItemRef& item);
  void Wait(const ItemRef& item);
  bool Done(const ItemRef& item);
  void WaitForAll();
  void SetEnd(const ItemRef& item, int64_t end_ns);
  void SetDone(const ItemRef& item);
  // Carries everything on as far as the clock allows; when the clock next matters (INT64_MAX: only others can
  // bring anything on).
  int64_t Advance();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void Run();
  bool Carry(Item& item, const ItemRef& ref, int64_t now, Lock& lock);  // true: it is over

  const Clock clock_;
  const std::function<void(int64_t)> tick_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  std::list<ItemRef> open_;  // in the order of submission, so that what an item follows comes before it
  bool news_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_DEVICE_TIMELINE_H_
