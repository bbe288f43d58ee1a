#include "wire/columns/schema.h"

#include <algorithm>
#include <array>

namespace lockstep::columns {
namespace {

// Delta coding is for columns with large values close to their neighbours (stamps, correlation ids, graph
// nodes). Plain coding is for small or repeated values.
#define RECORD(Name, space, number, first_bytes) constexpr auto k##Name##Columns = [] {                \
    std::array<Column, space::kColumns> columns = {};
#define INTERVAL()                          \
  columns[0] = {"start", Encoding::kDelta}; \
  columns[1] = {"duration", Encoding::kPlain};
#define STAMP(type, member, column, text, meaning) columns[0] = {#text, Encoding::kDelta};
#define SPAN(type, first, last, first_column, first_text, length_column, length_text, index, meaning) \
  columns[index] = {#first_text, Encoding::kDelta};                                                   \
  columns[index + 1] = {#length_text, Encoding::kPlain};
#define FIELD(type, member, column, text, index, encoding, meaning) \
  columns[index] = {#text, Encoding::encoding};
#define THREE(type, member, column, text, index, meaning) \
  columns[index] = {#text "_x", Encoding::kPlain};        \
  columns[index + 1] = {#text "_y", Encoding::kPlain};    \
  columns[index + 2] = {#text "_z", Encoding::kPlain};
#define UUID(member, column, text, index, meaning)     \
  columns[index] = {#text "_first", Encoding::kPlain}; \
  columns[index + 1] = {#text "_last", Encoding::kPlain};
#define BIT(mask, column, text, index, meaning) columns[index] = {#text, Encoding::kPlain};
#define BITS(mask, column, text, index, meaning) columns[index] = {#text, Encoding::kPlain};
#define END(Name) \
  return columns; \
  }               \
  ();
#include "wire/fields/records.def"

// A record's indices are 0, 1, ... without a gap.
constexpr bool HasAll(std::span<const Column> columns) {
  return std::all_of(columns.begin(), columns.end(), [](const Column& c) { return c.name != nullptr; });
}
#define RECORD(Name, space, number, first_bytes) static_assert(HasAll(k##Name##Columns));
#include "wire/fields/records.def"

}  // namespace

std::span<const Column> Schema(Kind kind) {
  switch (kind) {
    case Kind::kString:
      return {};
#define RECORD(Name, space, number, first_bytes) \
  case Kind::k##Name:                            \
    return k##Name##Columns;
#include "wire/fields/records.def"
  }
  return {};
}

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kString:
      return "string";
#define RECORD(Name, space, number, first_bytes) \
  case Kind::k##Name:                            \
    return #space;
#include "wire/fields/records.def"
  }
  return "unknown";
}

}  // namespace lockstep::columns
