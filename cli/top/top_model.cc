#include "cli/top/top_model.h"

#include <algorithm>
#include <array>
#include <functional>

#include "analysis/prepare/steps.h"

namespace lockstep::cli {
namespace {

constexpr std::array<const char*, kTopSorts> kSortNames = {"above-typical", "wait", "transfer", "idle",
                                                           "overlap",       "lost", "rank"};

double PartOfSpan(int64_t ns, const v1::SampleRank& rank) {
  return rank.span_ns() > 0 ? static_cast<double>(ns) / static_cast<double>(rank.span_ns()) : 0;
}

// A greater value is worse.
double SortKey(const v1::SampleRank& rank, TopSort sort) {
  switch (sort) {
    case TopSort::kAboveTypical:
      return rank.has_lost_ns_per_step() ? rank.lost_ns_per_step() : -1e18;
    case TopSort::kWait:
      return PartOfSpan(rank.exposed_wait_ns(), rank);
    case TopSort::kTransfer:
      return PartOfSpan(rank.exposed_transfer_ns(), rank);
    case TopSort::kIdle:
      return PartOfSpan(rank.idle_ns(), rank);
    case TopSort::kOverlap:
      return rank.has_overlap_fraction() ? -rank.overlap_fraction() : -2;
    case TopSort::kLost:
      return static_cast<double>(rank.lost_records());
    case TopSort::kRank:
      return 0;
  }
  return 0;
}

bool Decided(const v1::Sample& sample) { return sample.steps() >= analysis::kLeastSteps; }

bool SameVerdict(const v1::Sample& a, const v1::Sample& b) {
  if (a.stragglers_size() == 0 || b.stragglers_size() == 0) return a.stragglers_size() == b.stragglers_size();
  const v1::SampleStraggler& x = a.stragglers(0);
  const v1::SampleStraggler& y = b.stragglers(0);
  return x.kind() == y.kind() && x.cause() == y.cause() &&
         std::equal(x.ranks().begin(), x.ranks().end(), y.ranks().begin(), y.ranks().end());
}

}  // namespace

const char* TopSortName(TopSort sort) { return kSortNames[static_cast<size_t>(sort)]; }

std::optional<TopSort> ParseTopSort(const std::string& name) {
  const auto at = std::find(kSortNames.begin(), kSortNames.end(), name);
  if (at == kSortNames.end()) return std::nullopt;
  return static_cast<TopSort>(at - kSortNames.begin());
}

void TopModel::Add(const v1::WatchEvent& event) {
  if (event.has_pace()) pace_ = event.pace();
  if (event.has_ended()) ended_ = true;
  if (event.has_notice()) notice_ = event.notice();
  const int64_t newest = samples_.empty() ? 0 : samples_.back().begin_unix_ns();
  if (event.has_pause() && event.pause().at_unix_ns() > newest) pause_ = event.pause();
  if (!event.has_sample() || event.sample().begin_unix_ns() <= newest) return;
  pause_.reset();
  samples_.push_back(event.sample());
  ++count_;
  if (samples_.size() > kMaxSamples) samples_.pop_front();
}

TopAgreement TopModel::Agreement() const {
  TopAgreement agreement;
  if (samples_.empty() || !Decided(samples_.back())) return agreement;
  for (auto sample = samples_.rbegin(); sample != samples_.rend() && agreement.of < kAgreementSamples;
       ++sample) {
    if (!Decided(*sample)) continue;
    ++agreement.of;
    agreement.agree += SameVerdict(*sample, samples_.back());
  }
  return agreement;
}

std::vector<std::optional<double>> TopModel::StepTrend(size_t most) const {
  std::vector<std::optional<double>> trend;
  for (size_t i = samples_.size() - std::min(most, samples_.size()); i < samples_.size(); ++i) {
    trend.push_back(samples_[i].has_step_ns() ? std::optional(samples_[i].step_ns()) : std::nullopt);
  }
  return trend;
}

std::optional<double> TopModel::StepSinceSampleNs() const {
  if (samples_.size() < 2) return std::nullopt;
  const v1::Sample& before = samples_[samples_.size() - 2];
  const v1::Sample& now = samples_.back();
  // After a restart of the job or of its data, step numbers begin again.
  if (!before.has_last_step() || !now.has_last_step() || now.last_step() <= before.last_step())
    return std::nullopt;
  const int64_t time = now.last_step_begin_unix_ns() - before.last_step_begin_unix_ns();
  if (time <= 0) return std::nullopt;
  return static_cast<double>(time) / static_cast<double>(now.last_step() - before.last_step());
}

std::vector<const v1::SampleRank*> TopModel::Ranks(TopSort sort) const {
  std::vector<const v1::SampleRank*> rows;
  if (samples_.empty()) return rows;
  for (const v1::SampleRank& rank : samples_.back().ranks()) rows.push_back(&rank);
  std::stable_sort(rows.begin(), rows.end(), [sort](const v1::SampleRank* a, const v1::SampleRank* b) {
    const double x = SortKey(*a, sort), y = SortKey(*b, sort);
    return x != y ? x > y : a->rank() < b->rank();
  });
  return rows;
}

}  // namespace lockstep::cli
