// Test helper: stored captures of generated rows.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_STORED_CAPTURE_FIXTURE_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_STORED_CAPTURE_FIXTURE_H_

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "capture/store/records_manifest.h"
#include "capture/store/records_writer.h"
#include "wire/columns/columns.h"

namespace lockstep::aggregator {

inline constexpr uint32_t kRanks = 8;
inline constexpr uint32_t kSteps = 16;
inline constexpr uint32_t kKernelsPerStep = 400;
inline constexpr uint64_t kStart = 1'790'000'000'000'000'000;

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

inline std::string Batch(uint32_t rank) {
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

// A folder for captures; the destructor removes it.
class TestFolder {
 public:
  TestFolder() {
    char pattern[] = "/tmp/lockstep-stored-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Writes a capture whose rank i has the rows `batches[i]`.
inline void StoreCapture(const std::string& folder, const std::vector<std::string>& batches) {
  capture::Manifest manifest;
  manifest.id = std::filesystem::path(folder).filename().string();
  manifest.world_size = static_cast<int32_t>(batches.size());
  manifest.complete = true;
  manifest.hosts = {{"node", "n0", {}}};
  for (size_t rank = 0; rank < batches.size(); ++rank) {
    capture::ManifestProcess process;
    process.rank = RankId(static_cast<int32_t>(rank));
    process.host = 0;
    process.window = {HostTime(static_cast<int64_t>(kStart)),
                      HostTime(static_cast<int64_t>(kStart) + 2'000'000'000)};
    manifest.processes.push_back(process);
  }
  auto writer = *capture::RecordsWriter::Create(folder, manifest);
  for (uint32_t rank = 0; rank < batches.size(); ++rank) {
    if (!writer->Append({rank, 1}, manifest.processes[rank].rank, batches[rank]).ok()) std::abort();
    manifest.processes[rank].files = writer->Files(rank);
  }
  if (!writer->Close(manifest).ok()) std::abort();
}

// Returns blocks of `count` full blocks of equal rows: few bytes, and 65,536 rows each.
inline std::string RowBomb(uint32_t count) {
  columns::BlockBuilder builder(columns::Kind::kKernel);
  std::vector<uint64_t> row(columns::kernel::kColumns, 0);
  row[columns::kernel::kStart] = kStart;
  row[columns::kernel::kDuration] = 1000;
  row[columns::kernel::kCorrelation] = 1;
  for (uint32_t i = 0; i < columns::kMaxRows; ++i) builder.Append(row);
  std::string block, out;
  builder.Encode(1, 0, block);
  for (uint32_t i = 0; i < count; ++i) out += block;
  return out;
}

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_STORED_CAPTURE_FIXTURE_H_
