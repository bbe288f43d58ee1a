#include "aggregator/reports/child_analyst.h"

#include <limits.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aggregator/reports/analysis_child.h"
#include "aggregator/reports/child_process.h"
#include "aggregator/reports/report_files.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

// A sample of 16,384 ranks has 2 MiB.
constexpr size_t kMostResultBytes = 16u << 20;
constexpr size_t kLongestMessage = 1024;
constexpr size_t kLongestReason = 256;

std::string SizeText(uint64_t bytes) {
  constexpr uint64_t kGiB = 1u << 30;
  constexpr uint64_t kMiB = 1u << 20;
  return bytes % kGiB == 0 ? absl::StrCat(bytes / kGiB, " GiB") : absl::StrCat(bytes / kMiB, " MiB");
}

std::string IdOf(const StoredCapture& capture) {
  return std::filesystem::path(capture.folder).filename().string();
}

absl::Status OfSignal(const std::string& analysis, int signal, const AnalysisLimits& limits) {
  switch (signal) {
    case SIGXCPU:
      return absl::DeadlineExceededError(
          absl::StrCat(analysis, " needed more than ", (limits.time * kCpuFactor).seconds(),
                       " s of CPU time, which is ", kCpuFactor, " times --analysis-time"));
    case SIGXFSZ:
      return absl::ResourceExhaustedError(
          absl::StrCat(analysis, " would have made a report of more than ", SizeText(kMostReportBytes)));
    case SIGKILL:
      return absl::InternalError(
          absl::StrCat(analysis, " was killed: the machine may have run out of memory (dmesg shows it)"));
    default:
      return absl::InternalError(absl::StrCat(
          analysis, " crashed with signal ", signal,
          ": `lockstep analyze` on the capture's folder shows more; please report it with the capture"));
  }
}

// Returns the error of a child that wrote no result.
absl::Status Failed(const std::string& analysis, const ChildEnd& end, const AnalysisLimits& limits) {
  switch (end.how) {
    case ChildEnd::How::kTimedOut:
      return absl::DeadlineExceededError(
          absl::StrCat(analysis, " needed more than ", limits.time.seconds(), " s (--analysis-time)"));
    case ChildEnd::How::kStopped:
      return absl::UnavailableError(absl::StrCat(analysis, " was stopped, because the aggregator is ending"));
    case ChildEnd::How::kLongAnswer:
      return absl::ResourceExhaustedError(
          absl::StrCat(analysis, " returned more than ", SizeText(kMostResultBytes)));
    case ChildEnd::How::kSignalled:
      return OfSignal(analysis, end.code, limits);
    case ChildEnd::How::kExited:
      break;
  }
  if (end.code == kOutOfMemory)
    return absl::ResourceExhaustedError(absl::StrCat(
        analysis, " needed more than ", SizeText(limits.memory_bytes), " of memory (--analysis-memory)"));
  return absl::InternalError(absl::StrCat(analysis, " ended without a result (exit code ", end.code, ")"));
}

absl::Status ToStatus(const std::string& analysis, const v1::AnalysisFailure& failure) {
  const auto code = static_cast<absl::StatusCode>(failure.code());
  const bool known = code > absl::StatusCode::kOk && code <= absl::StatusCode::kUnauthenticated;
  return absl::Status(known ? code : absl::StatusCode::kInternal,
                      absl::StrCat(analysis, " failed: ", CleanText(failure.message(), kLongestMessage)));
}

std::optional<double> Positive(bool present, double number) {
  return present && std::isfinite(number) && number > 0 ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string OwnProgram(const std::string& name) {
  constexpr char kSelf[] = "/proc/self/exe";
  char path[PATH_MAX];
  const ssize_t n = ::readlink(kSelf, path, sizeof(path));
  if (n <= 0) return kSelf;
  const std::filesystem::path file(std::string(path, static_cast<size_t>(n)));
  if (!file.filename().string().starts_with("ld-")) return kSelf;
  return (file.parent_path().parent_path() / "bin" / name).string();
}

ChildAnalyst::ChildAnalyst(ChildAnalystOptions options)
    : options_(std::move(options)), turns_(options_.limits.processes) {}

absl::StatusOr<ReportFacts> ChildAnalyst::Report(const StoredCapture& capture, WritesPage page) {
  LOCKSTEP_ASSIGN_OR_RETURN(ReportFiles files, ReportFiles::Create(capture.folder, page));
  std::vector<int> fds;
  for (const ReportFile& file : files.files()) fds.push_back(file.fd.get());
  LOCKSTEP_ASSIGN_OR_RETURN(
      const v1::AnalysisResult result,
      Run(capture, page == WritesPage::kYes ? v1::AnalysisOrder::REPORT_WITH_PAGE : v1::AnalysisOrder::REPORT,
          fds));
  if (!result.has_report())
    return absl::InternalError(absl::StrCat("the analysis of capture ", IdOf(capture), " made no report"));
  LOCKSTEP_RETURN_IF_ERROR(files.Commit());
  ReportFacts facts;
  for (const v1::AnalysedReport::Incomplete& row : result.report().incomplete())
    facts.incomplete.push_back({RankId(row.rank()), CleanText(row.reason(), kLongestReason)});
  facts.stragglers = result.report().stragglers();
  facts.step_ns = Positive(result.report().has_step_ns(), result.report().step_ns());
  facts.ratio = Positive(result.report().has_ratio(), result.report().ratio());
  if (result.report().has_lost_ns_per_step() && std::isfinite(result.report().lost_ns_per_step()))
    facts.lost_ns_per_step = result.report().lost_ns_per_step();
  return facts;
}

absl::StatusOr<Summary> ChildAnalyst::Sample(const StoredCapture& capture) {
  LOCKSTEP_ASSIGN_OR_RETURN(v1::AnalysisResult result, Run(capture, v1::AnalysisOrder::SAMPLE, {}));
  if (!result.has_sample())
    return absl::InternalError(absl::StrCat("the analysis of sample ", IdOf(capture), " has no result"));
  Summary summary;
  summary.steps = {result.sample().whole_steps(), result.sample().partial_steps(),
                   Positive(result.sample().has_step_ns(), result.sample().step_ns())};
  summary.sample = std::move(*result.mutable_sample()->mutable_sample());
  return summary;
}

absl::StatusOr<v1::AnalysisResult> ChildAnalyst::Run(const StoredCapture& capture,
                                                     v1::AnalysisOrder::Kind kind,
                                                     const std::vector<int>& files) {
  const std::string id = IdOf(capture);
  const std::string analysis =
      absl::StrCat("the analysis of ", kind == v1::AnalysisOrder::SAMPLE ? "sample " : "capture ", id);
  const std::unique_ptr<AnalysisTurns::Turn> turn = turns_.Wait(capture.owner);
  if (turn == nullptr)
    return absl::UnavailableError(absl::StrCat(analysis, " did not begin, because the aggregator is ending"));
  const AnalysisLimits& limits = options_.limits;
  v1::AnalysisOrder order;
  order.set_version(options_.version);
  order.set_parent_pid(::getpid());
  order.set_folder(capture.folder);
  order.set_kind(kind);
  order.set_memory_bytes(limits.memory_bytes);
  order.set_cpu_seconds(static_cast<uint64_t>(std::ceil((limits.time * kCpuFactor).seconds())));
  order.set_rows(limits.rows);
  ChildCommand command;
  command.program = options_.program;
  // ps shows them.
  command.words = {"lockstep-aggregator", kAnalysisChildWord, id};
  command.order = order.SerializeAsString();
  command.files = files;
  command.at_most = limits.time;
  command.most_answer_bytes = kMostResultBytes;
  LOCKSTEP_ASSIGN_OR_RETURN(const ChildEnd end, RunChild(command, stopped_));
  if (end.how != ChildEnd::How::kExited || end.code != 0) return Failed(analysis, end, limits);
  v1::AnalysisResult result;
  if (!result.ParseFromString(end.answer))
    return absl::InternalError(absl::StrCat(analysis, " returned a result that cannot be read"));
  NoteMissing(result);
  if (result.has_failure()) return ToStatus(analysis, result.failure());
  return result;
}

void ChildAnalyst::NoteMissing(const v1::AnalysisResult& result) {
  if (result.missing_protections().empty() || noted_.exchange(true)) return;
  options_.log(LogLevel::kWarning, "sandbox_incomplete",
               {{"missing", CleanText(absl::StrJoin(result.missing_protections(), " "), kLongestReason)},
                {"reason", "the kernel lacks it, or a container forbids it: analyses run without it"}});
}

void ChildAnalyst::Shutdown() {
  stopped_.store(true);
  turns_.Close();
}

}  // namespace lockstep::aggregator
