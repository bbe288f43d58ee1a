// Ring records to column rows. Pure.
#ifndef LOCKSTEP_DAEMON_CONVERT_H_
#define LOCKSTEP_DAEMON_CONVERT_H_

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
  HostInterval span;  // the record's stamps; start == end == 0 for records without

  std::span<const uint64_t> cells() const { return {values.data(), columns}; }
};

// False: the record cannot be a record (it ends before it starts). Not for kString and kPad.
bool Convert(const ring::RecordView& record, Row& row);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_CONVERT_H_
