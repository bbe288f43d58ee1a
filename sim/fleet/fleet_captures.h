// FleetCaptures collects the moments of each capture over all daemons, and prints a line of JSON when the
// last daemon of a capture has finished.
//
// Any thread. All moments are CLOCK_REALTIME.
#ifndef LOCKSTEP_SIM_FLEET_FLEET_CAPTURES_H_
#define LOCKSTEP_SIM_FLEET_FLEET_CAPTURES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/time.h"
#include "sim/fleet/fleet_job.h"

namespace lockstep::sim {

enum class FleetMoment : uint8_t {
  kArm,      // the arm arrived
  kArmed,    // the answer that the ranks are armed was handed to the system
  kStart,    // the start arrived
  kEncoded,  // the rows are ready to be sent
  kBatch,    // a batch was handed to the system
  kSentAll,  // the last message was handed to the system
  kAcked,    // the aggregator acknowledged the last message
  kCount
};

struct FleetSize {
  uint64_t ranks = 0;
  uint64_t rows = 0;
  uint64_t batches = 0;
  uint64_t bytes = 0;
  Nanos decode;  // processor time
};

class FleetCaptures {
 public:
  enum class End : uint8_t { kSent, kLeft, kAborted };

  // `print` receives each line with its end, and is called by one thread at a time. `ended` is called after
  // it with the number of captures so far.
  FleetCaptures(std::function<void(const std::string&)> print, std::function<void(uint64_t)> ended)
      : print_(std::move(print)), ended_(std::move(ended)) {}

  // A daemon got the arm. Each call needs one Finish.
  void Begin(const std::string& capture, HostTime at);
  void Note(const std::string& capture, FleetMoment moment, HostTime at);
  // Returns the job of the capture. The first call makes it.
  std::shared_ptr<const FleetJob> Job(const std::string& capture, const FleetJobShape& shape,
                                      Interval<HostTime> window);
  void Finish(const std::string& capture, const FleetSize& size, End end);

 private:
  struct Capture {
    uint32_t daemons = 0;
    std::map<End, uint32_t> ends;
    uint32_t finished = 0;
    Interval<HostTime> moments[static_cast<size_t>(FleetMoment::kCount)];  // first and last
    Interval<HostTime> window;
    FleetSize size;
    std::shared_ptr<const FleetJob> job;
  };
  static void Widen(Interval<HostTime>& moments, HostTime at);
  static std::string Line(const std::string& id, const Capture& capture);

  const std::function<void(const std::string&)> print_;  // set before the first call
  const std::function<void(uint64_t)> ended_;            // set before the first call
  Mutex mutex_;
  std::map<std::string, Capture> captures_ ABSL_GUARDED_BY(mutex_);  // running
  uint64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_FLEET_FLEET_CAPTURES_H_
