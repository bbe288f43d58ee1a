// Converts ring records to column rows. Pure functions.
#ifndef LOCKSTEP_DAEMON_DRAIN_CONVERT_H_
#define LOCKSTEP_DAEMON_DRAIN_CONVERT_H_

#include <array>
#include <cstdint>
#include <span>

#include "base/time.h"
#include "wire/columns/schema.h"
#include "wire/ring/reader.h"

namespace lockstep::daemon {

inline constexpr size_t kMostColumns = 24;

struct Row {
  columns::Kind kind = columns::Kind::kKernel;
  size_t columns = 0;
  std::array<uint64_t, kMostColumns> values;
  HostInterval span;  // first to last time stamp of the record; start == end == 0 if it has none

  std::span<const uint64_t> cells() const { return {values.data(), columns}; }
};

// Returns false if the record is invalid, for example if it ends before it starts. Not for kString and kPad.
bool Convert(const ring::RecordView& record, Row& row);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_CONVERT_H_
