// What the readers of an export's tables share: its strings by id, its time, and how far reading is.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_ROWS_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_ROWS_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "formats/nsys/nsys_file.h"
#include "formats/nsys/nsys_reader.h"
#include "formats/nsys/table_scan.h"

namespace lockstep::trace {

// StringIds by id, each looked up once.
class NsysStrings {
 public:
  NsysStrings(const SqliteDatabase& database, NsysFile& file);
  // kNoName, counted once, where the file has no such string.
  NameId Name(int64_t id);

 private:
  NameId LookUp(int64_t id);

  const SqliteDatabase& database_;
  NsysFile& file_;
  SqliteStatement look_up_;  // null: all strings were read at once
  absl::flat_hash_map<int64_t, NameId> names_;
};

// No UTC stamp is further from 0, nor is the file's time 0 (the year 2043): differences of two fit 64 bits.
inline constexpr int64_t kFarthestNsysTime = std::numeric_limits<int64_t>::max() / 4;

// Two stamps of a row. nullopt: no clock can have made them, or the second lies before the first.
std::optional<HostInterval> NsysTimes(const NsysFile& file, int64_t start, int64_t end);

// The process's window with this in it.
void Widen(NsysProcess& process, const HostInterval& times);

class NsysProgress {
 public:
  NsysProgress(const SqliteDatabase& database, const RowProgress& progress);
  void Advance() {
    if (++done_ % kEvery == 0 && progress_) progress_(done_, total_);
  }

 private:
  static constexpr uint64_t kEvery = 16384;
  const RowProgress& progress_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

// NVTX_EVENTS of the processes in `file`, whose device rows are there already.
void ReadNsysRanges(const SqliteDatabase& database, HostDetail host, NsysStrings& strings,
                    NsysProgress& progress, NsysFile& file);

// When and where the session was, and what is known of its devices.
void ReadNsysSession(const SqliteDatabase& database, NsysFile& file);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_ROWS_H_
