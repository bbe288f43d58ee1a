// The columns of each kind of record. Their order is part of the format, so append only.
#ifndef LOCKSTEP_WIRE_COLUMNS_SCHEMA_H_
#define LOCKSTEP_WIRE_COLUMNS_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::columns {

// The numbers equal ring::RecordKind, so that a loss by kind has the same meaning everywhere.
enum class Kind : uint16_t {
  kString = 1,
#define RECORD(Name, space, number, first_bytes) k##Name = number,
#include "wire/fields/records.def"
};
inline constexpr size_t kKinds = 22;

enum class Encoding : uint8_t {
  kDelta,  // zigzag of the difference to the previous row
  kPlain,  // unsigned
};

struct Column {
  const char* name;
  Encoding encoding;
};

// Returns an empty span for kString and for unknown kinds. Stamps are int64 nanoseconds of the process's
// CUPTI clock. `duration` is end - start.
std::span<const Column> Schema(Kind kind);
const char* KindName(Kind kind);  // "kernel", "memcpy", …; "unknown"

// Column indices, for code that fills or reads rows: kernel::kStart, kernel::kDuration, ...
#define RECORD(Name, space, number, first_bytes) \
  namespace space {                              \
  enum : size_t {
#define INTERVAL() kStart = 0, kDuration = 1,
#define STAMP(type, member, column, text, meaning) column = 0,
#define SPAN(type, first, last, first_column, first_text, length_column, length_text, index, meaning) \
  first_column = index, length_column = index + 1,
#define FIELD(type, member, column, text, index, encoding, meaning) column = index,
#define THREE(type, member, column, text, index, meaning) \
  column##X = index, column##Y = index + 1, column##Z = index + 2,
#define UUID(member, column, text, index, meaning) column##First = index, column##Last = index + 1,
#define BIT(mask, column, text, index, meaning) column = index,
#define BITS(mask, column, text, index, meaning) column = index,
#define END(Name) \
  }               \
  ;               \
  }
#include "wire/fields/records.def"

// The number of columns: kernel::kColumns, ...
#define RECORD(Name, space, number, first_bytes) \
  namespace space {                              \
  inline constexpr size_t kColumns = 0
#define INTERVAL() +2
#define STAMP(type, member, column, text, meaning) +1
#define SPAN(type, first, last, first_column, first_text, length_column, length_text, index, meaning) +2
#define FIELD(type, member, column, text, index, encoding, meaning) +1
#define THREE(type, member, column, text, index, meaning) +3
#define UUID(member, column, text, index, meaning) +2
#define BIT(mask, column, text, index, meaning) +1
#define BITS(mask, column, text, index, meaning) +1
#define END(Name) \
  ;               \
  }
#include "wire/fields/records.def"

}  // namespace lockstep::columns

#endif  // LOCKSTEP_WIRE_COLUMNS_SCHEMA_H_
