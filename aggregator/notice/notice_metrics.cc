#include "aggregator/notice/notice_metrics.h"

#include <algorithm>
#include <map>
#include <string>

namespace lockstep::aggregator {

void AddSlowdowns(const SlowdownCounts& counts, metrics::Page& page) {
  page.Counter("lockstep_aggregator_slowdowns_total", "Ranks that became slower in a running job.")
      .Count(counts.noticed);
  struct Values {
    int64_t step_ns = 0;
    uint64_t slow = 0;
  };
  // Jobs of two users may have one name. Those with slow ranks come first.
  std::map<std::string, Values> jobs;
  for (const bool with_slow : {true, false}) {
    for (const v1::JobSteps& job : counts.jobs) {
      const auto slow = std::count_if(job.slowdowns().begin(), job.slowdowns().end(),
                                      [](const v1::Slowdown& s) { return s.ended_unix_ns() == 0; });
      const std::string name = job.job().substr(0, metrics::kLongestJobLabel);
      if ((slow > 0) != with_slow || (jobs.size() >= metrics::kMostJobLabels && !jobs.contains(name)))
        continue;
      Values& values = jobs[name];
      values.step_ns = std::max(values.step_ns, job.step_time_ns());
      values.slow += static_cast<uint64_t>(slow);
    }
  }
  const auto step = page.Gauge("lockstep_aggregator_live_step_seconds",
                               "Length of a step of the running job: the median of the last 64.");
  for (const auto& [name, values] : jobs) step.Seconds(Nanos(values.step_ns), {{"job", name}});
  const auto slow = page.Gauge("lockstep_aggregator_live_slow_ranks",
                               "Ranks of the running job that are slower than they were.");
  for (const auto& [name, values] : jobs) slow.Count(values.slow, {{"job", name}});
}

void AddHangs(const HangCounts& counts, metrics::Page& page) {
  page.Counter("lockstep_aggregator_hangs_total", "Hangs of running jobs.").Count(counts.noticed);
  // Jobs of two users may have one name.
  std::map<std::string, uint64_t> jobs;
  for (const JobKey& job : counts.hanging) {
    const std::string name = job.job.substr(0, metrics::kLongestJobLabel);
    if (jobs.size() < metrics::kMostJobLabels || jobs.contains(name)) ++jobs[name];
  }
  const auto hanging = page.Gauge("lockstep_aggregator_hanging_jobs", "Running jobs that hang.");
  for (const auto& [name, count] : jobs) hanging.Count(count, {{"job", name}});
}

}  // namespace lockstep::aggregator
