// What `lockstep top` knows of a job: its last samples, and what they say together.
#ifndef LOCKSTEP_CLI_TOP_MODEL_H_
#define LOCKSTEP_CLI_TOP_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/v1/live.pb.h"

namespace lockstep::cli {

// What the table of ranks is sorted by, the worst first.
enum class TopSort { kAboveTypical, kWait, kTransfer, kIdle, kOverlap, kLost, kRank };
inline constexpr size_t kTopSorts = 7;
// As in --sort-by: "above-typical", "wait", …
const char* TopSortName(TopSort sort);
std::optional<TopSort> ParseTopSort(const std::string& name);

// How many of the last samples that came to a verdict came to the newest one's.
struct TopAgreement {
  size_t agree = 0;
  size_t of = 0;
};

// One thread.
class TopModel {
 public:
  // Of samples that came before (an aggregator tells who joins of the last ones) nothing happens.
  void Add(const v1::WatchEvent& event);

  // Null before the first.
  const v1::Sample* last() const { return samples_.empty() ? nullptr : &samples_.back(); }
  const v1::SamplingPace& pace() const { return pace_; }
  // Why there was no sample the last time; null where there was.
  const v1::SamplingPause* pause() const { return pause_ ? &*pause_ : nullptr; }
  bool ended() const { return ended_; }
  size_t samples() const { return count_; }

  // The same culprit for the same cause, or nobody; samples with too few steps say nothing.
  TopAgreement Agreement() const;
  // Length of a step in each of the last samples, oldest first.
  std::vector<std::optional<double>> StepTrend(size_t most) const;
  // Mean length of all steps from the sample before the last to the last one, traced or not; nullopt where
  // steps carry no numbers.
  std::optional<double> StepSinceSampleNs() const;
  // Of the last sample.
  std::vector<const v1::SampleRank*> Ranks(TopSort sort) const;

 private:
  static constexpr size_t kKept = 120;
  static constexpr size_t kJudged = 10;

  std::deque<v1::Sample> samples_;  // the newest last
  size_t count_ = 0;
  v1::SamplingPace pace_;
  std::optional<v1::SamplingPause> pause_;
  bool ended_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_MODEL_H_
