// Measures the whole analysis of a capture. The floor, measured in the same run, is one pass over all device
// rows that adds up the time of kernels, communication and copies.
//
// The input is 8 simulated ranks captured for 2 s. LOCKSTEP_BENCH_TRACES names a folder of real traces to use
// instead.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "analysis/explain/diagnosis.h"
#include "analysis/replay/prepared.h"
#include "analysis/time/time_partition.h"
#include "formats/input/read_input.h"
#include "report/report.h"
#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"
#include "tests/support/step_capture.h"

namespace lockstep::report {
namespace {

capture::Capture Load() {
  if (const char* folder = std::getenv("LOCKSTEP_BENCH_TRACES")) {
    auto capture = formats::ReadInput(std::vector<std::string>{folder}, {});
    if (capture.ok()) return std::move(*capture);
  }
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  sim::ModelSettings settings;
  settings.fault = {.kind = sim::FaultKind::kSlowGpu, .rank = 5, .factor_ppm = 150'000};
  tests::SimCaptureOptions options;
  options.from = VirtualTime(500'000'000);
  options.to = options.from + Nanos::Seconds(2);
  return tests::CaptureOf(scenario, sim::DryRun(scenario, settings, 30), options);
}

const capture::Capture& Input() {
  static const capture::Capture* const capture = new capture::Capture(Load());
  return *capture;
}

// Counts the rows that the analysis reads: device rows and host calls.
int64_t Rows() {
  int64_t rows = 0;
  for (const capture::RankData& r : Input().ranks)
    rows += static_cast<int64_t>(r.activities.size() + r.api_calls.size());
  return rows;
}

void PlainSweep(benchmark::State& state) {
  for (auto _ : state) {
    Nanos sums[3];
    for (const capture::RankData& r : Input().ranks) {
      for (const capture::DeviceActivity& a : r.activities) {
        sums[a.kind != capture::ActivityKind::kKernel ? 2 : a.communication ? 1 : 0] += a.end - a.start;
      }
      for (const capture::ApiCall& c : r.api_calls) sums[0] += c.end - c.start;
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetItemsProcessed(state.iterations() * Rows());
}
BENCHMARK(PlainSweep)->Unit(benchmark::kMillisecond)->UseRealTime();

void Partition(benchmark::State& state) {
  const capture::Matches matches = capture::Match(Input());
  const auto times = analysis::TimeCollectives(Input(), matches, capture::EstimateClocks(Input(), matches));
  for (auto _ : state) {
    for (size_t r = 0; r < Input().ranks.size(); ++r) {
      benchmark::DoNotOptimize(analysis::PartitionTime(Input(), Input().ranks[r], times.parts[r]));
    }
  }
  state.SetItemsProcessed(state.iterations() * Rows());
}
BENCHMARK(Partition)->Unit(benchmark::kMillisecond)->UseRealTime();

void AnalyzeAll(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Analyze(Input()));
  state.SetItemsProcessed(state.iterations() * Rows());
}
BENCHMARK(AnalyzeAll)->Unit(benchmark::kMillisecond)->UseRealTime();

void WriteReport(benchmark::State& state) {
  const Report report = Analyze(Input()).report;
  for (auto _ : state) {
    StringSink sink;
    (void)WriteJson(report, sink);
    benchmark::DoNotOptimize(sink.text().size());
    benchmark::DoNotOptimize(RenderText(report));
  }
}
BENCHMARK(WriteReport)->Unit(benchmark::kMillisecond)->UseRealTime();

// ---- Large jobs, by ranks, steps and threads

// Each rank has about 40 device units per step and no host calls; one rank is 5 % slow. Only the last job is
// kept, because a job needs much memory.
const capture::Capture& LargeJob(int64_t ranks, int64_t steps) {
  static capture::Capture* kept = nullptr;
  static int64_t kept_ranks = 0, kept_steps = 0;
  if (kept == nullptr || kept_ranks != ranks || kept_steps != steps) {
    delete kept;
    tests::StepCaptureShape shape;
    shape.data_parallel = static_cast<uint32_t>(ranks) / 32;
    shape.steps = static_cast<uint32_t>(steps);
    shape.slow_ranks = {shape.ranks() / 3};
    shape.slow_factor = 1.05;
    kept = new capture::Capture(tests::StepCapture(shape));
    kept_ranks = ranks;
    kept_steps = steps;
  }
  return *kept;
}

int64_t UnitsOf(const capture::Capture& capture) {
  int64_t units = 0;
  for (const capture::RankData& r : capture.ranks) units += static_cast<int64_t>(r.activities.size());
  return units;
}

void CountUnits(benchmark::State& state, const capture::Capture& capture) {
  state.counters["units"] = static_cast<double>(UnitsOf(capture));
  state.SetItemsProcessed(state.iterations() * UnitsOf(capture));
}

// The floor is one pass over the units.
void LargeSweep(benchmark::State& state) {
  const capture::Capture& capture = LargeJob(state.range(0), state.range(1));
  for (auto _ : state) {
    Nanos sums[2];
    for (const capture::RankData& r : capture.ranks) {
      for (const capture::DeviceActivity& a : r.activities) sums[a.communication ? 1 : 0] += a.end - a.start;
    }
    benchmark::DoNotOptimize(sums);
  }
  CountUnits(state, capture);
}

// Measures the way from records to the verdict: matching, clocks, steps, times, graph, replays, split,
// findings.
void LargeVerdict(benchmark::State& state) {
  const capture::Capture& capture = LargeJob(state.range(0), state.range(1));
  for (auto _ : state) {
    const analysis::Prepared prepared(capture, static_cast<unsigned>(state.range(2)));
    benchmark::DoNotOptimize(analysis::Diagnose(prepared.input()));
  }
  CountUnits(state, capture);
}

// Measures the same with the report's rows and text.
void LargeReport(benchmark::State& state) {
  const capture::Capture& capture = LargeJob(state.range(0), state.range(1));
  for (auto _ : state) {
    const Analysis analysis = Analyze(capture, {.threads = static_cast<unsigned>(state.range(2))});
    benchmark::DoNotOptimize(RenderText(analysis.report));
  }
  CountUnits(state, capture);
}

void LargeJobs(benchmark::internal::Benchmark* bench) {
  for (const auto& [ranks, steps] : {std::pair(1024, 1), std::pair(9984, 1), std::pair(1024, 20)})
    bench->Args({ranks, steps, 1});
  bench->Args({9984, 1, 2})
      ->ArgNames({"ranks", "steps", "threads"})
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
}
BENCHMARK(LargeSweep)->Apply(LargeJobs);
BENCHMARK(LargeVerdict)->Apply(LargeJobs);
BENCHMARK(LargeReport)->Apply(LargeJobs);

}  // namespace
}  // namespace lockstep::report

BENCHMARK_MAIN();
