// TopModel holds the last samples of a job for `lockstep top` and summarizes them.
#ifndef LOCKSTEP_CLI_TOP_TOP_MODEL_H_
#define LOCKSTEP_CLI_TOP_TOP_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/v1/live.pb.h"

namespace lockstep::cli {

// Sort column of the table of ranks; the worst rank comes first.
enum class TopSort { kAboveTypical, kWait, kTransfer, kIdle, kOverlap, kLost, kRank };
inline constexpr size_t kTopSorts = 7;
// Names of --sort-by: "above-typical", "wait", ….
const char* TopSortName(TopSort sort);
std::optional<TopSort> ParseTopSort(const std::string& name);

// Returns whether `lockstep top` prints something when this event comes. The other events, and those of newer
// aggregators, change only what is printed next.
inline bool PrintedInTop(const v1::WatchEvent& event) {
  return event.has_sample() || event.has_pause() || event.has_ended();
}

// Of the last `of` samples with a verdict, `agree` have the newest one's verdict.
struct TopAgreement {
  size_t agree = 0;
  size_t of = 0;
};

// One thread.
class TopModel {
 public:
  // Ignores samples that the model already has, because an aggregator repeats its last events to a new
  // watcher.
  void Add(const v1::WatchEvent& event);

  // Returns null before the first sample.
  const v1::Sample* last() const { return samples_.empty() ? nullptr : &samples_.back(); }
  const v1::SamplingPace& pace() const { return pace_; }
  // Returns the reason why the last sample failed, or null if it succeeded.
  const v1::SamplingPause* pause() const { return pause_ ? &*pause_ : nullptr; }
  // Returns what the aggregator noticed without samples, when it last sent an event.
  const v1::JobNotice& notice() const { return notice_; }
  bool ended() const { return ended_; }
  size_t samples() const { return count_; }

  // Verdicts agree if culprit and cause are equal, or both name no culprit. Samples with too few steps do not
  // count.
  TopAgreement Agreement() const;
  // Returns the step length in ns of each of the last samples, oldest first.
  std::vector<std::optional<double>> StepTrend(size_t most) const;
  // Returns the mean length in ns of all steps between the last two samples, recorded or not. Returns nullopt
  // if steps have no numbers.
  std::optional<double> StepSinceSampleNs() const;
  // Returns the ranks of the last sample.
  std::vector<const v1::SampleRank*> Ranks(TopSort sort) const;

 private:
  static constexpr size_t kMaxSamples = 120;
  static constexpr size_t kAgreementSamples = 10;

  std::deque<v1::Sample> samples_;  // the newest last
  size_t count_ = 0;
  v1::SamplingPace pace_;
  std::optional<v1::SamplingPause> pause_;
  v1::JobNotice notice_;
  bool ended_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_MODEL_H_
