// Compares docs/formats/fields.md with the rows of records.def. LOCKSTEP_UPDATE_GOLDEN=1 writes the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "wire/columns/schema.h"
#include "wire/ring/record.h"

namespace lockstep {
namespace {

struct DocumentedField {
  std::string member, type, columns, kept, meaning;
  size_t offset = 0;
};
struct DocumentedRecord {
  std::string name;
  int number = 0;
  size_t bytes = 0;
  size_t first_bytes = 0;
  std::vector<DocumentedField> fields;  // in the order of the ring record, bits of the flags last
};

constexpr size_t kFlagsOffset = offsetof(ring::RecordHeader, flags);

std::string Columns(int first, std::initializer_list<std::string> names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + std::to_string(first++) + " `" + name + "`";
  }
  return text;
}

std::string Encoded(columns::Encoding encoding) {
  return encoding == columns::Encoding::kDelta ? " *d*" : "";
}

std::vector<DocumentedRecord> Records() {
  using enum columns::Encoding;
  std::vector<DocumentedRecord> records;
#define RECORD(Name, space, number, first_bytes)                                     \
  {                                                                                  \
    using Record [[maybe_unused]] = ring::Name##Record;                              \
    DocumentedRecord r{#space, number, sizeof(ring::Name##Record), first_bytes, {}}; \
    std::vector<DocumentedField>& fields = r.fields;
#define INTERVAL()                                                                                           \
  fields.push_back(                                                                                          \
      {"start_ns", "int64", Columns(0, {"start"}) + " *d*", "", "nanoseconds", offsetof(Record, start_ns)}); \
  fields.push_back({"end_ns", "int64", Columns(1, {"duration"}), "",                                         \
                    "nanoseconds; the column is end - start", offsetof(Record, end_ns)});
#define STAMP(type, member, column, text, meaning) \
  fields.push_back({#member, #type, Columns(0, {#text}) + " *d*", "", meaning, offsetof(Record, member)});
#define SPAN(type, first, last, first_column, first_text, length_column, length_text, index, meaning) \
  fields.push_back(                                                                                   \
      {#first, #type, Columns(index, {#first_text}) + " *d*", "", meaning, offsetof(Record, first)}); \
  fields.push_back({#last, #type, Columns(index + 1, {#length_text}), "", "the column is the length", \
                    offsetof(Record, last)});
#define FIELD(type, member, column, text, index, encoding, meaning) \
  fields.push_back(                                                 \
      {#member, #type, Columns(index, {#text}) + Encoded(encoding), "", meaning, offsetof(Record, member)});
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning)                        \
  fields.push_back(                                                                                   \
      {#member, #type, Columns(index, {#text}) + Encoded(encoding),                                   \
       std::string("`" #member "`") + (#zero == std::string("kZeroIsUnknown") ? ", 0: unknown" : ""), \
       meaning, offsetof(Record, member)});
#define THREE(type, member, column, text, index, meaning)                                                    \
  fields.push_back({#member, #type "[3]", Columns(index, {#text "_x", #text "_y", #text "_z"}), "", meaning, \
                    offsetof(Record, member)});
#define UUID(member, column, text, index, meaning)                                                      \
  fields.push_back({#member, "uint8[16]", Columns(index, {#text "_first", #text "_last"}), "", meaning, \
                    offsetof(Record, member)});
#define BIT(mask, column, text, index, meaning) \
  fields.push_back({"header.flags", "bit", Columns(index, {#text}), "", meaning, kFlagsOffset});
#define BITS(mask, column, text, index, meaning) \
  fields.push_back({"header.flags", "bits", Columns(index, {#text}), "", meaning, kFlagsOffset});
#define END(Name)       \
  records.push_back(r); \
  }
#include "wire/fields/records.def"
  for (DocumentedRecord& r : records) {
    std::stable_partition(r.fields.begin(), r.fields.end(),
                          [](const DocumentedField& f) { return f.offset != kFlagsOffset; });
  }
  return records;
}

std::string Page() {
  std::ostringstream page;
  page << "# Fields of records\n\n"
          "A test writes this page from `wire/fields/*.def`: `LOCKSTEP_UPDATE_GOLDEN=1 ./dev one "
          "fields_test.cc`.\n"
          "[ring.md](ring.md) describes records in the ring, [columns.md](columns.md) rows of columns.\n\n"
          "Offsets and bytes include the record's header of 8 bytes. *d* marks columns in delta encoding. A "
          "kept field is also\n"
          "a column of the capture's [tables](csv.md).\n";
  for (const DocumentedRecord& r : Records()) {
    page << "\n## " << r.number << " " << r.name << "\n\n" << r.bytes << " bytes";
    if (r.first_bytes != r.bytes) page << ", " << r.first_bytes << " in the first version";
    page << ".\n\n| field | type | offset | columns | kept as | meaning |\n|---|---|---|---|---|---|\n";
    for (const DocumentedField& f : r.fields) {
      const std::string type = f.type.size() > 2 && f.type.ends_with("_t")
                                   ? f.type.substr(0, f.type.size() - 2)
                               : f.type.ends_with("_t[3]") ? f.type.substr(0, f.type.size() - 5) + "[3]"
                                                           : f.type;
      page << "| `" << f.member << "` | " << type << " | " << f.offset << " | " << f.columns << " | "
           << f.kept << " | " << f.meaning << " |\n";
    }
  }
  return page.str();
}

TEST(Fields, ThePageListsThem) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/docs/formats/fields.md";
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << Page();
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), Page())
      << "LOCKSTEP_UPDATE_GOLDEN=1 writes the page";
}

TEST(Fields, EveryColumnBelongsToOneField) {
  for (const DocumentedRecord& r : Records()) {
    std::string all;
    for (const DocumentedField& f : r.fields) all += f.columns + ", ";
    const auto schema = columns::Schema(static_cast<columns::Kind>(r.number));
    for (size_t i = 0; i < schema.size(); ++i) {
      const std::string column = std::to_string(i) + " `" + schema[i].name + "`";
      EXPECT_NE(all.find(column), std::string::npos) << r.name << " " << column;
    }
  }
}

}  // namespace
}  // namespace lockstep
