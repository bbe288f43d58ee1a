#include "history/read_report.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log/clean_text.h"
#include "base/median.h"
#include "base/rpc/status_macros.h"
#include "simdjson.h"

namespace lockstep::history {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

constexpr char kReportSchema[] = "lockstep.report/1";
constexpr size_t kLongestName = 1000, kLongestSentence = 4000;

std::optional<int64_t> WholeAt(const element& from, const char* pointer) {
  int64_t number = 0;
  return from.at_pointer(pointer).get(number) == simdjson::SUCCESS ? std::optional(number) : std::nullopt;
}
std::optional<double> RealAt(const element& from, const char* pointer) {
  double number = 0;
  return from.at_pointer(pointer).get(number) == simdjson::SUCCESS ? std::optional(number) : std::nullopt;
}
std::optional<Nanos> LengthAt(const element& from, const char* pointer) {
  const std::optional<int64_t> number = WholeAt(from, pointer);
  return number ? std::optional(Nanos(*number)) : std::nullopt;
}
std::optional<RankId> RankAt(const element& from, const char* pointer) {
  const std::optional<int64_t> number = WholeAt(from, pointer);
  return number ? std::optional(RankId(static_cast<int32_t>(*number))) : std::nullopt;
}
std::optional<std::string> TextAt(const element& from, const char* pointer, size_t most = kLongestName) {
  std::string_view text;
  if (from.at_pointer(pointer).get(text) != simdjson::SUCCESS) return std::nullopt;
  return CleanText(text, most);
}
bool FlagAt(const element& from, const char* pointer) {
  bool flag = false;
  return from.at_pointer(pointer).get(flag) == simdjson::SUCCESS && flag;
}
// Returns an empty list if there is none.
std::vector<element> ListAt(const element& from, const char* pointer) {
  array list;
  if (from.at_pointer(pointer).get(list) != simdjson::SUCCESS) return {};
  return std::vector<element>(list.begin(), list.end());
}

std::string BeginText(JobTime time) {
  return absl::FormatTime("%Y%m%d-%H%M%E3S", absl::FromUnixNanos(time.ns()), absl::UTCTimeZone());
}

int64_t LostRecords(const element& report) {
  int64_t lost = 0;
  for (const element& loss : ListAt(report, "/capture/losses"))
    lost += std::clamp<int64_t>(WholeAt(loss, "/records").value_or(0), 0, int64_t{1} << 48);
  return lost;
}

// Mean of the ranks. It is null if no rank has the part.
std::optional<double> ExposedOf(const element& report) {
  std::vector<double> values;
  for (const element& rank : ListAt(report, "/step_breakdown")) {
    if (const auto value = RealAt(rank, "/communication_ns")) values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(Mean(values));
}

std::optional<double> IdleOf(const element& report) {
  double idle_ns = 0, span_ns = 0;
  for (const element& rank : ListAt(report, "/ranks")) {
    idle_ns += RealAt(rank, "/idle_ns").value_or(0);
    span_ns += RealAt(rank, "/span_ns").value_or(0);
  }
  return span_ns > 0 ? std::optional(idle_ns / span_ns) : std::nullopt;
}

std::vector<RankSummary> RanksOf(const element& report) {
  std::vector<RankSummary> ranks;
  for (const element& row : ListAt(report, "/ranks")) {
    ranks.push_back({.rank = RankAt(row, "/rank").value_or(kNoRank),
                     .host = TextAt(row, "/host").value_or(""),
                     .device = WholeAt(row, "/device").value_or(0),
                     .device_name = TextAt(row, "/device_name"),
                     .device_uuid = TextAt(row, "/device_uuid"),
                     .compute = LengthAt(row, "/compute_ns").value_or(Nanos()),
                     .exposed_communication = LengthAt(row, "/exposed_communication_ns").value_or(Nanos()),
                     .idle = LengthAt(row, "/idle_ns").value_or(Nanos()),
                     .caused_wait = LengthAt(row, "/caused_wait_ns").value_or(Nanos()),
                     .gain_ns_per_step = RealAt(row, "/gain_ns_per_step")});
  }
  return ranks;
}

std::optional<double> MeanOfRanks(const std::vector<element>& ranks, const char* pointer) {
  std::vector<double> values;
  for (const element& rank : ranks) {
    if (const auto value = RealAt(rank, pointer)) values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(Mean(values));
}

StepSummary StepOf(const element& row) {
  const std::vector<element> ranks = ListAt(row, "/ranks");
  StepSummary step{.step = WholeAt(row, "/step").value_or(0),
                   .duration = LengthAt(row, "/duration_ns").value_or(Nanos()),
                   .parallel_efficiency = RealAt(row, "/efficiency/parallel"),
                   .load_balance = RealAt(row, "/efficiency/load_balance"),
                   .communication_efficiency = RealAt(row, "/efficiency/communication"),
                   .orchestration = RealAt(row, "/efficiency/orchestration"),
                   .wait_ns = MeanOfRanks(ranks, "/wait_ns"),
                   .overlap_ns = MeanOfRanks(ranks, "/overlap_ns")};
  for (const element& rank : ranks) {
    const std::optional<Nanos> lost = LengthAt(rank, "/lost_ns");
    if (!lost || (step.costliest_lost && *lost <= *step.costliest_lost)) continue;
    step.costliest_lost = lost;
    step.costliest_rank = RankAt(rank, "/rank");
  }
  return step;
}

Finding FindingOf(const element& row, const char* list, const std::map<RankId, std::string>& hosts) {
  Finding finding{.list = list,
                  .kind = TextAt(row, "/kind").value_or(""),
                  .cause = TextAt(row, "/cause").value_or(""),
                  .lost_ns_per_step = RealAt(row, "/lost_ns_per_step"),
                  .gain_ns_per_step = RealAt(row, "/gain_ns_per_step"),
                  .verdict = TextAt(row, "/verdict").value_or(""),
                  .confidence = RealAt(row, "/confidence"),
                  .since_step = WholeAt(row, "/since_step"),
                  .action = TextAt(row, "/action", kLongestSentence).value_or("")};
  for (const element& number : ListAt(row, "/ranks")) {
    const std::optional<RankId> rank = RankAt(number, "");
    if (!rank) continue;
    const auto host = hosts.find(*rank);
    finding.ranks.push_back({.rank = *rank, .host = host == hosts.end() ? "" : host->second});
  }
  return finding;
}

std::vector<Finding> FindingsOf(const element& report, const std::vector<RankSummary>& ranks) {
  std::map<RankId, std::string> hosts;
  for (const RankSummary& rank : ranks) hosts.emplace(rank.rank, rank.host);
  std::vector<Finding> findings;
  for (const element& row : ListAt(report, "/stragglers"))
    findings.push_back(FindingOf(row, kStragglers, hosts));
  for (const element& row : ListAt(report, "/shared_losses"))
    findings.push_back(FindingOf(row, kSharedLosses, hosts));
  return findings;
}

std::optional<double> MedianStep(const element& report, const std::vector<StepSummary>& steps) {
  if (steps.empty()) return RealAt(report, "/slowdown/step_ns");
  std::vector<double> lengths_ns;
  for (const StepSummary& step : steps) lengths_ns.push_back(static_cast<double>(step.duration.ns()));
  return Median(std::move(lengths_ns));
}

CaptureHead HeadOf(const element& report, HostTime added) {
  const std::optional<int64_t> begin = WholeAt(report, "/capture/start_unix_ns");
  return {.id = TextAt(report, "/capture/id").value_or(""),
          .job = TextAt(report, "/capture/job").value_or(""),
          .job_id = TextAt(report, "/capture/job").value_or(""),
          .source = TextAt(report, "/capture/source").value_or(""),
          .captured = JobTime(begin.value_or(added.ns())),
          .added = added,
          .duration = LengthAt(report, "/capture/duration_ns"),
          .world_size = WholeAt(report, "/capture/world_size").value_or(0),
          .hosts = WholeAt(report, "/capture/hosts").value_or(0),
          .steps = WholeAt(report, "/capture/steps").value_or(0),
          .partial = FlagAt(report, "/capture/partial"),
          .lost_records = LostRecords(report),
          .ideal_step_ns = RealAt(report, "/slowdown/ideal_step_ns"),
          .lost_ns_per_step = RealAt(report, "/slowdown/lost_ns_per_step"),
          .noise_floor_ns_per_step = RealAt(report, "/slowdown/noise_floor_ns_per_step"),
          .exposed_ns_per_step = ExposedOf(report),
          .idle_fraction = IdleOf(report),
          .parallel_efficiency = RealAt(report, "/efficiency/parallel"),
          .load_balance = RealAt(report, "/efficiency/load_balance"),
          .communication_efficiency = RealAt(report, "/efficiency/communication"),
          .orchestration = RealAt(report, "/efficiency/orchestration"),
          .verdict = TextAt(report, "/verdict", kLongestSentence).value_or("")};
}

absl::Status CheckReportSchema(const element& report) {
  const std::string schema = TextAt(report, "/schema").value_or("");
  if (schema == kReportSchema) return absl::OkStatus();
  return absl::InvalidArgumentError(
      schema.empty() ? "is not a report of Lockstep: it has no \"schema\""
                     : absl::StrCat("has the schema ", schema, ", and a history reads ", kReportSchema));
}

}  // namespace

absl::StatusOr<CaptureSummary> ReadReport(std::string_view text, HostTime added) {
  simdjson::dom::parser parser;
  element report;
  if (const auto error = parser.parse(text.data(), text.size()).get(report); error != simdjson::SUCCESS)
    return absl::InvalidArgumentError(absl::StrCat("is not JSON: ", simdjson::error_message(error)));
  LOCKSTEP_RETURN_IF_ERROR(CheckReportSchema(report));
  CaptureSummary summary{.head = HeadOf(report, added)};
  CaptureHead& head = summary.head;
  if (head.id.empty() && head.job.empty())
    return absl::InvalidArgumentError("names neither its capture nor its job");
  if (head.id.empty()) head.id = head.job;
  if (head.job.empty()) head.job = head.id;
  if (head.source != "live" && WholeAt(report, "/capture/start_unix_ns"))
    head.id = absl::StrCat(head.id, "@", BeginText(head.captured));
  summary.ranks = RanksOf(report);
  for (const element& row : ListAt(report, "/steps")) summary.steps.push_back(StepOf(row));
  summary.findings = FindingsOf(report, summary.ranks);
  head.step_ns = MedianStep(report, summary.steps);
  const auto straggler = std::find_if(summary.findings.begin(), summary.findings.end(),
                                      [](const Finding& finding) { return finding.list == kStragglers; });
  if (straggler != summary.findings.end()) {
    head.gain_ns_per_step = straggler->gain_ns_per_step;
  } else if (head.lost_ns_per_step) {
    head.gain_ns_per_step = 0;  // the job was judged, and no rank is to be fixed
  }
  return summary;
}

}  // namespace lockstep::history
