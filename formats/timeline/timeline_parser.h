// TimelineParser reads the statements of a timeline (docs/formats/timeline.md), line by line, into a capture.
#ifndef LOCKSTEP_FORMATS_TIMELINE_TIMELINE_PARSER_H_
#define LOCKSTEP_FORMATS_TIMELINE_TIMELINE_PARSER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "capture/model/capture.h"
#include "formats/timeline/left_ranks.h"
#include "formats/timeline/timeline_fields.h"
#include "formats/timeline/timeline_rows.h"
#include "formats/timeline/timeline_words.h"

namespace lockstep::formats {

// One thread. After Line() returned false, it must not be called again.
class TimelineParser {
 public:
  // `overflow` may be null.
  explicit TimelineParser(capture::RowOverflow* overflow = nullptr) : left_(overflow) {}

  // `line` is without its line end. False: error() describes the problem and the remedy.
  bool Line(std::string_view line);

  bool ended() const { return ended_; }
  const std::string& error() const { return fields_.error(); }

  // Returns the capture, not Finish()ed. Call it once, after the last line.
  capture::Capture Take();

 private:
  // Statements about the whole job. Each comes before the lines that use it.
  bool Statement(std::string_view word, LineWords& words);
  bool Version(LineWords& words);
  bool Base(LineWords& words);
  bool World(LineWords& words);
  bool HostStatement(LineWords& words);
  bool Exchange(LineWords& words);
  bool GroupStatement(LineWords& words);
  bool Members(std::string_view word, std::vector<RankId>& out);
  bool Name(LineWords& words);
  bool Rank(LineWords& words);
  bool RankField(std::string_view key, std::string_view value, capture::RankData& rank);
  // Returns the rank, to which the following rows belong.
  capture::RankData& EnterRank(RankId rank, DeviceId device, uint32_t incarnation);

  capture::Capture capture_;
  TimelineFields fields_;
  TimelineRows rows_{capture_, fields_};
  absl::flat_hash_set<std::string> host_ids_, group_keys_;
  absl::flat_hash_map<std::pair<RankId, std::pair<DeviceId, uint32_t>>, size_t> ranks_;
  LeftRanks left_;
  size_t entered_ = SIZE_MAX;  // place of the rank to which rows belong; SIZE_MAX: none yet
  uint64_t members_ = 0;       // of all groups
  bool versioned_ = false;
  bool ended_ = false;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_TIMELINE_TIMELINE_PARSER_H_
