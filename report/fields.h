// The fields of report.json as values, for code that handles all fields alike.
//
//   Fields<RankRow>::ForEach([&](const auto& field) { Print(field.name, field.Of(row)); });
//
// calls the function for every field of report/fields/report.def, in the order of the document.
#ifndef LOCKSTEP_REPORT_FIELDS_H_
#define LOCKSTEP_REPORT_FIELDS_H_

#include <functional>
#include <optional>
#include <string_view>

#include "report/model.h"
#include "report/report.h"

namespace lockstep::report {

// Restricts the values of a field beyond its type.
struct Limits {
  std::optional<int> least, most;  // of a number
  bool not_empty = false;          // of a list
  std::string_view words;          // all values of a text, separated by spaces; empty: any text
};
inline constexpr Limits kAny{};
inline constexpr Limits kNotNegative{.least = 0};
inline constexpr Limits kFraction{.least = 0, .most = 1};
inline constexpr Limits kNotEmpty{.not_empty = true};
constexpr Limits AtLeast(int least) { return {.least = least}; }
constexpr Limits OneOf(std::string_view words) { return {.words = words}; }

inline constexpr std::string_view kSchemaName = "lockstep.report/1";
inline std::string_view SchemaName(const Report&) { return kSchemaName; }

// `get` is a pointer to a member or a function of the structure. It is a part of the type, because a column
// of a table must not hold state.
template <auto get>
struct Field {
  std::string_view name;
  std::string_view unit;  // "ns", "bytes", "fraction", …; empty: none
  Limits limits;
  std::string_view meaning;

  template <typename Row>
  static decltype(auto) Of(const Row& row) {
    return std::invoke(get, row);
  }
};

// Reads a field of a member.
template <auto member, auto get>
struct OfMember {
  template <typename Row>
  constexpr decltype(auto) operator()(const Row& row) const {
    return std::invoke(get, std::invoke(member, row));
  }
};

// Fields<RankRow> and so on: kName, kPlace and kMeaning of the structure, and ForEach().
template <typename Row>
struct Fields;

// True for the structures of report.def.
template <typename T>
concept HasFields = requires {
  Fields<T>::kName;
};

#define OBJECT(Name, place, meaning)                      \
  template <>                                             \
  struct Fields<Name> {                                   \
    using Row = Name;                                     \
    static constexpr std::string_view kName = #Name;      \
    static constexpr std::string_view kPlace = place;     \
    static constexpr std::string_view kMeaning = meaning; \
    template <typename Visit>                             \
    static void ForEach(const Visit& visit) {
#define FIELD(type, member, name, unit, limits, meaning) \
  visit(Field<&Row::member>{name, unit, limits, meaning});
#define COMPUTED(type, function, name, unit, limits, meaning) \
  visit(Field<&function>{name, unit, limits, meaning});
#define FIELDS_OF(Name, member)                                                       \
  Fields<Name>::ForEach([&]<auto get>(const Field<get>& f) {                          \
    visit(Field<OfMember<&Row::member, get>{}>{f.name, f.unit, f.limits, f.meaning}); \
  });
#define UNWRITTEN(type, member, meaning)
#define END(Name) \
  }               \
  }               \
  ;
#include "report/fields/report.def"

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_FIELDS_H_
