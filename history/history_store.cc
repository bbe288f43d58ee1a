#include "history/history_store.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/rpc/status_macros.h"
#include "history/row_values.h"
#include "history/schema.h"

namespace lockstep::history {
namespace {

// Both engines allow at least 32766 parameters in a statement. Fewer statements take less time over a
// network.
constexpr size_t kRowsAtOnce = 100;
constexpr size_t kShownIds = 5;

// Returns "($1, $2), ($3, $4)".
std::string Placeholders(size_t rows, size_t columns) {
  std::string text;
  size_t number = 0;
  for (size_t row = 0; row < rows; ++row) {
    absl::StrAppend(&text, row == 0 ? "(" : ", (");
    for (size_t column = 0; column < columns; ++column)
      absl::StrAppend(&text, column == 0 ? "$" : ", $", ++number);
    text += ")";
  }
  return text;
}

void AddOnce(std::vector<std::string>& texts, const std::string& text) {
  if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

void AddFindingRank(CaptureContext& context, int64_t place, RankId rank, const std::string& host) {
  if (place < 0 || static_cast<size_t>(place) >= context.findings.size()) return;
  context.findings[static_cast<size_t>(place)].ranks.push_back({.rank = rank, .host = host});
}

}  // namespace

absl::StatusOr<HistoryStore> HistoryStore::Open(std::unique_ptr<Database> database, Purpose purpose,
                                                const Clock& clock) {
  LOCKSTEP_RETURN_IF_ERROR(PrepareSchema(*database, purpose, clock));
  return HistoryStore(std::move(database));
}

absl::Status HistoryStore::Insert(const std::string& table, const std::vector<Row>& rows) {
  const HistoryTable& about = TableNamed(table);
  for (size_t first = 0; first < rows.size(); first += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, rows.size() - first);
    std::vector<Value> values;
    for (size_t row = first; row < first + count; ++row)
      values.insert(values.end(), rows[row].begin(), rows[row].end());
    LOCKSTEP_RETURN_IF_ERROR(database_
                                 ->Run(absl::StrCat("INSERT INTO ", table, " (", ColumnList(about),
                                                    ") VALUES ", Placeholders(count, about.columns.size())),
                                       values)
                                 .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<Added> HistoryStore::Add(const CaptureSummary& summary) {
  LOCKSTEP_ASSIGN_OR_RETURN(Writing writing, Writing::Begin(*database_));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> old,
                            database_->Run("SELECT 1 FROM captures WHERE capture = $1", {summary.head.id}));
  LOCKSTEP_RETURN_IF_ERROR(
      database_->Run("DELETE FROM captures WHERE capture = $1", {summary.head.id}).status());
  for (const TableRows& table : RowsOf(summary)) LOCKSTEP_RETURN_IF_ERROR(Insert(table.table, table.rows));
  LOCKSTEP_RETURN_IF_ERROR(writing.Commit());
  return old.empty() ? Added::kNew : Added::kReplaced;
}

absl::StatusOr<std::vector<Row>> HistoryStore::Select(const std::string& columns, const std::string& tables,
                                                      const CaptureFilter& filter, const std::string& order) {
  std::vector<std::string> conditions = {"1 = 1"};
  std::vector<Value> values;
  const auto add = [&](const char* condition, Value value) {
    values.push_back(std::move(value));
    conditions.push_back(absl::StrCat(condition, " $", values.size()));
  };
  if (filter.job) add("c.job =", *filter.job);
  if (filter.since) add("c.captured_unix_ns >=", filter.since->ns());
  if (filter.before) add("c.captured_unix_ns <", filter.before->ns());
  return database_->Run(absl::StrCat("SELECT ", columns, " FROM ", tables, " WHERE ",
                                     absl::StrJoin(conditions, " AND "), " ORDER BY ", order),
                        values);
}

absl::StatusOr<std::vector<CaptureHead>> HistoryStore::Captures(const CaptureFilter& filter) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> rows,
                            Select(ColumnList(TableNamed("captures"), "c."), "captures c", filter,
                                   "c.captured_unix_ns, c.capture"));
  std::vector<CaptureHead> heads;
  for (const Row& row : rows) heads.push_back(HeadFrom(row));
  return heads;
}

absl::StatusOr<std::vector<CaptureContext>> HistoryStore::Contexts(const CaptureFilter& filter) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<CaptureHead> heads, Captures(filter));
  std::vector<CaptureContext> contexts(heads.size());
  std::map<std::string, CaptureContext*> by_id;
  for (size_t i = 0; i < heads.size(); ++i) {
    contexts[i].head = std::move(heads[i]);
    by_id[contexts[i].head.id] = &contexts[i];
  }
  LOCKSTEP_RETURN_IF_ERROR(AddContexts(filter, by_id));
  for (CaptureContext& context : contexts) {
    std::sort(context.hosts.begin(), context.hosts.end());
    std::sort(context.devices.begin(), context.devices.end());
  }
  return contexts;
}

// One statement per table, so that the time does not grow with the number of captures over a network.
absl::Status HistoryStore::AddContexts(const CaptureFilter& filter,
                                       std::map<std::string, CaptureContext*>& by_id) {
  const auto each = [&](const std::string& columns, const std::string& table, const std::string& order,
                        const auto& use) -> absl::Status {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<Row> rows,
        Select(columns, absl::StrCat(table, " t JOIN captures c ON c.capture = t.capture"), filter, order));
    for (const Row& row : rows) {
      // Another program may have added a capture since the first statement.
      if (const auto found = by_id.find(TextIn(row, 0)); found != by_id.end()) use(*found->second, row);
    }
    return absl::OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(
      each(ColumnList(TableNamed("labels"), "t."), "labels", "t.capture, t.name",
           [](CaptureContext& of, const Row& row) { of.labels.push_back(LabelFrom(row)); }));
  LOCKSTEP_RETURN_IF_ERROR(each("DISTINCT t.capture, t.host, t.device_name", "ranks", "t.capture, t.host",
                                [](CaptureContext& of, const Row& row) {
                                  AddOnce(of.hosts, TextIn(row, 1));
                                  AddOnce(of.devices, TextIn(row, 2));
                                }));
  LOCKSTEP_RETURN_IF_ERROR(
      each(ColumnList(TableNamed("findings"), "t."), "findings", "t.capture, t.place",
           [](CaptureContext& of, const Row& row) { of.findings.push_back(FindingFrom(row)); }));
  return each(ColumnList(TableNamed("finding_ranks"), "t."), "finding_ranks", "t.capture, t.place, t.rank",
              [](CaptureContext& of, const Row& row) {
                AddFindingRank(of, WholeIn(row, 1), RankId(static_cast<int32_t>(WholeIn(row, 2))),
                               TextIn(row, 3));
              });
}

absl::StatusOr<std::vector<Row>> HistoryStore::RowsOfCapture(const std::string& table,
                                                             const std::string& id) {
  const HistoryTable& about = TableNamed(table);
  return database_->Run(absl::StrCat("SELECT ", ColumnList(about), " FROM ", table,
                                     " WHERE capture = $1 ORDER BY ", about.order),
                        {id});
}

absl::StatusOr<CaptureSummary> HistoryStore::Capture(const std::string& id) {
  CaptureSummary summary;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> heads, RowsOfCapture("captures", id));
  if (heads.empty()) return absl::NotFoundError(absl::StrCat("no capture ", id, " in ", name()));
  summary.head = HeadFrom(heads[0]);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> labels, RowsOfCapture("labels", id));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> ranks, RowsOfCapture("ranks", id));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> steps, RowsOfCapture("steps", id));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> findings, RowsOfCapture("findings", id));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> finding_ranks, RowsOfCapture("finding_ranks", id));
  std::transform(labels.begin(), labels.end(), std::back_inserter(summary.labels), LabelFrom);
  std::transform(ranks.begin(), ranks.end(), std::back_inserter(summary.ranks), RankFrom);
  std::transform(steps.begin(), steps.end(), std::back_inserter(summary.steps), StepFrom);
  std::transform(findings.begin(), findings.end(), std::back_inserter(summary.findings), FindingFrom);
  for (const Row& row : finding_ranks) {
    const auto place = static_cast<size_t>(WholeIn(row, 1));
    if (place >= summary.findings.size()) continue;
    summary.findings[place].ranks.push_back(
        {.rank = RankId(static_cast<int32_t>(WholeIn(row, 2))), .host = TextIn(row, 3)});
  }
  return summary;
}

absl::StatusOr<std::string> HistoryStore::FindId(const std::string& name) {
  // The comparison of a part of the text needs no escaping, which LIKE would.
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<Row> rows,
      database_->Run(
          "SELECT capture FROM captures WHERE substr(capture, 1, length($1)) = $1 ORDER BY capture", {name}));
  std::vector<std::string> ids;
  for (const Row& row : rows) ids.push_back(TextIn(row, 0));
  if (std::find(ids.begin(), ids.end(), name) != ids.end()) return name;
  if (ids.empty() || name.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no capture or job ", name, " in ", database_->name(),
                     ": `lockstep history list` lists the jobs, and `lockstep history show JOB` "
                     "their captures"));
  }
  if (ids.size() == 1) return ids[0];
  const size_t shown = std::min(ids.size(), kShownIds);
  return absl::InvalidArgumentError(absl::StrCat(
      name, " begins the ids of ", ids.size(),
      " captures: ", absl::StrJoin(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(shown), ", "),
      ids.size() > shown ? ", …" : "", "; give more of the id"));
}

absl::StatusOr<bool> HistoryStore::HasJob(const std::string& job) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> rows,
                            database_->Run("SELECT 1 FROM captures WHERE job = $1 LIMIT 1", {job}));
  return !rows.empty();
}

absl::StatusOr<std::vector<CaptureHead>> HistoryStore::Outdated(const PruneRule& rule) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<CaptureHead> captures, Captures({.job = rule.job}));
  std::map<std::string, int64_t> newer;  // captures of the job that were seen, from the newest
  std::vector<CaptureHead> outdated;
  for (auto capture = captures.rbegin(); capture != captures.rend(); ++capture) {
    const int64_t place = newer[capture->job]++;
    const bool old = rule.before && capture->captured < *rule.before;
    if (old || (rule.keep_newest && place >= *rule.keep_newest)) outdated.push_back(std::move(*capture));
  }
  std::reverse(outdated.begin(), outdated.end());
  return outdated;
}

absl::Status HistoryStore::Remove(const std::vector<CaptureHead>& captures) {
  LOCKSTEP_ASSIGN_OR_RETURN(Writing writing, Writing::Begin(*database_));
  for (const CaptureHead& capture : captures)
    LOCKSTEP_RETURN_IF_ERROR(
        database_->Run("DELETE FROM captures WHERE capture = $1", {capture.id}).status());
  return writing.Commit();
}

absl::StatusOr<std::vector<Row>> HistoryStore::Rows(const HistoryTable& table, JobTime from, JobTime to) {
  std::vector<std::string> order = {"c.captured_unix_ns"};
  for (const std::string& column : std::vector<std::string>(absl::StrSplit(table.order, ", ")))
    order.push_back(absl::StrCat("t.", column));
  return Select(ColumnList(table, "t."),
                absl::StrCat(table.name, " t JOIN captures c ON c.capture = t.capture"),
                {.since = from, .before = to}, absl::StrJoin(order, ", "));
}

}  // namespace lockstep::history
