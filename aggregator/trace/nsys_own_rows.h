// The rows of the LOCKSTEP_ tables that belong to a rank: what they say of its kernels, and what no table of
// Nsight Systems has.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_ROWS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "capture/model/capture.h"
#include "formats/nsys/nsys_rows.h"
#include "formats/nsys/table_scan.h"

namespace lockstep::trace {

// Where the numbers of an export's rows lead in the capture.
struct OwnIndex {
  JobTime base;
  std::map<int64_t, uint32_t> groups;  // LOCKSTEP_COMMUNICATORS.id
  std::map<int64_t, size_t> place_of;  // LOCKSTEP_RANKS.id among the ranks
  std::vector<int64_t> shifts;         // by rank, what was added to its stamps

  uint32_t Group(std::optional<int64_t> id) const {
    const auto it = id ? groups.find(*id) : groups.end();
    return it == groups.end() ? store::kNone : it->second;
  }
  HostTime HostStamp(size_t rank, int64_t file_time) const {
    return HostTime(std::clamp(file_time + base.ns() - shifts[rank], -kFarthestNsysTime, kFarthestNsysTime));
  }
};

// A cell that is a time or a length.
inline int64_t FarIn(TableScan& scan, size_t column) {
  return std::clamp(scan.IntegerOr<int64_t>(column, 0), -kFarthestNsysTime, kFarthestNsysTime);
}

// Rows that name what is not there are counted in the losses of `file`.
void ReadOwnRows(const SqliteDatabase& database, const OwnIndex& index, NsysFile& file,
                 store::Capture& capture);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_OWN_ROWS_H_
