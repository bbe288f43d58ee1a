#include "cli/commands/trace_session.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aggregator/captures/selection.h"
#include "base/clock.h"
#include "base/files/own_folder.h"
#include "base/rpc/status_macros.h"
#include "cli/commands/trigger_flags.h"
#include "cli/common/analysis_output.h"
#include "cli/common/command.h"
#include "cli/common/state_name.h"
#include "cli/common/values.h"
#include "formats/common/read_options.h"
#include "formats/input/read_input.h"
#include "report/report.h"

namespace lockstep::cli {
namespace {

std::string HostName() {
  char host[256] = {};
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

ExitCode CodeOf(v1::TraceFinished::Outcome outcome) {
  switch (outcome) {
    case v1::TraceFinished::COMPLETE:
      return ExitCode::kDone;
    case v1::TraceFinished::PARTIAL:
      return ExitCode::kPartial;
    case v1::TraceFinished::NO_SUCH_JOB:
      return ExitCode::kNotFound;
    case v1::TraceFinished::DENIED:
      return ExitCode::kDenied;
    case v1::TraceFinished::TIMED_OUT:
      return ExitCode::kTimedOut;
    default:
      return ExitCode::kFailed;
  }
}

std::string StateWords(const v1::RankProgress& rank) {
  const v1::RankState& state = rank.state();
  switch (state.state()) {
    case v1::RankState::SEEN:
      if (state.went_over()) return absl::StrCat("captured by PyTorch's profiler: ", state.text());
      return state.text().empty() ? "seen" : absl::StrCat("seen, ", state.text());
    case v1::RankState::ARMED:
      return "armed";
    case v1::RankState::CAPTURING:
      return state.late_ns() > 0 ? absl::StrCat("capturing, late by ", FormatDuration(Nanos(state.late_ns())))
                                 : "capturing";
    case v1::RankState::WAITING:
      return state.step_ns() > 0 ? absl::StrCat("waiting, at step ", state.step()) : "waiting";
    case v1::RankState::DONE:
      if (state.trace_bytes() > 0) {
        return absl::StrFormat("done, a trace of %.1f MB (gzip), lost %d",
                               static_cast<double>(state.trace_bytes()) * 1e-6, rank.lost());
      }
      return absl::StrCat("done, ", state.records(), " records, lost ", rank.lost(),
                          state.text().empty() ? "" : absl::StrCat("; ", state.text()));
    case v1::RankState::FAILED:
      return absl::StrCat("failed: ", state.text());
    case v1::RankState::GONE:
      return absl::StrCat("gone: ", state.text(),
                          rank.lost() > 0 ? absl::StrCat(", lost ", rank.lost()) : "");
    default:
      return "unknown";
  }
}

// Returns true for states that the user should read even if all else goes well.
bool IsNotable(const v1::RankProgress& rank) {
  const v1::RankState& state = rank.state();
  return state.state() == v1::RankState::FAILED || state.state() == v1::RankState::GONE || rank.lost() > 0 ||
         state.late_ns() > 0 || state.went_over() || !state.text().empty();
}

bool WritesMergedTrace(const std::vector<const ExportFormat*>& formats) {
  return std::any_of(formats.begin(), formats.end(), [](const ExportFormat* format) {
    return std::string_view(format->in_folder) == "merged.pftrace";
  });
}

}  // namespace

struct TraceSession::Analysed {
  capture::Capture capture;
  analysis::MemoryFit fit;  // `capture` may be in its file
  report::Analysis analysis;
  ExitCode printed = ExitCode::kDone;
};

TraceSession::TraceSession(AggregatorClient& client, TraceOutput output)
    : client_(client), output_(std::move(output)) {}

TraceSession::~TraceSession() = default;

ExitCode TraceSession::Run(const v1::TraceRequest& request) {
  waits_for_ = BeginWords(request.trigger());
  absl::Status status = client_.Trace(request, [this](const v1::TraceEvent& event) { OnEvent(event); });
  if (absl::IsUnavailable(status)) status = FollowAgain(std::move(status));
  progress_.Clear();
  if (!refused_.ok()) return Fail(refused_);
  if (!status.ok() && finished_.outcome() == v1::TraceFinished::OUTCOME_UNSPECIFIED) {
    if (status.code() == absl::StatusCode::kCancelled)
      return Fail(ExitCode::kFailed, "cancelled; nothing was written");
    if (status.code() == absl::StatusCode::kUnavailable) {
      return Fail(ExitCode::kFailed,
                  absl::StrCat("the aggregator disconnected (", std::string(status.message()),
                               "): its records are in its state folder; nothing was written here"));
    }
    return Fail(status);
  }
  ExitCode code = CodeOf(finished_.outcome());
  if (!finished_.text().empty()) PrintMessage(finished_.text());
  // Without a T0 the capture never ran, so there is nothing to write.
  if (finished_.t0_ns() == 0) return code == ExitCode::kDone ? ExitCode::kFailed : code;
  absl::Status written = WriteFolder(code);
  if (written.ok()) return code;
  progress_.Clear();
  const std::string kept = received_ ? absl::StrCat("; what was received is in ", received_->partial()) : "";
  return Fail(ExitCode::kFailed, absl::StrCat(written.message(), kept));
}

bool TraceSession::WaitForAggregator() {
  constexpr Nanos kPause = Nanos::Millis(200);
  const SystemClock clock;
  const MonoTime now = clock.Monotonic();
  progress_.Clear();
  if (!wait_until_) {
    wait_until_ = now + output_.patience;
    PrintMessage(absl::StrFormat("the connection to the aggregator was lost; waiting up to %.0f s for it",
                                 output_.patience.seconds()));
  }
  if (now >= *wait_until_ || interrupts_ >= 2) return false;
  progress_.Show("waiting for the aggregator");
  std::this_thread::sleep_for(std::chrono::nanoseconds(kPause.ns()));
  return true;
}

absl::Status TraceSession::FollowAgain(absl::Status lost) {
  constexpr Nanos kWait = Nanos::Seconds(1);  // short, so that an interrupt is noticed
  if (!refused_.ok() || folder_.empty()) return lost;
  std::string capture;
  {
    MutexLock lock(&mutex_);
    capture = capture_;
  }
  while (finished_.outcome() == v1::TraceFinished::OUTCOME_UNSPECIFIED && WaitForAggregator()) {
    absl::Status followed =
        client_.FollowTrace(capture, kWait, [this](const v1::TraceEvent& event) { OnEvent(event); });
    if (absl::IsCancelled(followed)) return followed;
    // Another error says less than the first.
    if (!followed.ok() && !absl::IsUnavailable(followed) && !absl::IsDeadlineExceeded(followed)) return lost;
  }
  wait_until_.reset();
  return lost;
}

absl::Status TraceSession::FetchOnce(CaptureFolder& folder) {
  progress_.Show("fetching records");
  std::string capture;  // its id
  {
    MutexLock lock(&mutex_);
    capture = capture_;
  }
  return client_.Fetch(capture, [&](const std::string& file, std::string_view bytes) {
    return folder.AppendRecords(file, bytes);
  });
}

absl::Status TraceSession::FetchRecords(CaptureFolder& folder) {
  while (true) {
    absl::Status fetched = FetchOnce(folder);
    if (!absl::IsUnavailable(fetched)) return fetched;
    if (!WaitForAggregator()) break;
    LOCKSTEP_RETURN_IF_ERROR(folder.DropRecords());
  }
  return absl::UnavailableError(absl::StrCat("the aggregator ended before its records of capture ",
                                             finished_.capture(),
                                             " could be fetched; they are in its state folder"));
}

absl::Status TraceSession::WriteFolder(ExitCode& code) {
  if (!received_) {
    LOCKSTEP_ASSIGN_OR_RETURN(received_, CaptureFolder::Create(folder_));
    LOCKSTEP_RETURN_IF_ERROR(FetchRecords(*received_));
    analysed_ = Analyse(*received_);
  }
  LOCKSTEP_RETURN_IF_ERROR(analysed_.status());
  return FillFolder(*received_, **analysed_, code);
}

void TraceSession::OnAnalysing() {
  if (!began_ || std::exchange(tried_early_, true) || !refused_.ok() || folder_.empty()) return;
  absl::StatusOr<CaptureFolder> folder = CaptureFolder::Create(folder_);
  // After a failure, WriteFolder tries again when the capture has ended, and reports it.
  if (!folder.ok()) return;
  if (!FetchOnce(*folder).ok()) return RemoveOwnFolder(folder->partial(), OwnFolder::kCapture).IgnoreError();
  received_ = *std::move(folder);
  analysed_ = Analyse(*received_);
}

absl::StatusOr<std::unique_ptr<TraceSession::Analysed>> TraceSession::Analyse(const CaptureFolder& folder) {
  progress_.Show("analysing");
  auto analysed = std::make_unique<Analysed>();
  // The page also shows operators.
  const analysis::MemoryLimit limit{.bytes = output_.memory_bytes, .with_page = true};
  capture::RowOverflow overflow = OverflowOf(limit);
  LOCKSTEP_ASSIGN_OR_RETURN(
      analysed->capture,
      formats::LoadCapture(folder.partial(), {.host = formats::HostDetail::kFrames, .overflow = &overflow}));
  LOCKSTEP_ASSIGN_OR_RETURN(analysed->fit, FitAnalysis(limit, overflow, analysed->capture, progress_));
  analysed->analysis = report::Analyze(analysed->capture,
                                       {.threads = analysed->fit.threads, .disk = analysed->fit.disk.get()});
  progress_.Clear();
  analysed->printed = PrintReport(analysed->capture, analysed->analysis,
                                  {.exit_code = output_.exit_code,
                                   .source = folder.name(),
                                   .has_traces = WritesMergedTrace(output_.formats)});
  return analysed;
}

absl::Status TraceSession::FillFolder(CaptureFolder& folder, const Analysed& analysed, ExitCode& code) {
  progress_.Show("writing traces");
  LOCKSTEP_RETURN_IF_ERROR(folder.WriteTraces(analysed.capture, analysed.analysis, output_.formats));
  LOCKSTEP_RETURN_IF_ERROR(folder.WriteProfiles());
  LOCKSTEP_RETURN_IF_ERROR(folder.WriteReports(analysed.capture, analysed.analysis));
  LOCKSTEP_RETURN_IF_ERROR(folder.Commit());
  progress_.Clear();
  if (code == ExitCode::kDone) code = analysed.printed;
  PrintMessage(absl::StrCat("wrote ", folder.name()));
  return absl::OkStatus();
}

void TraceSession::OnEvent(const v1::TraceEvent& event) {
  if (event.has_accepted()) OnAccepted(event.accepted());
  if (event.has_rank()) OnRank(event.rank());
  if (event.has_progress()) OnProgress(event.progress());
  if (event.has_finished()) finished_ = event.finished();
}

void TraceSession::OnAccepted(const v1::TraceAccepted& accepted) {
  if (!folder_.empty()) return;  // it follows the capture again
  std::vector<int32_t> ranks;
  for (const v1::Rank& rank : accepted.ranks()) ranks.push_back(rank.rank());
  OutputTokens tokens;
  tokens.host = HostName();
  tokens.pid = std::to_string(::getpid());
  std::string list = aggregator::RankList(ranks);
  std::erase(list, ' ');
  tokens.ranks = list;
  tokens.job = accepted.job();
  tokens.environment = [](const char* name) { return std::getenv(name); };
  absl::StatusOr<std::string> folder = DefaultOutputName(accepted.job(), std::time(nullptr));
  if (!output_.pattern.empty()) folder = ExpandOutputName(output_.pattern, tokens);
  refused_ = folder.ok() ? CheckOutput(*folder, output_.overwrite) : folder.status();
  {
    MutexLock lock(&mutex_);
    capture_ = accepted.capture();
  }
  if (!refused_.ok()) {
    client_.CancelTrace();
    return;
  }
  folder_ = *folder;
  progress_.Clear();
  PrintMessage(
      absl::StrCat("capture ", accepted.capture(), ": job ", accepted.job(), ", rank",
                   ranks.size() == 1 ? " " : "s ", aggregator::RankList(ranks), " of ",
                   accepted.world_size() > 0 ? accepted.world_size() : static_cast<int32_t>(ranks.size())));
  if (accepted.missing_ranks_size() > 0) {
    const std::vector<int32_t> missing(accepted.missing_ranks().begin(), accepted.missing_ranks().end());
    PrintMessage(absl::StrCat("missing: rank", missing.size() == 1 ? " " : "s ",
                              aggregator::RankList(missing), ", not registered with any daemon here"));
  }
  output_.accepted(folder_);
}

void TraceSession::OnRank(const v1::RankProgress& rank) {
  if (!refused_.ok()) return;
  RankLine& line = ranks_[{rank.host_name(), rank.state().process().pid()}];
  line.state = rank.state().state();
  // After a lost connection, the states come again.
  const bool changed = std::exchange(line.words, StateWords(rank)) != line.words;
  if (changed && (!progress_.visible() || IsNotable(rank))) {
    progress_.Clear();
    PrintMessage(absl::StrFormat("rank %d (%s, pid %d): %s", rank.rank(), rank.host_name(),
                                 rank.state().process().pid(), line.words));
  }
  ShowProgress();
}

void TraceSession::ShowProgress() {
  if (phase_.empty()) return;
  std::map<std::string, int> counts;
  for (const auto& [process, line] : ranks_) ++counts[StateName(line.state)];
  const std::string ranks = absl::StrJoin(counts, ", ", [](std::string* out, const auto& count) {
    absl::StrAppend(out, count.second, " ", count.first);
  });
  progress_.Show(absl::StrCat(phase_, ranks.empty() ? "" : "; ranks: ", ranks));
}

void TraceSession::OnProgress(const v1::TraceProgress& progress) {
  if (progress.phase() == "draining") began_ = true;
  if (progress.phase() == "analysing") OnAnalysing();
  std::string line = progress.phase();
  if (progress.waiting() > 0) {
    absl::StrAppend(&line, " for ", waits_for_, " on ", progress.waiting(),
                    progress.waiting() == 1 ? " rank" : " ranks");
    if (progress.step() > 0) absl::StrAppend(&line, ", at step ", progress.step());
  }
  if (progress.phase() == "starting" && !std::exchange(start_reported_, true)) {
    progress_.Clear();
    PrintMessage(absl::StrFormat("all ranks start together in %.1f s; PyTorch's profiler needs up to 15 s",
                                 Nanos(progress.remaining_ns()).seconds()));
  }
  // The remaining time is not shown while records are drained: their number says more.
  if (progress.remaining_ns() > 0 && progress.phase() != "draining") {
    absl::StrAppend(&line, absl::StrFormat(", %.1f s left", Nanos(progress.remaining_ns()).seconds()));
  }
  if (progress.records() > 0) absl::StrAppend(&line, ", ", progress.records(), " records");
  phase_ = line;
  ShowProgress();
}

void TraceSession::Interrupt() {
  std::string capture;
  {
    MutexLock lock(&mutex_);
    capture = capture_;
  }
  if (interrupts_++ == 0 && !capture.empty()) {
    progress_.Clear();
    PrintMessage("stopping; the captured records are kept (press again to cancel)");
    if (client_.Stop(capture).ok()) return;
  }
  client_.CancelTrace();
}

}  // namespace lockstep::cli
