#include "analysis/explain/shared_losses.h"

#include <algorithm>

#include "analysis/time/device_use.h"
#include "base/median.h"
#include "base/parallel.h"

namespace lockstep::analysis {
namespace {

// A rank's mean use per step, in nanoseconds.
struct MeanUse {
  double transfer = 0, wait = 0, copies = 0, input = 0, host_launch = 0, host_silent = 0, idle = 0;
};

MeanUse MeanOfSteps(const std::vector<DeviceUse>& steps) {
  MeanUse mean;
  for (const DeviceUse& s : steps) {
    const auto add = [&](double& sum, Nanos part) {
      sum += static_cast<double>(part.ns()) / static_cast<double>(steps.size());
    };
    add(mean.transfer, s.exposed_transfer + s.exposed_unsplit);
    add(mean.wait, s.exposed_wait);
    add(mean.copies, s.copies);
    add(mean.input, s.input);
    add(mean.host_launch, s.host_launch);
    add(mean.host_silent, s.host_silent);
    add(mean.idle, s.host_silent + s.idle_other);
  }
  return mean;
}

std::vector<double> Column(const std::vector<MeanUse>& ranks, double MeanUse::*part) {
  std::vector<double> out;
  for (const MeanUse& rank : ranks) out.push_back(rank.*part);
  return out;
}

}  // namespace

std::string_view SharedLossKindName(SharedLossKind kind) {
  switch (kind) {
    case SharedLossKind::kInput:
      return "input";
    case SharedLossKind::kHostLaunch:
      return "host_launch";
    case SharedLossKind::kExposedTransfer:
      return "exposed_transfer";
    case SharedLossKind::kExposedWait:
      return "exposed_wait";
    case SharedLossKind::kPipelineBubble:
      return "pipeline_bubble";
    case SharedLossKind::kCopies:
      return "copies";
    case SharedLossKind::kIdleOther:
      return "idle_other";
  }
  return "idle_other";
}

std::vector<SharedLoss> FindSharedLosses(const GraphInput& input, const Diagnosis& diagnosis) {
  std::vector<SharedLoss> losses;
  if (diagnosis.step_ns <= 0 || input.capture.ranks.empty()) return losses;
  // A device whose work was not recorded only seems to idle.
  if (std::any_of(input.capture.ranks.begin(), input.capture.ranks.end(), [](const capture::RankData& r) {
        return r.unseen_graph_launches > 0 || capture::HasOnlyCommunication(r);
      }))
    return losses;
  std::vector<MeanUse> ranks(input.capture.ranks.size());
  ParallelFor(input.threads, ranks.size(), [&](unsigned, size_t r) {
    ranks[r] = MeanOfSteps(DeviceUseOfSteps(input.capture, input.capture.ranks[r], input.steps.ranks[r],
                                            input.times.parts[r], input.calls[r]));
  });
  const auto add = [&](SharedLossKind kind, const std::vector<double>& of_ranks, double lost) {
    const auto [least, most] = std::minmax_element(of_ranks.begin(), of_ranks.end());
    if (lost < kLeastSharedLoss * diagnosis.step_ns) return;
    losses.push_back({.kind = kind,
                      .lost_ns = lost,
                      .share = std::min(1.0, lost / diagnosis.step_ns),
                      .least_ns = *least,
                      .most_ns = *most});
  };
  const auto add_median = [&](SharedLossKind kind, double MeanUse::*part) {
    const std::vector<double> column = Column(ranks, part);
    add(kind, column, Median(column));
  };
  add_median(SharedLossKind::kInput, &MeanUse::input);
  add_median(SharedLossKind::kHostLaunch, &MeanUse::host_launch);
  add_median(SharedLossKind::kExposedTransfer, &MeanUse::transfer);
  add_median(SharedLossKind::kCopies, &MeanUse::copies);
  const size_t others = losses.size();
  add_median(SharedLossKind::kIdleOther, &MeanUse::idle);
  if (losses.size() > others) losses.back().silent_ns = Median(Column(ranks, &MeanUse::host_silent));
  if (diagnosis.has_ideal) {
    const std::vector<double> waits = Column(ranks, &MeanUse::wait);
    const bool pipeline = diagnosis.layout.stages > 0;
    add(pipeline ? SharedLossKind::kPipelineBubble : SharedLossKind::kExposedWait, waits,
        (pipeline ? Mean(waits) : Median(waits)) - std::max(0.0, diagnosis.lost_ns));
  }
  std::stable_sort(losses.begin(), losses.end(),
                   [](const SharedLoss& a, const SharedLoss& b) { return a.lost_ns > b.lost_ns; });
  return losses;
}

}  // namespace lockstep::analysis
