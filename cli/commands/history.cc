// Implements `lockstep history`: summaries of captures in a database, and when a job became slower.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/commands/history_input.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/command.h"
#include "history/comparison.h"
#include "history/database/open_database.h"
#include "history/export_parquet.h"
#include "history/history_store.h"
#include "history/job_list.h"
#include "history/metrics.h"
#include "history/output/history_json.h"
#include "history/output/history_text.h"
#include "history/trend.h"

namespace lockstep::cli {
namespace {

constexpr char kHistoryAbout[] =
    "Keep summaries of captures, and find since when a job is slower.\n"
    "\n"
    "The history is an SQLite file of this user, or a PostgreSQL server that a site shares. --db or\n"
    "LOCKSTEP_HISTORY names it: a path, or postgresql://USER@HOST/DATABASE. Passwords belong in "
    "~/.pgpass.\n"
    "\n"
    "Examples:\n"
    "  lockstep history add ./lockstep-4711-20260301-120000 --job llama-70b --label commit=1f3c9a2\n"
    "  lockstep history trend llama-70b\n"
    "  lockstep history trend llama-70b --metric exposed --since 30d --exit-code\n"
    "  lockstep history compare 20260301-120000-0a1b2c 20260302-120000-3d4e5f\n"
    "  lockstep history export lake && duckdb -c \"FROM read_parquet('lake/captures/**/*.parquet')\"\n"
    "  lockstep history prune --keep-days 365\n";

constexpr char kHistoryAddAbout[] =
    "Add captures: folders or ids of captures, files report.json, or recorded traces. A capture that is "
    "there is replaced";
constexpr char kHistoryListAbout[] = "List the jobs, the one with the newest capture first";
constexpr char kHistoryShowAbout[] = "Show a capture, or list the captures of a job";
constexpr char kHistoryTrendAbout[] =
    "Show a value over the captures of a job, and the changes with what changed at the same time";
constexpr char kHistoryCompareAbout[] = "Compare two captures, or the captures of two jobs";
constexpr char kHistoryExportAbout[] =
    "Write the tables as Parquet, a file per table and month, for DuckDB and pandas";
constexpr char kHistoryPruneAbout[] = "Remove old captures from the history; their folders stay";

struct HistoryFlags {
  std::string db;
  std::vector<std::string> captures;
  std::vector<std::string> labels;  // NAME=VALUE
  std::string job, name, other, since, folder;
  std::string format = "text";
  std::string metric = "step_time";
  size_t limit = 0;  // 0: none
  uint64_t memory_bytes = 0;
  history::ChangeOptions changes;
  int64_t keep_days = -1, keep_captures = -1;  // negative: not given
  bool dry_run = false, exit_code = false;
  AggregatorFlags aggregator;
};

absl::StatusOr<history::HistoryStore> OpenStore(const HistoryFlags& flags, history::Purpose purpose) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string place, history::HistoryPlace(flags.db, [](const char* name) {
                              return std::getenv(name);
                            }));
  LOCKSTEP_ASSIGN_OR_RETURN(auto database, history::OpenDatabase(place, purpose));
  return history::HistoryStore::Open(std::move(database), purpose, SystemClock());
}

void PrintHistory(const std::string& text) { std::fputs(CleanLines(text).c_str(), stdout); }
void PrintHistoryJson(const std::string& text) { std::fputs(text.c_str(), stdout); }

// Accepts a length before `now`, a day, or RFC 3339.
absl::StatusOr<JobTime> ParseSince(const std::string& text, HostTime now) {
  if (const auto length = settings::ParseDuration(text); length.ok()) return JobTime((now - *length).ns());
  absl::Time time;
  std::string error;
  if (absl::ParseTime("%Y-%m-%d", text, &time, &error) ||
      absl::ParseTime(absl::RFC3339_full, text, &time, &error))
    return JobTime(absl::ToUnixNanos(time));
  return absl::InvalidArgumentError(
      absl::StrCat("--since ", text, " is not a time: write 30d, 2026-03-01 or 2026-03-01T12:00:00Z"));
}

absl::StatusOr<history::CaptureFilter> HistoryFilterOf(const HistoryFlags& flags) {
  history::CaptureFilter filter;
  if (flags.since.empty()) return filter;
  LOCKSTEP_ASSIGN_OR_RETURN(filter.since, ParseSince(flags.since, ReadRealtime()));
  return filter;
}

absl::StatusOr<std::vector<history::Label>> ParseLabels(const std::vector<std::string>& texts) {
  std::vector<history::Label> labels;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label ", text, ": write NAME=VALUE, as in commit=1f3c9a2"));
    }
    history::Label label{.name = CleanText(text.substr(0, equals)),
                         .value = CleanText(text.substr(equals + 1))};
    const bool twice = std::any_of(labels.begin(), labels.end(), [&label](const history::Label& other) {
      return other.name == label.name;
    });
    if (twice)
      return absl::InvalidArgumentError(
          absl::StrCat("--label ", label.name, " is given twice: give it once"));
    labels.push_back(std::move(label));
  }
  std::sort(labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return labels;
}

absl::Status AddOne(history::HistoryStore& store, const std::string& input, const HistoryFlags& flags,
                    const std::vector<history::Label>& labels) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      history::CaptureSummary summary,
      SummaryOf(input, flags.aggregator, MemoryLimitOf(flags.memory_bytes), ReadRealtime()));
  if (!flags.job.empty()) summary.head.job = CleanText(flags.job);
  summary.labels = labels;
  LOCKSTEP_ASSIGN_OR_RETURN(const history::Added added, store.Add(summary));
  PrintHistory(absl::StrCat(added == history::Added::kNew ? "added " : "replaced ", summary.head.id, ", job ",
                            summary.head.job, "\n"));
  return absl::OkStatus();
}

// A capture that cannot be used does not keep the others out.
absl::Status AddCaptures(const HistoryFlags& flags) {
  LimitMemory(MemoryLimitOf(flags.memory_bytes));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<history::Label> labels, ParseLabels(flags.labels));
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kWrite));
  absl::Status first;
  for (const std::string& input : flags.captures) {
    const absl::Status status = AddOne(store, input, flags, labels);
    if (status.ok()) continue;
    if (first.ok()) {
      first = status;
    } else {
      PrintMessage(std::string(status.message()));
    }
  }
  return first;
}

absl::Status ListJobs(const HistoryFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const history::CaptureFilter filter, HistoryFilterOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<history::CaptureHead> captures, store.Captures(filter));
  std::vector<history::JobRow> jobs = history::JobRows(captures);
  std::erase_if(
      jobs, [&flags](const history::JobRow& row) { return row.job.find(flags.job) == std::string::npos; });
  if (flags.limit > 0 && jobs.size() > flags.limit) jobs.resize(flags.limit);
  if (flags.format == "json") {
    PrintHistoryJson(history::JobsJson(jobs));
  } else {
    PrintHistory(history::JobsText(jobs));
  }
  return absl::OkStatus();
}

absl::Status ShowJob(history::HistoryStore& store, const HistoryFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(history::CaptureFilter filter, HistoryFilterOf(flags));
  filter.job = flags.name;
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<history::CaptureHead> captures, store.Captures(filter));
  std::reverse(captures.begin(), captures.end());
  if (flags.limit > 0 && captures.size() > flags.limit) captures.resize(flags.limit);
  if (flags.format == "json") {
    PrintHistoryJson(history::CapturesJson(captures));
  } else {
    PrintHistory(history::CapturesText(captures));
  }
  return absl::OkStatus();
}

absl::Status ShowOne(const HistoryFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool job, store.HasJob(flags.name));
  if (job) return ShowJob(store, flags);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string id, store.FindId(flags.name));
  LOCKSTEP_ASSIGN_OR_RETURN(const history::CaptureSummary capture, store.Capture(id));
  if (flags.format == "json") {
    PrintHistoryJson(history::CaptureJson(capture));
  } else {
    PrintHistory(history::CaptureText(capture));
  }
  return absl::OkStatus();
}

absl::StatusOr<history::Trend> TrendOf(const HistoryFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(history::CaptureFilter filter, HistoryFilterOf(flags));
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kRead));
  filter.job = flags.name;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<history::CaptureContext> contexts, store.Contexts(filter));
  if (contexts.empty()) {
    return absl::NotFoundError(absl::StrCat("no captures of job ", flags.name,
                                            flags.since.empty() ? "" : " since then", " in ", store.name(),
                                            ": `lockstep history list` lists the jobs"));
  }
  return history::MakeTrend(flags.name, *history::FindMetric(flags.metric), contexts, flags.changes);
}

ExitCode ShowTrend(const HistoryFlags& flags) {
  const absl::StatusOr<history::Trend> trend = TrendOf(flags);
  if (!trend.ok()) return Fail(trend.status());
  if (flags.format == "json") {
    PrintHistoryJson(history::TrendJson(*trend));
  } else {
    PrintHistory(history::TrendText(*trend));
  }
  const bool worse = !trend->changes.empty() && trend->changes.back().worse;
  return flags.exit_code && worse ? ExitCode::kWorse : ExitCode::kDone;
}

absl::StatusOr<history::ComparedSide> SideOf(history::HistoryStore& store, const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool job, store.HasJob(name));
  if (job) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<history::CaptureContext> captures, store.Contexts({.job = name}));
    return history::ComparedSide{.name = name, .captures = std::move(captures)};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string id, store.FindId(name));
  LOCKSTEP_ASSIGN_OR_RETURN(history::CaptureSummary capture, store.Capture(id));
  history::CaptureContext context{.head = std::move(capture.head),
                                  .labels = std::move(capture.labels),
                                  .hosts = {},
                                  .devices = {},
                                  .findings = std::move(capture.findings)};
  return history::ComparedSide{.name = id, .captures = {std::move(context)}};
}

absl::Status CompareSides(const HistoryFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(history::ComparedSide a, SideOf(store, flags.name));
  LOCKSTEP_ASSIGN_OR_RETURN(history::ComparedSide b, SideOf(store, flags.other));
  const history::Comparison comparison = history::Compare(std::move(a), std::move(b));
  if (flags.format == "json") {
    PrintHistoryJson(history::ComparisonJson(comparison));
  } else {
    PrintHistory(history::ComparisonText(comparison));
  }
  return absl::OkStatus();
}

absl::Status Prune(const HistoryFlags& flags) {
  constexpr int64_t kSecondsPerDay = 86400;
  history::PruneRule rule;
  if (flags.keep_days >= 0)
    rule.before = JobTime((ReadRealtime() - Nanos::Seconds(kSecondsPerDay) * flags.keep_days).ns());
  if (flags.keep_captures >= 0) rule.keep_newest = flags.keep_captures;
  if (!rule.before && !rule.keep_newest) {
    return absl::InvalidArgumentError(
        "nothing says which captures are old: give --keep-days N, --keep-captures N, or both");
  }
  if (!flags.job.empty()) rule.job = flags.job;
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<history::CaptureHead> outdated, store.Outdated(rule));
  if (!flags.dry_run && !outdated.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore writer, OpenStore(flags, history::Purpose::kWrite));
    LOCKSTEP_RETURN_IF_ERROR(writer.Remove(outdated));
  }
  if (flags.format == "json") {
    PrintHistoryJson(
        history::RemovedJson(outdated, flags.dry_run ? history::Removal::kDryRun : history::Removal::kDone));
    return absl::OkStatus();
  }
  if (!outdated.empty()) PrintHistory(history::CapturesText(outdated));
  PrintHistory(absl::StrCat(flags.dry_run ? "would remove " : "removed ", outdated.size(),
                            outdated.size() == 1 ? " capture\n" : " captures\n"));
  return absl::OkStatus();
}

absl::Status ExportTables(const HistoryFlags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(history::HistoryStore store, OpenStore(flags, history::Purpose::kRead));
  LOCKSTEP_ASSIGN_OR_RETURN(const history::Exported exported, history::ExportParquet(store, flags.folder));
  PrintHistory(
      absl::StrCat(exported.captures, " captures in ", exported.files, " files of ", flags.folder, "\n"));
  return absl::OkStatus();
}

void AddHistoryDatabase(CLI::App& verb, HistoryFlags& flags) {
  verb.add_option("--db", flags.db,
                  "SQLite file, or postgresql://USER@HOST/DATABASE; default: $LOCKSTEP_HISTORY, else "
                  "lockstep/history.db in $XDG_DATA_HOME or ~/.local/share")
      ->type_name(kPathValue);
}

void AddHistoryFormat(CLI::App& verb, HistoryFlags& flags) {
  verb.add_option("--format", flags.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name(OneOf({"text", "json"}))
      ->capture_default_str();
}

void AddSinceFlag(CLI::App& verb, HistoryFlags& flags) {
  verb.add_option("--since", flags.since,
                  "Only captures since then: 30d, 2026-03-01 or 2026-03-01T12:00:00Z");
}

void AddLimitFlag(CLI::App& verb, HistoryFlags& flags) {
  verb.add_option("--limit", flags.limit, "Largest number of rows")
      ->check(CLI::Range(size_t{1}, size_t{1000000}));
}

void AddAddVerb(CLI::App& command, const std::shared_ptr<HistoryFlags>& flags, Chosen& chosen) {
  CLI::App* verb = AddVerb(command, "add", kHistoryAddAbout, flags, chosen, AddCaptures);
  verb->add_option("CAPTURE", flags->captures,
                   "A capture's folder or id, a file report.json, or a recorded trace")
      ->required()
      ->type_name(kCaptureValue);
  verb->add_option(
      "--job", flags->job,
      "Name under which these captures are compared; default: the job of the report, whose number often "
      "is of one run only");
  verb->add_option("--label", flags->labels, "NAME=VALUE, as in commit=1f3c9a2; may be repeated")
      ->allow_extra_args(false);
  AddHistoryDatabase(*verb, *flags);
  AddAggregatorFlags(*verb, flags->aggregator);
  AddMemoryFlag(*verb, flags->memory_bytes);
}

void AddTrendVerb(CLI::App& command, const std::shared_ptr<HistoryFlags>& flags, Chosen& chosen) {
  std::vector<std::string> metrics;
  for (const history::Metric& metric : history::Metrics()) metrics.emplace_back(metric.name);
  CLI::App* verb = command.add_subcommand("trend", kHistoryTrendAbout);
  verb->callback([flags, &chosen] { chosen.action = [flags] { return ShowTrend(*flags); }; });
  verb->add_option("JOB", flags->name, "Name of the job")->required();
  verb->add_option("--metric", flags->metric, "Value of the captures")
      ->check(CLI::IsMember(metrics).description(""))
      ->type_name(OneOf(metrics))
      ->capture_default_str();
  AddSinceFlag(*verb, *flags);
  verb->add_option("--false-alarms", flags->changes.false_alarms,
                   "Probability that a series without a change has one reported")
      ->check(CLI::Range(0.001, 0.5))
      ->capture_default_str();
  verb->add_option("--least-shift", flags->changes.least_shift,
                   "Smallest change that is reported, as a fraction of the value before")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  verb->add_flag("--exit-code", flags->exit_code, "Exit with code 3 if the newest change is for the worse");
  AddHistoryDatabase(*verb, *flags);
  AddHistoryFormat(*verb, *flags);
}

void AddPruneVerb(CLI::App& command, const std::shared_ptr<HistoryFlags>& flags, Chosen& chosen) {
  CLI::App* verb = AddVerb(command, "prune", kHistoryPruneAbout, flags, chosen, Prune);
  verb->add_option("--keep-days", flags->keep_days, "Remove captures that are older than so many days")
      ->check(CLI::Range(int64_t{0}, int64_t{36500}));
  verb->add_option("--keep-captures", flags->keep_captures,
                   "Keep only so many captures of each job, the newest")
      ->check(CLI::Range(int64_t{0}, int64_t{1000000000}));
  verb->add_option("--job", flags->job, "Only captures of this job");
  verb->add_flag("--dry-run", flags->dry_run, "List the captures and remove nothing");
  AddHistoryDatabase(*verb, *flags);
  AddHistoryFormat(*verb, *flags);
}

}  // namespace

void AddHistory(CLI::App& app, Chosen& chosen) {
  CLI::App* command = AddCommand(app, "history", kHistoryAbout);
  auto flags = std::make_shared<HistoryFlags>();
  AddAddVerb(*command, flags, chosen);
  CLI::App* list = AddVerb(*command, "list", kHistoryListAbout, flags, chosen, ListJobs);
  list->add_option("--job", flags->job, "Only jobs whose name contains this text");
  CLI::App* show = AddVerb(*command, "show", kHistoryShowAbout, flags, chosen, ShowOne);
  show->add_option("NAME", flags->name, "A job, a capture's id, or the beginning of an id")->required();
  for (CLI::App* verb : {list, show}) {
    AddSinceFlag(*verb, *flags);
    AddLimitFlag(*verb, *flags);
    AddHistoryDatabase(*verb, *flags);
    AddHistoryFormat(*verb, *flags);
  }
  AddTrendVerb(*command, flags, chosen);
  CLI::App* compare = AddVerb(*command, "compare", kHistoryCompareAbout, flags, chosen, CompareSides);
  compare->add_option("A", flags->name, "A capture, or a job for the medians of its captures")->required();
  compare->add_option("B", flags->other, "The capture or job to compare with A")->required();
  AddHistoryDatabase(*compare, *flags);
  AddHistoryFormat(*compare, *flags);
  AddPruneVerb(*command, flags, chosen);
  CLI::App* exported = AddVerb(*command, "export", kHistoryExportAbout, flags, chosen, ExportTables);
  exported
      ->add_option("FOLDER", flags->folder, "Folder for TABLE/month=YYYY-MM/data.parquet; created if needed")
      ->type_name(kFolderValue)
      ->required();
  AddHistoryDatabase(*exported, *flags);
  command->require_subcommand(1);
}

}  // namespace lockstep::cli
