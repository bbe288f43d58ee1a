// Measures each stage from the daemons' batches to the report, in events per second of CPU time. "vs_decode"
// is the time relative to the lower limit in the same run: decoding the same blocks and nothing else.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/read_clock.h"
#include "capture/store/records.h"
#include "capture/store/records_blocks.h"
#include "capture/store/records_writer.h"
#include "report/report.h"
#include "wire/columns/columns.h"

namespace lockstep::aggregator {
namespace {

constexpr uint32_t kRanks = 8;
constexpr uint32_t kSteps = 16;
constexpr uint32_t kKernelsPerStep = 400;
constexpr uint64_t kStart = 1'790'000'000'000'000'000;

// CPU time of all threads, so that other processes on the same cores do not affect the result.
double CpuSeconds() { return 1e-9 * static_cast<double>(ReadClockNs(CLOCK_PROCESS_CPUTIME_ID)); }

// A rank's steps: launches, kernels of twelve shapes, and an all-reduce after every twentieth kernel.
struct RankSteps {
  columns::BlockBuilder kernels{columns::Kind::kKernel};
  columns::BlockBuilder calls{columns::Kind::kApi};
  columns::BlockBuilder ranges{columns::Kind::kRange};

  explicit RankSteps(uint32_t rank) {
    uint64_t now = kStart;
    uint32_t correlation = 1;
    for (uint32_t step = 0; step < kSteps; ++step) {
      const uint64_t began = now;
      for (uint32_t i = 0; i < kKernelsPerStep; ++i, ++correlation) AddKernel(i, rank, correlation, now);
      std::vector<uint64_t> range(columns::range::kColumns, 0);
      range[columns::range::kStart] = began;
      range[columns::range::kDuration] = now - began;
      range[columns::range::kName] = 100 + step;
      range[columns::range::kThread] = 1;
      ranges.Append(range);
    }
  }

  void AddKernel(uint32_t i, uint32_t rank, uint32_t correlation, uint64_t& now) {
    std::vector<uint64_t> call(columns::api::kColumns, 0);
    call[columns::api::kStart] = now - 20'000;
    call[columns::api::kDuration] = 4'000;
    call[columns::api::kCorrelation] = correlation;
    call[columns::api::kThread] = 1;
    call[columns::api::kName] = 50;
    calls.Append(call);
    const bool collective = i % 20 == 19;
    std::vector<uint64_t> kernel(columns::kernel::kColumns, 0);
    kernel[columns::kernel::kStart] = now;
    kernel[columns::kernel::kDuration] = collective ? 40'000 + rank * 100 : 10'000 + (i % 12) * 4'000;
    kernel[columns::kernel::kCorrelation] = correlation;
    kernel[columns::kernel::kStream] = collective ? 20 : 7;
    kernel[columns::kernel::kName] = collective ? 13 : 1 + i % 12;
    kernel[columns::kernel::kGridX] = 64;
    kernel[columns::kernel::kBlockX] = 128;
    kernels.Append(kernel);
    now += kernel[columns::kernel::kDuration] + 1'000;
  }
};

std::string Batch(uint32_t rank) {
  std::vector<std::string> texts;
  for (int i = 0; i < 12; ++i) texts.push_back("gemm_" + std::to_string(i));
  std::vector<columns::StringDefinition> strings;
  for (uint32_t i = 0; i < texts.size(); ++i) strings.push_back({i + 1, texts[i]});
  strings.push_back({13, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)"});
  strings.push_back({50, "cudaLaunchKernel"});
  std::vector<std::string> steps;
  for (uint32_t i = 0; i < kSteps; ++i) steps.push_back("ProfilerStep#" + std::to_string(i));
  for (uint32_t i = 0; i < kSteps; ++i) strings.push_back({100 + i, steps[i]});
  std::string out;
  columns::EncodeStrings(1, strings, out);
  RankSteps rows(rank);
  rows.kernels.Encode(1, 0, out);
  rows.calls.Encode(1, 0, out);
  rows.ranges.Encode(1, 0, out);
  return out;
}

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

// A folder of records; the destructor removes it.
class Folder {
 public:
  Folder() {
    char pattern[] = "/tmp/lockstep-capture-bench-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void Store(const std::string& folder) {
  capture::Manifest manifest;
  manifest.world_size = kRanks;
  manifest.complete = true;
  manifest.hosts = {{"node", "n0", {}}};
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    capture::ManifestProcess process;
    process.rank = RankId(static_cast<int32_t>(rank));
    process.host = 0;
    process.window = {HostTime(static_cast<int64_t>(kStart)),
                      HostTime(static_cast<int64_t>(kStart) + 2'000'000'000)};
    manifest.processes.push_back(process);
  }
  auto writer = *capture::RecordsWriter::Create(folder, manifest);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    if (!writer->Append({rank, 1}, manifest.processes[rank].rank, Batches()[rank]).ok()) std::abort();
    manifest.processes[rank].files = writer->Files(rank);
  }
  if (!writer->Close(manifest).ok()) std::abort();
}

void BM_Decode(benchmark::State& state) {
  const double start = CpuSeconds();
  for (auto _ : state) Decode();
  ReportSpeed(state, CpuSeconds() - start);
}

void BM_StoreBatches(benchmark::State& state) {
  const Folder folder;
  int round = 0;
  const double start = CpuSeconds();
  for (auto _ : state) Store(folder.path() + "/" + std::to_string(round++));
  ReportSpeed(state, CpuSeconds() - start);
}

void BM_LoadRecords(benchmark::State& state) {
  const Folder folder;
  Store(folder.path() + "/c");
  const double start = CpuSeconds();
  for (auto _ : state) benchmark::DoNotOptimize(capture::LoadRecords(folder.path() + "/c"));
  ReportSpeed(state, CpuSeconds() - start);
}

void BM_Analyze(benchmark::State& state) {
  const Folder folder;
  Store(folder.path() + "/c");
  const capture::Capture capture = *capture::LoadRecords(folder.path() + "/c");
  const double start = CpuSeconds();
  for (auto _ : state) benchmark::DoNotOptimize(report::Analyze(capture));
  ReportSpeed(state, CpuSeconds() - start);
}

BENCHMARK(BM_Decode)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_StoreBatches)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_LoadRecords)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Analyze)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::aggregator

BENCHMARK_MAIN();
