// Helpers of the readers of an export's tables: strings by id, times, and progress.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_ROWS_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_ROWS_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "formats/common/read_options.h"
#include "formats/nsys/nsys_file.h"
#include "formats/nsys/nsys_reader.h"
#include "formats/nsys/table_scan.h"

namespace lockstep::formats {

// Looks up StringIds by id, each once.
class NsysStrings {
 public:
  NsysStrings(const SqliteDatabase& database, NsysFile& file);
  // Returns kNoName if the file lacks the string, and counts that once.
  NameId Name(int64_t id);

 private:
  NameId LookUp(int64_t id);

  NsysFile& file_;
  SqliteStatement look_up_;  // null: all strings were read at once
  absl::flat_hash_map<int64_t, NameId> names_;
};

// Limit of UTC stamps and of the file's time 0, in ns (in the year 2043). The difference of two such times
// fits 64 bits.
inline constexpr int64_t kFarthestNsysTime = std::numeric_limits<int64_t>::max() / 4;

// Converts the two stamps of a row. nullopt: a stamp is beyond the limit, or the end is before the start.
std::optional<HostInterval> NsysTimes(const NsysFile& file, int64_t start, int64_t end);

// Extends the process's window to include `times`.
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

// Reads NVTX_EVENTS of the processes in `file`, whose device rows must be read before.
void ReadNsysRanges(const SqliteDatabase& database, HostDetail host, NsysStrings& strings,
                    NsysProgress& progress, NsysFile& file);

// Reads the session's start, hosts, environment and device properties.
void ReadNsysSession(const SqliteDatabase& database, NsysFile& file);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_ROWS_H_
