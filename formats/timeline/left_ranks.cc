#include "formats/timeline/left_ranks.h"

#include "capture/model/compact.h"
#include "capture/model/held_bytes.h"

namespace lockstep::formats {

void LeftRanks::Leave(size_t place, std::vector<capture::RankData>& ranks) {
  if (overflow_ == nullptr || place >= ranks.size()) return;
  known_.resize(ranks.size());
  const bool was_full = overflow_->full();
  Count(ranks[place], known_[place]);
  if (!overflow_->full()) return;
  if (was_full) return MoveIfGrown(ranks[place], known_[place]);
  for (size_t r = 0; r < ranks.size(); ++r) MoveIfGrown(ranks[r], known_[r]);
}

void LeftRanks::Count(const capture::RankData& rank, Known& known) {
  const capture::HeldBytes held = capture::HeldBytesOf(rank);
  const uint64_t rows = rank.activities.size() + rank.api_calls.size(), bytes = held.rows + held.other;
  overflow_->Add(rows - known.rows, bytes > known.bytes ? bytes - known.bytes : 0);
  known.rows = rows;
  known.bytes = bytes;
}

void LeftRanks::MoveIfGrown(capture::RankData& rank, Known& known) {
  if (known.bytes < 2 * known.moved_bytes) return;
  capture::Compact(rank);
  overflow_->Move(rank);
  known.moved_bytes = known.bytes;
}

void LeftRanks::MoveRanges(capture::RankData& rank) {
  if (overflow_ != nullptr) overflow_->Move(rank.ranges);
}

}  // namespace lockstep::formats
