#include "analysis/time/utilization.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "analysis/time/occupancy.h"

namespace lockstep::analysis {
namespace {

constexpr std::array<std::string_view, 18> kTensorCoreMarks = {"884",
                                                               "1688",
                                                               "16816",
                                                               "i8816",
                                                               "hmma",
                                                               "imma",
                                                               "wgmma",
                                                               "xmma_gemm",
                                                               "xmma_fprop",
                                                               "gmma",
                                                               "mma_f",
                                                               "mma_b",
                                                               "tcgen",
                                                               "flash_",
                                                               "tensorop",
                                                               "nvjet",
                                                               "cudnn_generated_fort",
                                                               "cutlass_tensor"};

enum class BlockFilter : uint8_t {
  kKnown,     // blocks per multiprocessor, of kernels that state them
  kAnyAsOne,  // every kernel counts as one
};

// Calls use(from, to, sum over the kernels that run in between), from the first start to the last end.
// Returns false without kernels.
template <typename Use>
bool SweepKernels(const capture::RankData& rank, BlockFilter which, Use use) {
  struct Edge {
    int64_t at;
    double blocks;
  };
  std::vector<Edge> starts, ends;
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.kind != capture::ActivityKind::kKernel || a.end <= a.start) continue;
    double blocks = 1;
    if (which == BlockFilter::kKnown) {
      blocks = a.detail < rank.kernel_details.size()
                   ? BlocksPerSm(rank.kernel_details[a.detail], rank.properties.sms).value_or(-1)
                   : -1;
    }
    if (blocks < 0) continue;
    starts.push_back({a.start.ns(), blocks});
    ends.push_back({a.end.ns(), blocks});
  }
  if (starts.empty()) return false;
  const auto earlier = [](const Edge& a, const Edge& b) { return a.at < b.at; };
  if (!std::is_sorted(ends.begin(), ends.end(), earlier)) std::sort(ends.begin(), ends.end(), earlier);
  double live = 0;
  int64_t now = starts.front().at;
  for (size_t i = 0, j = 0; j < ends.size();) {
    const bool begins = i < starts.size() && starts[i].at < ends[j].at;
    const Edge& next = begins ? starts[i++] : ends[j++];
    if (next.at > now) use(now, next.at, live);
    live += begins ? next.blocks : -next.blocks;
    now = next.at;
  }
  return true;
}

}  // namespace

std::optional<double> BlocksPerSm(const capture::KernelDetail& detail, int32_t sms) {
  if (detail.blocks_per_sm >= 0) return detail.blocks_per_sm;
  if (sms <= 0 || detail.grid[0] == 0) return std::nullopt;
  return static_cast<double>(detail.grid[0]) * detail.grid[1] * detail.grid[2] / sms;
}

std::optional<double> SmEfficiency(const capture::RankData& rank, Nanos span) {
  if (span <= Nanos()) return std::nullopt;
  double area = 0;
  const bool any = SweepKernels(rank, BlockFilter::kKnown, [&](int64_t from, int64_t to, double blocks) {
    area += std::clamp(blocks, 0.0, 1.0) * static_cast<double>(to - from);
  });
  return any ? std::optional(std::min(1.0, area / static_cast<double>(span.ns()))) : std::nullopt;
}

UtilizationSeries MeasureUtilization(const capture::RankData& rank, Nanos width, size_t most) {
  UtilizationSeries series{.width = width};
  HostTime first = HostTime::Max(), last = HostTime::Min();
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.kind != capture::ActivityKind::kKernel || a.end <= a.start) continue;
    first = std::min(first, a.start);
    last = std::max(last, a.end);
  }
  if (first >= last) return series;
  const auto bins = static_cast<size_t>(((last - first).ns() + width.ns() - 1) / width.ns());
  if (bins > most) return series;
  series.start = first;
  const auto add = [&](std::vector<double>& to, int64_t from, int64_t until, double value) {
    if (to.empty()) to.assign(bins, 0);
    while (value > 0 && from < until) {
      const int64_t bin = (from - first.ns()) / width.ns();
      const int64_t end = std::min(until, first.ns() + (bin + 1) * width.ns());
      to[static_cast<size_t>(bin)] +=
          value * static_cast<double>(end - from) / static_cast<double>(width.ns());
      from = end;
    }
  };
  SweepKernels(rank, BlockFilter::kAnyAsOne, [&](int64_t from, int64_t to, double running) {
    add(series.busy, from, to, std::min(running, 1.0));
  });
  SweepKernels(rank, BlockFilter::kKnown, [&](int64_t from, int64_t to, double blocks) {
    add(series.sm_efficiency, from, to, std::clamp(blocks, 0.0, 1.0));
  });
  return series;
}

std::optional<double> AchievedOccupancy(const capture::RankData& rank) {
  double weighted = 0, time = 0;
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.kind != capture::ActivityKind::kKernel || a.detail >= rank.kernel_details.size()) continue;
    const std::optional<double> occupancy =
        EstimatedOccupancy(rank.kernel_details[a.detail], rank.properties);
    if (!occupancy) continue;
    const auto duration = static_cast<double>((a.end - a.start).ns());
    weighted += duration * *occupancy;
    time += duration;
  }
  if (time <= 0) return std::nullopt;
  return weighted / time;
}

bool NamesTensorCores(std::string_view kernel) {
  return std::any_of(kTensorCoreMarks.begin(), kTensorCoreMarks.end(),
                     [&](std::string_view mark) { return kernel.find(mark) != std::string_view::npos; });
}

std::optional<double> TensorCoreFraction(const capture::Capture& capture, const capture::RankData& rank) {
  enum : int8_t { kUnknown, kNo, kYes };
  std::vector<int8_t> known(capture.strings.size(), kUnknown);
  Nanos tensor, all;
  for (const capture::DeviceActivity& a : rank.activities) {
    if (a.kind != capture::ActivityKind::kKernel || a.communication || a.name == kNoName ||
        a.name.value() >= known.size()) {
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
