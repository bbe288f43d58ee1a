// The statements of a timeline (docs/formats/timeline.md), one line at a time, into a capture.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_PARSER_H_
#define LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_PARSER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "capture/model/capture.h"
#include "formats/timeline/timeline_words.h"

namespace lockstep::trace {

// One thread. After the first false nothing more may be given to it.
class TimelineParser {
 public:
  // `line` is without its end. False: `error()` says what is wrong with it, and the remedy.
  bool Line(std::string_view line);

  bool ended() const { return ended_; }
  const std::string& error() const { return error_; }

  // The capture, not Finish()ed. Once, after the last line.
  store::Capture Take();

 private:
  bool Fail(std::string_view what, std::string_view remedy);

  // What stands once, before what uses it.
  bool Statement(std::string_view word, LineWords& words);
  bool Version(LineWords& words);
  bool Text(LineWords& words, std::string_view what, std::string& out);
  bool World(LineWords& words);
  bool HostStatement(LineWords& words);
  bool Exchange(LineWords& words);
  bool GroupStatement(LineWords& words);
  bool Members(std::string_view word, std::vector<RankId>& out);
  bool Name(LineWords& words);
  bool Rank(LineWords& words);
  bool RankField(std::string_view key, std::string_view value, store::RankData& rank);
  bool EnterRank(RankId rank, DeviceId device, uint32_t incarnation);

  // Rows of a rank.
  bool Row(char kind, LineWords& words);
  bool StepRow(LineWords& words);
  bool KernelRow(LineWords& words);
  bool CollectiveRow(LineWords& words);
  bool MoreCollective(LineWords& words);
  bool CopyRow(LineWords& words, store::ActivityKind kind);
  bool CallRow(LineWords& words);
  bool SyncRow(LineWords& words);
  bool EventRow(LineWords& words);
  bool RangeRow(LineWords& words);
  bool LossRow(LineWords& words);
  bool ClockRow(LineWords& words);

  // Fields; `what` names them in the sentence.
  bool Times(LineWords& words, HostTime& start, HostTime& end);
  bool NameAt(std::string_view word, NameId& out);
  template <typename Number>
  bool Integer(LineWords& words, std::string_view what, Number& out) {
    return Value(what, words.Next(), out);
  }
  template <typename Number>
  bool Value(std::string_view what, std::string_view word, Number& out) {
    return NumberFromWord(word, out) ||
           Fail(Sentence(ShownWord(word), " is no number for ", what), "write a whole number that fits");
  }
  bool Activity(LineWords& words, store::ActivityKind kind, store::DeviceActivity& out);
  // Of a kernel: correlation, grid, block, registers, shared memory. `used` says whether it was one of these.
  bool KernelField(std::string_view key, std::string_view value, store::DeviceActivity& activity, bool& used);
  bool Dimensions(std::string_view key, std::string_view word, uint32_t (&out)[3]);
  bool CollectiveFields(LineWords& words, store::DeviceActivity* activity, store::Collective& out);
  bool UnknownField(std::string_view key);

  store::RankData& rank() { return capture_.ranks[rank_]; }
  void Cover(HostTime start, HostTime end);

  store::Capture capture_;
  std::vector<NameId> names_;  // of the file, by number
  absl::flat_hash_map<int64_t, NameId> step_names_;
  absl::flat_hash_set<std::string> host_ids_, group_keys_;
  absl::flat_hash_map<std::pair<RankId, std::pair<DeviceId, uint32_t>>, size_t> ranks_;
  size_t rank_ = SIZE_MAX;
  int64_t base_ = 0;
  uint64_t members_ = 0;  // of all groups
  bool versioned_ = false;
  bool ended_ = false;
  std::string error_;
};

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_TIMELINE_PARSER_H_
