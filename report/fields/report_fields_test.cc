// Compares the files that follow from report.def with its rows. LOCKSTEP_UPDATE_GOLDEN=1 writes them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/json/json_out.h"
#include "report/fields.h"

namespace lockstep::report {
namespace {

// The type of a field without std::optional and std::vector around it.
template <typename T>
struct FieldType {
  using Inner = T;
  static constexpr bool kNullable = false;
  static constexpr bool kList = false;
};
template <typename T>
struct FieldType<std::optional<T>> : FieldType<T> {
  static constexpr bool kNullable = true;
};
template <typename T>
struct FieldType<std::vector<T>> : FieldType<T> {
  static constexpr bool kList = true;
};

template <typename T>
constexpr bool kIsText = std::is_convertible_v<T, std::string_view>;

template <typename T>
constexpr std::string_view JsonTypeName() {
  if constexpr (std::is_same_v<T, bool>) return "boolean";
  if constexpr (std::is_same_v<T, double>) return "number";
  if constexpr (kIsText<T>) return "string";
  if constexpr (HasFields<T>) return "object";
  if constexpr (std::is_same_v<T, Range>) return "array";
  return "integer";  // also Nanos and RankId
}

// Calls visit.operator()<Value>(field) for every field of a structure.
template <typename Row, typename Visit>
void ForEachTypedField(const Visit& visit) {
  Fields<Row>::ForEach([&]<auto get>(const Field<get>& field) {
    using Value = std::remove_cvref_t<std::invoke_result_t<decltype(get), const Row&>>;
    visit.template operator()<Value>(field);
  });
}

// Calls visit.operator()<Row>() for a structure, and for those inside it. Each is visited once.
template <typename Row, typename Visit>
void ForEachStructure(const Visit& visit, std::set<std::string_view>& seen) {
  if (!seen.insert(Fields<Row>::kName).second) return;
  visit.template operator()<Row>();
  ForEachTypedField<Row>([&]<typename Value>(const auto&) {
    using Inner = typename FieldType<Value>::Inner;
    if constexpr (HasFields<Inner>) ForEachStructure<Inner>(visit, seen);
  });
}
template <typename Visit>
void ForEachStructure(const Visit& visit) {
  std::set<std::string_view> seen;
  ForEachStructure<Report>(visit, seen);
}

std::vector<std::string> WordsOf(const Limits& limits) {
  std::istringstream text{std::string(limits.words)};
  return {std::istream_iterator<std::string>(text), {}};
}

std::string Joined(const std::vector<std::string>& words, const std::string& quote, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + quote + word + quote;
  return text;
}

// ---- docs/formats/report.schema.json

template <typename Row>
void WriteObjectSchema(JsonOut& out);

void WriteType(JsonOut& out, std::string_view type, bool nullable) {
  nullable ? out.Member("type", std::vector<std::string_view>{type, "null"}) : out.Member("type", type);
}

// Writes the members of the schema of a value that is not a list.
template <typename T>
void WriteValueSchema(JsonOut& out, const Limits& limits, bool nullable) {
  const std::vector<std::string> words = WordsOf(limits);
  if constexpr (std::is_same_v<T, Range>) return out.Member("$ref", "#/$defs/range");
  if constexpr (std::is_same_v<T, RankId>) return out.Member("$ref", "#/$defs/rank");
  if (words.size() == 1) return out.Member("const", words[0]);
  if (!words.empty()) return out.Member("enum", words);
  WriteType(out, JsonTypeName<T>(), nullable);
  if constexpr (HasFields<T>) WriteObjectSchema<T>(out);
  const bool is_unsigned = std::is_unsigned_v<T> && !std::is_same_v<T, bool>;
  if (limits.least || is_unsigned) out.Member("minimum", limits.least.value_or(0));
  if (limits.most) out.Member("maximum", *limits.most);
}

template <typename Row>
void WriteObjectSchema(JsonOut& out) {
  std::vector<std::string_view> names;
  out.Key("properties").BeginObject();
  ForEachTypedField<Row>([&]<typename Value>(const auto& field) {
    using Type = FieldType<Value>;
    names.push_back(field.name);
    out.Key(field.name).BeginObject();
    out.Member("description", field.meaning);
    if (Type::kList) {
      out.Member("type", "array");
      out.Key("items").BeginObject();
      WriteValueSchema<typename Type::Inner>(out, kAny, false);
      out.EndObject();
      if (field.limits.not_empty) out.Member("minItems", 1);
    } else {
      WriteValueSchema<typename Type::Inner>(out, field.limits, Type::kNullable);
    }
    out.EndObject();
  });
  out.EndObject();
  out.Member("required", names);
  out.Member("additionalProperties", false);
}

std::string SchemaText() {
  JsonOut out;
  out.BeginObject();
  out.Member("$schema", "https://json-schema.org/draft/2020-12/schema");
  out.Member("$id", "urn:lockstep:report:1");
  out.Member("title", "lockstep report");
  out.Member("description",
             "report.json of a capture folder, and what --format json prints. Times are nanoseconds, "
             "fractions 0..1; "
             "null is unknown. Meaning of every field: docs/formats/report.md.");
  out.Member("type", "object");
  WriteObjectSchema<Report>(out);
  out.Key("$defs").BeginObject();
  out.Key("rank").BeginObject();
  out.Member("type", "integer");
  out.Member("minimum", -1);
  out.Member("description", "place in the job's world; -1 where the source could not tell");
  out.EndObject();
  out.Key("range").BeginObject();
  out.Member("description", "[low, high] of a 95 % interval, or null");
  WriteType(out, "array", true);
  out.Key("items").BeginObject();
  out.Member("type", "number");
  out.EndObject();
  out.Member("minItems", 2);
  out.Member("maxItems", 2);
  out.EndObject();
  out.EndObject();
  out.EndObject();
  return out.Take();
}

// ---- web/src/report_types.ts

template <typename Value>
std::string TypeScriptType(const Limits& limits) {
  using Inner = typename FieldType<Value>::Inner;
  constexpr bool kNullable = FieldType<Value>::kNullable;
  const std::vector<std::string> words = WordsOf(limits);
  std::string type = "number";
  if constexpr (HasFields<Inner>) {
    type = Fields<Inner>::kName;
  } else if constexpr (kIsText<Inner>) {
    // One word per line if they are many.
    const char* between = words.size() > 9 ? "\n    | " : " | ";
    type = words.empty() ? "string" : (words.size() > 9 ? between : "") + Joined(words, "'", between);
  } else if constexpr (std::is_same_v<Inner, Range>) {
    type = "Interval";
  } else if constexpr (std::is_same_v<Inner, bool>) {
    type = "boolean";
  } else if constexpr (kNullable) {
    return "Known";
  }
  return type + (FieldType<Value>::kList ? "[]" : "") + (kNullable ? " | null" : "");
}

std::string TypeScriptText() {
  std::ostringstream page;
  page << "// The types of report.json. A test writes this file from report/fields/report.def, which "
          "describes the "
          "members:\n"
          "// LOCKSTEP_UPDATE_GOLDEN=1 ./dev one report_fields_test.cc\n\n"
          "export type Known = number | null;\n"
          "export type Interval = [number, number];\n";
  ForEachStructure([&]<typename Row>() {
    page << "\nexport type " << Fields<Row>::kName << " = {\n";
    ForEachTypedField<Row>([&]<typename Value>(const auto& field) {
      const std::string type = TypeScriptType<Value>(field.limits);
      page << "  " << field.name << (type.starts_with('\n') ? ":" : ": ") << type << ";\n";
    });
    page << "};\n";
  });
  return page.str();
}

// ---- docs/formats/report-fields.md

// Returns the anchor of a heading, as GitHub makes it.
std::string AnchorOf(std::string_view heading) {
  std::string anchor;
  for (const char c : heading) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') anchor += c;
  }
  return anchor;
}

template <typename Value>
std::string DocumentedType(const Limits& limits) {
  using Inner = typename FieldType<Value>::Inner;
  constexpr bool kList = FieldType<Value>::kList;
  std::string type(JsonTypeName<Inner>());
  if constexpr (HasFields<Inner>) {
    type = std::string(kList ? "[list](#" : "[object](#") + AnchorOf(Fields<Inner>::kPlace) + ")";
  } else if constexpr (std::is_same_v<Inner, Range>) {
    type = "[low, high]";
  } else if (!limits.words.empty()) {
    type = Joined(WordsOf(limits), "`", " ");
  } else if (kList) {
    type = "list of " + type + "s";
  }
  return type + (FieldType<Value>::kNullable ? " or null" : "");
}

std::string FieldsPage() {
  std::ostringstream page;
  page << "# Fields of report.json\n\n"
          "A test writes this page from `report/fields/report.def`: `LOCKSTEP_UPDATE_GOLDEN=1 ./dev one "
          "report_fields_test.cc`.\n"
          "[report.md](report.md) explains the document. An interval is one of 95 %. The unit of times per "
          "step is "
          "also ns.\n";
  ForEachStructure([&]<typename Row>() {
    if (!Fields<Row>::kPlace.empty()) page << "\n## " << Fields<Row>::kPlace << "\n";
    page << "\n" << Fields<Row>::kMeaning << "\n\n| member | type | unit | meaning |\n|---|---|---|---|\n";
    ForEachTypedField<Row>([&]<typename Value>(const auto& field) {
      page << "| `" << field.name << "` | " << DocumentedType<Value>(field.limits) << " | " << field.unit
           << " | " << field.meaning << " |\n";
    });
  });
  return page.str();
}

void ExpectFile(const std::string& name, const std::string& text) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/" + name;
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text)
      << "LOCKSTEP_UPDATE_GOLDEN=1 writes " << name;
}

TEST(ReportFields, TheSchemaFollowsFromThem) { ExpectFile("docs/formats/report.schema.json", SchemaText()); }

TEST(ReportFields, TheTypesOfThePageFollowFromThem) {
  ExpectFile("web/src/report_types.ts", TypeScriptText());
}

TEST(ReportFields, ThePageListsThem) { ExpectFile("docs/formats/report-fields.md", FieldsPage()); }

TEST(ReportFields, EveryStructureHasAPlaceInTheDocument) {
  std::set<std::string_view> listed, reached;
#define OBJECT(Name, place, meaning) listed.insert(#Name);
#define FIELD(type, member, name, unit, limits, meaning)
#define COMPUTED(type, function, name, unit, limits, meaning)
#define FIELDS_OF(Name, member)
#define UNWRITTEN(type, member, meaning)
#define END(Name)
#include "report/fields/report.def"
  ForEachStructure([&]<typename Row>() { reached.insert(Fields<Row>::kName); });
  EXPECT_EQ(listed, reached);
}

TEST(ReportFields, TimesHaveTheirUnitInTheName) {
  ForEachStructure([&]<typename Row>() {
    ForEachTypedField<Row>([&]<typename Value>(const auto& field) {
      EXPECT_FALSE(field.meaning.empty()) << field.name;
      if (!std::is_same_v<typename FieldType<Value>::Inner, Nanos>) return;
      EXPECT_EQ(field.unit, "ns") << field.name;
      EXPECT_TRUE(field.name.ends_with("_ns") || Fields<Row>::kPlace.ends_with("_ns")) << field.name;
    });
  });
}

}  // namespace
}  // namespace lockstep::report
