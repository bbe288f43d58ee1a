#include "daemon/drain/convert.h"

#include <type_traits>

namespace lockstep::daemon {
namespace {

// A negative value is extended to 64 bits.
template <typename Number>
uint64_t Cell(Number value) {
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

// Sets the first two columns and the span of a record with a start and an end. Returns false if they are
// invalid.
bool Timed(Row& row, int64_t start_ns, int64_t end_ns) {
  if (end_ns < start_ns || start_ns < 0) return false;
  row.values[0] = Cell(start_ns);
  row.values[1] = Cell(end_ns - start_ns);
  row.span = {HostTime(start_ns), HostTime(end_ns)};
  return true;
}

void Instant(Row& row, int64_t stamp_ns) {
  row.values[0] = Cell(stamp_ns);
  row.span = {HostTime(stamp_ns), HostTime(stamp_ns)};
}

// Reads eight bytes of a UUID, the first as the highest, so that hexadecimal digits have the usual order.
uint64_t InOrder(const uint8_t* bytes) {
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | bytes[i];
  return value;
}

// Fill(record, row) for each kind. Returns false if a stamp or a length is invalid.
#define RECORD(Name, space, number, first_bytes)            \
  static_assert(columns::space::kColumns <= kMostColumns);  \
  bool Fill(const ring::Name##Record& r, Row& row) {        \
    std::array<uint64_t, kMostColumns>& cells = row.values; \
    bool valid = true;                                      \
    row.columns = columns::space::kColumns;
#define INTERVAL() valid = Timed(row, r.start_ns, r.end_ns) && valid;
#define STAMP(type, member, column, text, meaning) Instant(row, r.member);
#define SPAN(type, first, last, first_column, first_text, length_column, length_text, index, meaning) \
  valid = r.first <= r.last && valid;                                                                 \
  cells[index] = r.first;                                                                             \
  cells[index + 1] = r.last - r.first;
#define FIELD(type, member, column, text, index, encoding, meaning) cells[index] = Cell(r.member);
#define THREE(type, member, column, text, index, meaning) \
  for (size_t axis = 0; axis < 3; ++axis) cells[index + axis] = Cell(r.member[axis]);
#define UUID(member, column, text, index, meaning) \
  cells[index] = InOrder(r.member);                \
  cells[index + 1] = InOrder(r.member + 8);
#define BIT(mask, column, text, index, meaning) cells[index] = (r.header.flags & (mask)) != 0 ? 1 : 0;
#define BITS(mask, column, text, index, meaning) cells[index] = r.header.flags & (mask);
#define END(Name) \
  return valid;   \
  }
#include "wire/fields/records.def"

// The records that need more than their fields.
template <typename Record>
bool Take(const Record& record, Row& row) {
  return Fill(record, row);
}

bool Take(ring::RangeRecord range, Row& row) {
  if ((range.header.flags & ring::kRangeStartUnknown) != 0) range.start_ns = 0;
  if ((range.header.flags & ring::kRangeEndUnknown) != 0) range.end_ns = range.start_ns;
  if (!Fill(range, row)) return false;
  if (range.start_ns == 0) row.span.start = row.span.end;
  return true;
}

bool Take(const ring::ProxyOpRecord& op, Row& row) {
  // A negative wait ended before it began, so the sums are meaningless.
  if (op.gpu_wait_ns < 0 || op.peer_wait_ns < 0 || op.network_wait_ns < 0 || op.flush_wait_ns < 0)
    return false;
  return Fill(op, row);
}

}  // namespace

bool Convert(const ring::RecordView& record, Row& row) {
  row.kind = static_cast<columns::Kind>(record.header.kind);
  row.span = {};
  switch (record.header.kind) {
    case ring::RecordKind::kPad:
    case ring::RecordKind::kString:
      return false;
#define RECORD(Name, space, number, first_bytes) \
  case ring::RecordKind::k##Name:                \
    return Take(record.as<ring::Name##Record>(), row);
#include "wire/fields/records.def"
  }
  return false;
}

}  // namespace lockstep::daemon
