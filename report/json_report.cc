// Writes report.json, schema lockstep.report/1, with the members in the order of report/fields/report.def.
#include "base/json/json_out.h"
#include "report/fields.h"
#include "report/report.h"

namespace lockstep::report {
namespace {

template <HasFields Row>
void WriteValue(JsonOut& out, const Row& row);
template <typename T>
void WriteValue(JsonOut& out, const std::vector<T>& values);

template <typename T>
void WriteValue(JsonOut& out, const T& value) {
  out.Value(value);
}

void WriteValue(JsonOut& out, const Range& range) {
  out.BeginArray();
  out.Value(range.low);
  out.Value(range.high);
  out.EndArray();
}

template <typename T>
void WriteValue(JsonOut& out, const std::optional<T>& value) {
  value ? WriteValue(out, *value) : out.Null();
}

template <typename T>
void WriteValue(JsonOut& out, const std::vector<T>& values) {
  out.BeginArray();
  for (const T& value : values) WriteValue(out, value);
  out.EndArray();
}

template <HasFields Row>
void WriteValue(JsonOut& out, const Row& row) {
  out.BeginObject();
  Fields<Row>::ForEach([&](const auto& field) {
    out.Key(field.name);
    WriteValue(out, field.Of(row));
  });
  out.EndObject();
}

}  // namespace

absl::Status WriteJson(const Report& report, ByteSink& sink) {
  JsonOut out;
  WriteValue(out, report);
  return sink.Append(out.Take());
}

}  // namespace lockstep::report
