#include "views/catalog/recommendations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"

namespace lockstep::views {
namespace {

// Limits of torch-tb-profiler.
constexpr double kLeastUtilization = 0.5, kLeastEligible = 0.01, kMostMemory = 0.9;
constexpr double kGiB = 1024.0 * 1024 * 1024;
// The annotation of torch.nn.DataParallel around its forward pass.
constexpr std::string_view kDataParallel = "DataParallel.forward";

// Returns the mean of a figure over the ranks for which it is known.
std::optional<double> MeanOf(const std::vector<views::RankOverview>& ranks,
                             std::optional<double> views::RankOverview::*figure) {
  double sum = 0;
  int n = 0;
  for (const views::RankOverview& rank : ranks) {
    if (!(rank.*figure)) continue;
    sum += *(rank.*figure);
    ++n;
  }
  return n == 0 ? std::nullopt : std::optional(sum / n);
}

// Recommends less memory for the fullest device, if PyTorch's allocator held more of it than the limit.
void AddMemory(const capture::Capture& capture, std::vector<std::string>& out) {
  double fullest = kMostMemory;
  size_t others = 0;
  std::string text;
  for (const capture::RankData& rank : capture.ranks) {
    if (rank.frames == nullptr || rank.properties.memory_bytes == 0) continue;
    int64_t most = 0;
    for (const capture::AllocationEvent& e : rank.frames->allocations) {
      if (e.device == static_cast<int32_t>(rank.device.value()))
        most = std::max(most, std::max(e.reserved.value_or(0), e.allocated.value_or(0)));
    }
    const double part = static_cast<double>(most) / static_cast<double>(rank.properties.memory_bytes);
    if (part <= kMostMemory) continue;
    ++others;
    if (part <= fullest) continue;
    fullest = part;
    text = absl::StrFormat(
        "PyTorch held %.0f%% of the memory of rank %d's GPU %u (%.1f of %.1f GiB): smaller microbatches, "
        "activation checkpointing or a "
        "sharded optimizer leave room, before an allocation fails or has to free others first",
        part * 100, rank.rank.value(), rank.device.value(), static_cast<double>(most) / kGiB,
        static_cast<double>(rank.properties.memory_bytes) / kGiB);
  }
  if (text.empty()) return;
  if (others > 1)
    absl::StrAppendFormat(&text, "; %u other GPU%s also above %.0f%%", others - 1,
                          others == 2 ? " is" : "s are", kMostMemory * 100);
  out.push_back(std::move(text));
}

// Finds ranks with one process that drives several GPUs through torch.nn.DataParallel.
void AddDataParallel(const capture::Capture& capture, std::vector<std::string>& out) {
  std::map<const capture::HostFrames*, std::pair<RankId, size_t>>
      processes;  // the entries of a process share its frames
  for (const capture::RankData& rank : capture.ranks) {
    if (rank.frames != nullptr) ++processes.try_emplace(rank.frames.get(), rank.rank, 0).first->second.second;
  }
  size_t found = 0, most_devices = 0;
  RankId where = kNoRank;
  for (const auto& [frames, process] : processes) {
    const auto& [rank, devices] = process;
    if (devices < 2) continue;
    const bool uses =
        std::any_of(frames->frames.begin(), frames->frames.end(),
                    [&](const capture::HostFrame& f) { return capture.Text(f.name) == kDataParallel; });
    if (!uses) continue;
    ++found;
    if (devices > most_devices || (devices == most_devices && rank < where))
      std::tie(most_devices, where) = std::tuple(devices, rank);
  }
  if (found == 0) return;
  out.push_back(absl::StrFormat(
      "rank %d drives %u GPUs from one process by torch.nn.DataParallel, which copies the model to each of "
      "them in every step%s: use "
      "DistributedDataParallel, a process for each GPU",
      where.value(), most_devices, found > 1 ? absl::StrFormat(" (%u ranks do so)", found) : ""));
}

}  // namespace

std::vector<std::string> RecommendationsOf(const capture::Capture& capture, const report::Report& report,
                                           const std::vector<views::RankOverview>& ranks) {
  std::vector<std::string> out = report.recommendations;
  const auto busy = MeanOf(ranks, &views::RankOverview::gpu_utilization);
  if (busy && *busy < kLeastUtilization) {
    out.push_back(
        absl::StrFormat("the GPUs run kernels %.0f%% of the time: give them larger batches, or the host less "
                        "to do between launches",
                        *busy * 100));
  }
  const auto eligible = MeanOf(ranks, &views::RankOverview::eligible_fraction);
  const auto used = MeanOf(ranks, &views::RankOverview::eligible_tensor_core_fraction);
  if (eligible && *eligible > kLeastEligible && used && *used == 0) {
    out.push_back(
        absl::StrFormat("operators that could use tensor cores take %.0f%% of the kernels' time, and none of "
                        "it does: train in mixed precision",
                        *eligible * 100));
  }
  AddMemory(capture, out);
  AddDataParallel(capture, out);
  return out;
}

}  // namespace lockstep::views
