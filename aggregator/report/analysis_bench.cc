// The whole analysis of a capture beside its floor, measured in one run: one sweep over every device row that adds up
// what kernels, communication and copies took.
//
// Input: 8 simulated ranks captured for 2 s; LOCKSTEP_BENCH_TRACES names a folder of real traces instead.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "aggregator/analysis/diagnosis.h"
#include "aggregator/analysis/time_partition.h"
#include "aggregator/report/report.h"
#include "aggregator/trace/readers.h"
#include "common/scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "tests/support/sim_capture.h"

namespace lockstep::report {
namespace {

store::Capture Load() {
  if (const char* folder = std::getenv("LOCKSTEP_BENCH_TRACES")) {
    auto capture = trace::ReadInput(std::vector<std::string>{folder}, {});
    if (capture.ok()) return std::move(*capture);
  }
  const scenario::Scenario scenario = *scenario::MakeTransformer({});
  sim::Knobs knobs;
  knobs.fault = {.kind = sim::FaultKind::kSlowGpu, .rank = 5, .factor_ppm = 150'000};
  tests::SimCaptureOptions options;
  options.from = VirtualTime(500'000'000);
  options.to = options.from + Nanos::Seconds(2);
  return tests::CaptureOf(scenario, sim::DryRun(scenario, knobs, 30), options);
}

const store::Capture& Input() {
  static const store::Capture* const capture = new store::Capture(Load());
  return *capture;
}

// Device rows and host calls: what the analysis reads.
int64_t Rows() {
  int64_t rows = 0;
  for (const store::RankData& r : Input().ranks) rows += static_cast<int64_t>(r.activities.size() + r.api_calls.size());
  return rows;
}

void PlainSweep(benchmark::State& state) {
  for (auto _ : state) {
    Nanos sums[3];
    for (const store::RankData& r : Input().ranks) {
      for (const store::DeviceActivity& a : r.activities) {
        sums[a.kind != store::ActivityKind::kKernel ? 2 : a.communication ? 1 : 0] += a.end - a.start;
      }
      for (const store::ApiCall& c : r.api_calls) sums[0] += c.end - c.start;
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetItemsProcessed(state.iterations() * Rows());
}
BENCHMARK(PlainSweep)->Unit(benchmark::kMillisecond)->UseRealTime();

void Partition(benchmark::State& state) {
  const align::Matches matches = align::Match(Input());
  const auto times = analysis::TimeCollectives(Input(), matches, align::EstimateClocks(Input(), matches));
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
    store::StringSink sink;
    (void)WriteJson(report, sink);
    benchmark::DoNotOptimize(sink.text().size());
    benchmark::DoNotOptimize(RenderText(report));
  }
}
BENCHMARK(WriteReport)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace lockstep::report

BENCHMARK_MAIN();
