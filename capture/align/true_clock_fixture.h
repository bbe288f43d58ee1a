#ifndef LOCKSTEP_CAPTURE_ALIGN_TRUE_CLOCK_FIXTURE_H_
#define LOCKSTEP_CAPTURE_ALIGN_TRUE_CLOCK_FIXTURE_H_

#include <random>
#include <vector>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::capture {

// A host's clock with a known error.
struct TrueClock {
  double offset_us = 0;
  double drift = 0;
  double Local(double job_us) const { return job_us + offset_us + drift * job_us; }
};

// Returns clocks that are up to 10 ms wrong and drift by up to 50 ppm.
inline std::vector<TrueClock> DrawClocks(size_t hosts, std::mt19937_64& random) {
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<TrueClock> clocks;
  for (size_t h = 0; h < hosts; ++h) clocks.push_back({unit(random) * 10'000, unit(random) * 50e-6});
  return clocks;
}

// Returns exchanges between the host and the aggregator, whose clock is the job's, with random delays.
inline std::vector<ClockExchange> Exchanges(const TrueClock& clock, int count, double every_us,
                                            std::mt19937_64& random) {
  std::exponential_distribution<double> one(1);
  std::vector<ClockExchange> out;
  for (int i = 0; i < count; ++i) {
    const double sent = every_us * i;
    const double there = 30 + 60 * one(random), back = 30 + 20 * one(random);
    const double arrived = sent + there, answered = arrived + 5;
    out.push_back({TimelineBuilder::At(clock.Local(sent)), JobTime(TimelineBuilder::At(arrived).ns()),
                   JobTime(TimelineBuilder::At(answered).ns()),
                   TimelineBuilder::At(clock.Local(answered + back)),
                   MonoTime(static_cast<int64_t>((answered + back) * 1000))});
  }
  return out;
}

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_TRUE_CLOCK_FIXTURE_H_
