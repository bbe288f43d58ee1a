// LeftRanks gives the tables of ranks to a RowOverflow while a timeline is read.
#ifndef LOCKSTEP_FORMATS_TIMELINE_LEFT_RANKS_H_
#define LOCKSTEP_FORMATS_TIMELINE_LEFT_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "capture/model/capture.h"
#include "capture/model/row_overflow.h"

namespace lockstep::formats {

// One thread.
//
// A timeline may continue a rank after rows of others. A table that grows after it moved is copied into
// memory. Therefore a rank that continues moves again only when its tables are twice as large. Ranks in turns
// thus stay in memory in large part, and each row is copied a few times at most.
class LeftRanks {
 public:
  explicit LeftRanks(capture::RowOverflow* overflow) : overflow_(overflow) {}  // null: all ranks stay

  // The rows of another rank follow. Does nothing if no rank has this place.
  void Leave(size_t place, std::vector<capture::RankData>& ranks);
  // The ranges of the rank were written again.
  void MoveRanges(capture::RankData& rank);

 private:
  struct Known {
    uint64_t rows = 0;
    uint64_t bytes = 0;
    uint64_t moved_bytes = 0;
  };
  void Count(const capture::RankData& rank, Known& known);
  void MoveIfGrown(capture::RankData& rank, Known& known);

  capture::RowOverflow* const overflow_;
  std::vector<Known> known_;  // by place of the rank
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_TIMELINE_LEFT_RANKS_H_
