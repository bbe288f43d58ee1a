// Counts the false alarms of Drift on ten kinds of noise without growth, and the steps until it notices a
// growth. Measures the time per value.
// docs/noticing.md has the results for 1e10 values; --benchmark_min_time sets their number.
#include <benchmark/benchmark.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/notice/drift.h"
#include "base/median.h"
#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

// The length of a job, in steps. Most false alarms would come early, when little is known of the noise.
constexpr int kSteps = 5000;

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  // In (0, 1].
  double Uniform() { return (static_cast<double>(bits_.Next() >> 11) + 1) * 0x1p-53; }
  // Box and Muller (1958).
  double Normal() {
    if (std::exchange(has_second_, !has_second_)) return second_;
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    const double angle = 2 * 3.14159265358979323846 * Uniform();
    second_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

 private:
  SplitMix bits_;
  bool has_second_ = false;
  double second_ = 0;
};

// Each returns the next value of a job's rank, in shares of a step. `state` is 0 at the begin of a job.
struct Kind {
  const char* name;
  double (*next)(Random& random, double& state);
};

constexpr Kind kKinds[] = {
    {"normal/0.01", [](Random& r, double&) { return 0.01 * r.Normal(); }},
    {"normal/0.1", [](Random& r, double&) { return 0.1 * r.Normal(); }},
    {"lognormal", [](Random& r, double&) { return 0.01 * std::exp(1.5 * r.Normal()); }},
    {"pareto/1.1", [](Random& r, double&) { return 0.005 * std::pow(r.Uniform(), -1 / 1.1); }},
    {"cauchy", [](Random& r, double&) { return 0.005 * r.Normal() / r.Normal(); }},
    {"correlated/0.8", [](Random& r, double& z) { return z = 0.8 * z + 0.02 * r.Normal(); }},
    {"correlated/0.95", [](Random& r, double& z) { return z = 0.95 * z + 0.005 * r.Normal(); }},
    {"one_in_100_doubled",
     [](Random& r, double&) { return 0.01 * r.Normal() + (r.Uniform() < 0.01 ? 1.0 : 0.0); }},
    {"one_in_5000_times_6",
     [](Random& r, double&) { return 0.01 * r.Normal() + (r.Uniform() < 0.0002 ? 5.0 : 0.0); }},
    {"checkpoint_every_100",
     [](Random& r, double& step) { return 0.01 * r.Normal() + (std::fmod(++step, 100) == 50 ? 3.0 : 0.0); }},
};

void FalseAlarms(benchmark::State& state, const Kind& kind) {
  Random random(1);
  int64_t values = 0, alarms = 0;
  for (auto _ : state) {
    Drift drift;
    double own = 0;
    for (int i = 0; i < kSteps; ++i) {
      if (!drift.Add(kind.next(random, own))) continue;
      ++alarms;
      drift = Drift();
    }
    values += kSteps;
  }
  state.counters["values"] = static_cast<double>(values);
  state.counters["alarms"] = static_cast<double>(alarms);
  state.SetItemsProcessed(values);
}

// Returns the median number of steps until a growth is noticed that begins after kBefore steps.
double NoticedAfter(const Kind& kind, double growth) {
  constexpr int kJobs = 101, kBefore = 1000, kMost = 5000;
  Random random(2);
  std::vector<double> after;
  for (int job = 0; job < kJobs; ++job) {
    Drift drift;
    double own = 0;
    for (int i = 0; i < kBefore; ++i) drift.Add(kind.next(random, own));
    int steps = 1;
    while (steps < kMost && !drift.Add(kind.next(random, own) + growth)) ++steps;
    after.push_back(steps);
  }
  return Median(after);
}

void Delay(benchmark::State& state, const Kind& kind) {
  for (auto _ : state) {
    state.counters["10_percent"] = NoticedAfter(kind, 0.1);
    state.counters["30_percent"] = NoticedAfter(kind, 0.3);
    state.counters["100_percent"] = NoticedAfter(kind, 1.0);
  }
}

// The floor: the noise alone.
void NoiseOnly(benchmark::State& state, const Kind& kind) {
  Random random(1);
  double own = 0;
  for (auto _ : state) benchmark::DoNotOptimize(kind.next(random, own));
  state.SetItemsProcessed(state.iterations());
}

}  // namespace
}  // namespace lockstep::analysis

int main(int argc, char** argv) {
  for (const lockstep::analysis::Kind& kind : lockstep::analysis::kKinds) {
    const auto add = [&](const char* what, auto run) {
      benchmark::RegisterBenchmark((std::string(what) + kind.name).c_str(),
                                   [&kind, run](benchmark::State& state) { run(state, kind); });
    };
    add("noise/", lockstep::analysis::NoiseOnly);
    add("drift/", lockstep::analysis::FalseAlarms);
    add("delay/", lockstep::analysis::Delay);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
