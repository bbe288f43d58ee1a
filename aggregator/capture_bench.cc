// Measures each stage from the daemons' batches to the report, in events per second of CPU time. "vs_decode"
// is the time relative to the lower limit in the same run: decoding the same blocks and nothing else.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <ctime>
#include <span>
#include <string>
#include <vector>

#include "aggregator/reports/child_analyst.h"
#include "aggregator/reports/local_analyst.h"
#include "aggregator/reports/stored_capture_fixture.h"
#include "aggregator/server.h"
#include "base/read_clock.h"
#include "capture/store/records.h"
#include "capture/store/records_blocks.h"
#include "report/report.h"
#include "wire/columns/columns.h"

namespace lockstep::aggregator {
namespace {

// CPU time of all threads, so that other processes on the same cores do not affect the result.
double CpuSeconds() { return 1e-9 * static_cast<double>(ReadClockNs(CLOCK_PROCESS_CPUTIME_ID)); }

const std::vector<std::string>& Batches() {
  static const std::vector<std::string> batches = [] {
    std::vector<std::string> out;
    for (uint32_t rank = 0; rank < kRanks; ++rank) out.push_back(Batch(rank));
    return out;
  }();
  return batches;
}

uint64_t Events() {
  uint64_t events = 0;
  for (const std::string& batch : Batches())
    events += capture::TotalRows(capture::CountRows(capture::WalkBlocks(batch).blocks));
  return events;
}

void Decode() {
  columns::DecodedBlock block;
  for (const std::string& batch : Batches()) {
    for (size_t at = 0; at < batch.size();) {
      at += *columns::Decode(std::as_bytes(std::span(batch).subspan(at)), block);
      benchmark::DoNotOptimize(block.columns.data());
    }
  }
}

double FloorSeconds() {
  static const double floor = [] {
    constexpr int kRounds = 20;
    Decode();
    const double start = CpuSeconds();
    for (int i = 0; i < kRounds; ++i) Decode();
    return (CpuSeconds() - start) / kRounds;
  }();
  return floor;
}

void ReportSpeed(benchmark::State& state, double seconds) {
  const double rounds = static_cast<double>(state.iterations());
  state.counters["events_per_s"] = rounds * static_cast<double>(Events()) / seconds;
  state.counters["vs_decode"] = seconds / rounds / FloorSeconds();
}

void BM_Decode(benchmark::State& state) {
  const double start = CpuSeconds();
  for (auto _ : state) Decode();
  ReportSpeed(state, CpuSeconds() - start);
}

void BM_StoreBatches(benchmark::State& state) {
  const TestFolder folder;
  int round = 0;
  const double start = CpuSeconds();
  for (auto _ : state) StoreCapture(folder.path() + "/" + std::to_string(round++), Batches());
  ReportSpeed(state, CpuSeconds() - start);
}

void BM_LoadRecords(benchmark::State& state) {
  const TestFolder folder;
  StoreCapture(folder.path() + "/c", Batches());
  const double start = CpuSeconds();
  for (auto _ : state) benchmark::DoNotOptimize(capture::LoadRecords(folder.path() + "/c"));
  ReportSpeed(state, CpuSeconds() - start);
}

void BM_Analyze(benchmark::State& state) {
  const TestFolder folder;
  StoreCapture(folder.path() + "/c", Batches());
  const capture::Capture capture = *capture::LoadRecords(folder.path() + "/c");
  const double start = CpuSeconds();
  for (auto _ : state) benchmark::DoNotOptimize(report::Analyze(capture));
  ReportSpeed(state, CpuSeconds() - start);
}

// The files of a report, on the clock.
void Report(benchmark::State& state, Analyst& analyst) {
  const TestFolder folder;
  StoreCapture(folder.path() + "/c", Batches());
  for (auto _ : state) {
    if (!analyst.Report({folder.path() + "/c", 0}, WritesPage::kYes).ok()) std::abort();
  }
}

void BM_ReportHere(benchmark::State& state) {
  LocalAnalyst analyst;
  Report(state, analyst);
}

void BM_ReportInChild(benchmark::State& state) {
  ChildAnalyst analyst({LOCKSTEP_AGGREGATOR_PROGRAM, kProgramVersion, {}, &LogNothing});
  Report(state, analyst);
}

BENCHMARK(BM_Decode)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_StoreBatches)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LoadRecords)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Analyze)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReportHere)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_ReportInChild)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace lockstep::aggregator

BENCHMARK_MAIN();
