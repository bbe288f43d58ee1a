#include "history/output/history_json.h"

#include "base/json/json_out.h"
#include "history/row_values.h"
#include "history/tables.h"

namespace lockstep::history {
namespace {

class HistoryDocument {
 public:
  explicit HistoryDocument(const char* kind) {
    out_.BeginObject();
    out_.Member("schema", kHistorySchema);
    out_.Member("kind", kind);
  }
  JsonOut& out() { return out_; }
  std::string Take() {
    out_.EndObject();
    return out_.Take();
  }

 private:
  JsonOut out_;
};

void WriteCell(JsonOut& out, const Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return out.Value(*number);
  if (const auto* real = std::get_if<double>(&value)) return out.Value(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return out.Value(*text);
  out.Null();
}

// Members have the names of the columns.
void WriteRowMembers(JsonOut& out, const HistoryTable& table, const Row& row) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    out.Key(table.columns[i].name);
    WriteCell(out, row[i]);
  }
}

void WriteHead(JsonOut& out, const CaptureHead& head) {
  WriteRowMembers(out, TableNamed("captures"), RowsOf({.head = head})[0].rows[0]);
}

void WriteHeads(JsonOut& out, const char* name, const std::vector<CaptureHead>& captures) {
  out.Key(name).BeginArray();
  for (const CaptureHead& capture : captures) {
    out.BeginObject();
    WriteHead(out, capture);
    out.EndObject();
  }
  out.EndArray();
}

const char* KindName(Suspect::Kind kind) {
  switch (kind) {
    case Suspect::Kind::kLabel:
      return "label";
    case Suspect::Kind::kHost:
      return "host";
    case Suspect::Kind::kCulprit:
      return "culprit";
    case Suspect::Kind::kDevice:
      return "device";
    case Suspect::Kind::kWorldSize:
      return "world_size";
  }
  return "";
}

void WriteSuspect(JsonOut& out, const Suspect& suspect) {
  out.BeginObject();
  out.Member("kind", KindName(suspect.kind));
  out.Member("name", suspect.name);
  out.Member("before", suspect.before);
  out.Member("after", suspect.after);
  out.Member("cause", suspect.cause);
  out.Member("captures_before", static_cast<uint64_t>(suspect.with_before));
  out.Member("captures_after", static_cast<uint64_t>(suspect.with_after));
  out.EndObject();
}

void WriteChange(JsonOut& out, const Trend& trend, const TrendChange& change) {
  out.BeginObject();
  const CaptureHead& first = trend.points[change.change.first].head;
  out.Member("capture", first.id);
  out.Member("captured_unix_ns", first.captured.ns());
  out.Member("last_capture_before", trend.points[change.change.first - 1].head.id);
  out.Member("before", change.change.before);
  out.Member("after", change.change.after);
  out.Member("worse", change.worse);
  out.Member("probability", change.change.probability);
  out.Member("captures_before", static_cast<uint64_t>(change.change.first - change.change.before_begin));
  out.Member("captures_after", static_cast<uint64_t>(change.change.after_end - change.change.first));
  out.Key("suspects").BeginArray();
  for (const Suspect& suspect : change.suspects) WriteSuspect(out, suspect);
  out.EndArray();
  out.EndObject();
}

void WriteFinding(JsonOut& out, const Finding& finding) {
  const CaptureSummary one{.findings = {finding}};
  const Row row = RowsOf(one)[4].rows[0];
  const HistoryTable& table = TableNamed("findings");
  for (size_t i = 2; i < table.columns.size(); ++i) {  // after capture and place
    out.Key(table.columns[i].name);
    WriteCell(out, row[i]);
  }
  out.Key("ranks").BeginArray();
  for (const FindingRank& rank : finding.ranks) {
    out.BeginObject();
    out.Member("rank", rank.rank);
    out.Member("host", rank.host);
    out.EndObject();
  }
  out.EndArray();
}

// Writes the rows of a table of one capture, without the capture's id.
void WriteTableRows(JsonOut& out, const TableRows& rows) {
  const HistoryTable& table = TableNamed(rows.table);
  out.Key(rows.table).BeginArray();
  for (const Row& row : rows.rows) {
    out.BeginObject();
    for (size_t i = 1; i < table.columns.size(); ++i) {
      out.Key(table.columns[i].name);
      WriteCell(out, row[i]);
    }
    out.EndObject();
  }
  out.EndArray();
}

void WriteSide(JsonOut& out, const char* name, const ComparedSide& side) {
  out.Key(name).BeginObject();
  out.Member("name", side.name);
  out.Member("captures", static_cast<uint64_t>(side.captures.size()));
  out.EndObject();
}

}  // namespace

std::string JobsJson(const std::vector<JobRow>& jobs) {
  HistoryDocument document("jobs");
  JsonOut& out = document.out();
  out.Key("jobs").BeginArray();
  for (const JobRow& job : jobs) {
    out.BeginObject();
    out.Member("job", job.job);
    out.Member("captures", static_cast<uint64_t>(job.captures));
    out.Member("first_unix_ns", job.first.ns());
    out.Key("last").BeginObject();
    WriteHead(out, job.last);
    out.EndObject();
    out.EndObject();
  }
  out.EndArray();
  return document.Take();
}

std::string CapturesJson(const std::vector<CaptureHead>& captures) {
  HistoryDocument document("captures");
  WriteHeads(document.out(), "captures", captures);
  return document.Take();
}

std::string CaptureJson(const CaptureSummary& capture) {
  HistoryDocument document("capture");
  JsonOut& out = document.out();
  WriteHead(out, capture.head);
  for (const TableRows& rows : RowsOf(capture)) {
    if (rows.table == "labels" || rows.table == "ranks" || rows.table == "steps") WriteTableRows(out, rows);
  }
  out.Key("findings").BeginArray();
  for (const Finding& finding : capture.findings) {
    out.BeginObject();
    WriteFinding(out, finding);
    out.EndObject();
  }
  out.EndArray();
  return document.Take();
}

std::string TrendJson(const Trend& trend) {
  HistoryDocument document("trend");
  JsonOut& out = document.out();
  out.Member("job", trend.job);
  out.Member("metric", trend.metric->name);
  out.Member("unit", trend.metric->unit == MetricUnit::kFraction ? "fraction" : "ns");
  out.Member("false_alarms", trend.options.false_alarms);
  out.Member("least_shift", trend.options.least_shift);
  out.Member("captures_without_value", static_cast<uint64_t>(trend.without_value));
  out.Key("points").BeginArray();
  for (const TrendPoint& point : trend.points) {
    out.BeginObject();
    out.Member("capture", point.head.id);
    out.Member("captured_unix_ns", point.head.captured.ns());
    out.Member("value", point.value);
    out.Member("partial", point.head.partial);
    out.EndObject();
  }
  out.EndArray();
  out.Key("changes").BeginArray();
  for (const TrendChange& change : trend.changes) WriteChange(out, trend, change);
  out.EndArray();
  return document.Take();
}

std::string ComparisonJson(const Comparison& comparison) {
  HistoryDocument document("comparison");
  JsonOut& out = document.out();
  WriteSide(out, "a", comparison.a);
  WriteSide(out, "b", comparison.b);
  out.Key("metrics").BeginArray();
  for (const ComparedMetric& metric : comparison.metrics) {
    out.BeginObject();
    out.Member("metric", metric.metric->name);
    out.Member("a", metric.a);
    out.Member("b", metric.b);
    out.EndObject();
  }
  out.EndArray();
  out.Key("labels").BeginArray();
  for (const ComparedLabel& label : comparison.labels) {
    out.BeginObject();
    out.Member("name", label.name);
    out.Member("a", label.a);
    out.Member("b", label.b);
    out.EndObject();
  }
  out.EndArray();
  out.Key("findings").BeginArray();
  for (const ComparedFinding& finding : comparison.findings) {
    out.BeginObject();
    WriteFinding(out, finding.finding);
    out.Member("captures_a", static_cast<uint64_t>(finding.in_a));
    out.Member("captures_b", static_cast<uint64_t>(finding.in_b));
    out.EndObject();
  }
  out.EndArray();
  return document.Take();
}

std::string RemovedJson(const std::vector<CaptureHead>& removed, Removal removal) {
  HistoryDocument document("removed");
  document.out().Member("dry_run", removal == Removal::kDryRun);
  WriteHeads(document.out(), "captures", removed);
  return document.Take();
}

}  // namespace lockstep::history
