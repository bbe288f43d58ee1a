#include "aggregator/analysis/utilization.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace lockstep::analysis {
namespace {

constexpr std::array<std::string_view, 18> kTensorCoreMarks = {
    "884",  "1688",  "16816", "i8816", "hmma",  "imma",      "wgmma",         "xmma_gemm", "xmma_fprop",
    "gmma", "mma_f", "mma_b", "tcgen", "flash_", "tensorop", "nvjet", "cudnn_generated_fort", "cutlass_tensor"};

double BlocksPerSm(const store::KernelDetail& detail, int32_t sms) {
  if (detail.blocks_per_sm >= 0) return detail.blocks_per_sm;
  if (sms <= 0 || detail.grid[0] == 0) return -1;
  return static_cast<double>(detail.grid[0]) * detail.grid[1] * detail.grid[2] / sms;
}

}  // namespace

std::optional<double> SmEfficiency(const store::RankData& rank, Nanos span) {
  struct Edge {
    int64_t at;
    double blocks;
  };
  std::vector<Edge> starts, ends;
  for (const store::DeviceActivity& a : rank.activities) {
    if (a.kind != store::ActivityKind::kKernel || a.end <= a.start || a.detail >= rank.kernel_details.size()) continue;
    const double blocks = BlocksPerSm(rank.kernel_details[a.detail], rank.properties.sms);
    if (blocks < 0) continue;
    starts.push_back({a.start.ns(), blocks});
    ends.push_back({a.end.ns(), blocks});
  }
  if (starts.empty() || span <= Nanos()) return std::nullopt;
  const auto earlier = [](const Edge& a, const Edge& b) { return a.at < b.at; };
  if (!std::is_sorted(ends.begin(), ends.end(), earlier)) std::sort(ends.begin(), ends.end(), earlier);
  double live = 0, area = 0;
  int64_t now = starts.front().at;
  for (size_t i = 0, j = 0; j < ends.size();) {
    const bool begins = i < starts.size() && starts[i].at < ends[j].at;
    const Edge& next = begins ? starts[i++] : ends[j++];
    area += std::clamp(live, 0.0, 1.0) * static_cast<double>(next.at - now);
    live += begins ? next.blocks : -next.blocks;
    now = next.at;
  }
  return std::min(1.0, area / static_cast<double>(span.ns()));
}

std::optional<double> AchievedOccupancy(const store::RankData& rank) {
  double weighted = 0, time = 0;
  for (const store::DeviceActivity& a : rank.activities) {
    if (a.kind != store::ActivityKind::kKernel || a.detail >= rank.kernel_details.size()) continue;
    const float percent = rank.kernel_details[a.detail].occupancy_percent;
    if (percent < 0) continue;
    const auto duration = static_cast<double>((a.end - a.start).ns());
    weighted += duration * percent / 100.0;
    time += duration;
  }
  if (time <= 0) return std::nullopt;
  return weighted / time;
}

bool NamesTensorCores(std::string_view kernel) {
  return std::any_of(kTensorCoreMarks.begin(), kTensorCoreMarks.end(),
                     [&](std::string_view mark) { return kernel.find(mark) != std::string_view::npos; });
}

std::optional<double> TensorCoreFraction(const store::Capture& capture, const store::RankData& rank) {
  enum : int8_t { kUnknown, kNo, kYes };
  std::vector<int8_t> known(capture.strings.size(), kUnknown);
  Nanos tensor, all;
  for (const store::DeviceActivity& a : rank.activities) {
    if (a.kind != store::ActivityKind::kKernel || a.communication || a.name == kNoName || a.name.value() >= known.size()) {
      continue;
    }
    int8_t& yes = known[a.name.value()];
    if (yes == kUnknown) yes = NamesTensorCores(capture.Text(a.name)) ? kYes : kNo;
    all += a.end - a.start;
    if (yes == kYes) tensor += a.end - a.start;
  }
  if (all <= Nanos()) return std::nullopt;
  return static_cast<double>(tensor.ns()) / static_cast<double>(all.ns());
}

}  // namespace lockstep::analysis
