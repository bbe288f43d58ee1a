// Implements `lockstep hang`: explains why a job does not move.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aggregator/notice/hang_examination.h"
#include "analysis/hang/hang_text.h"
#include "base/log/clean_text.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "cli/hang/hang_output.h"
#include "formats/flight_recorder/flight_recorder.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::cli {
namespace {

using aggregator::ExplainedJobs;
using analysis::HangExplanation;

constexpr char kAbout[] =
    "Explain why a job does not move: which rank never entered which collective, and what it does instead.\n"
    "\n"
    "It needs ranks that keep their progress: start them with `lockstep run --mode nccl`, which costs "
    "little\n"
    "enough to stay on. It reads the progress once, also of ranks that are stopped or have ended, and "
    "exits.\n"
    "An operation that some rank entered at least --after ago, and that has not ended, is a hang. With\n"
    "WAITING, the missing rank computes, so the wait may end by itself.\n"
    "\n"
    "NCCL's RAS (2.24 and later) is a second source. It confirms or contradicts a hang. Of ranks without\n"
    "progress it shows which ones have called fewer collectives; it is then read again --after later, "
    "because\n"
    "it knows no times.\n"
    "\n"
    "Examples:\n"
    "  lockstep hang                                                      this node's ranks, now\n"
    "  lockstep hang --aggregator head:7077 --token-file ~/.lockstep-token   all nodes\n"
    "  lockstep hang --watch --after 2min                                 wait for a hang\n"
    "  lockstep hang --from dumps/                 what PyTorch's Flight Recorder has written\n"
    "  lockstep hang --format json | jq '.jobs[].findings[].sentence'\n"
    "\n"
    "Exit codes: 0 no hang, or --watch and the job has ended; 3 a hang; 1 failed, 2 usage, 4 no such job, 5 "
    "denied.\n";

constexpr Nanos kShortestPause = Nanos::Seconds(1), kLongestPause = Nanos::Seconds(10);

struct Flags {
  std::string job, daemon, after = "60s", format = "text";
  std::string from;  // folder of dumps; empty: a running job
  bool watch = false;
  std::string stacks = "all";
  AggregatorFlags aggregator;
};

void Sleep(Nanos time) { std::this_thread::sleep_for(std::chrono::nanoseconds(time.ns())); }

// The source of looks: an aggregator, or this node's daemon.
class Source {
 public:
  static absl::StatusOr<Source> Open(const Flags& flags) {
    Source source;
    if (flags.aggregator.given()) {
      LOCKSTEP_ASSIGN_OR_RETURN(source.aggregator_, ConnectAggregator(flags.aggregator));
      return source;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const DaemonPlace daemon, DaemonFinder(flags.daemon).Find());
    source.control_socket_ = daemon.control_socket;
    return source;
  }

  absl::StatusOr<std::unique_ptr<v1::ProgressReply>> Look(const v1::ProgressRequest& request) {
    auto reply =
        aggregator_ != nullptr ? aggregator_->Progress(request) : DaemonProgress(control_socket_, request);
    if (!absl::IsUnimplemented(reply.status())) return reply;
    return absl::UnimplementedError(
        absl::StrCat("the ", aggregator_ != nullptr ? "aggregator" : "daemon",
                     " is of an older release, which does not know this command: update it"));
  }

 private:
  std::unique_ptr<AggregatorClient> aggregator_;
  std::string control_socket_;
};

using Ras = aggregator::HangExamination::Ras;

absl::StatusOr<ExplainedJobs> Explain(Source& source, const Flags& flags, Nanos after, Ras ras) {
  using Stacks = aggregator::HangExamination::Stacks;
  aggregator::HangExamination examination;
  examination.job = flags.job;
  examination.after = after;
  examination.ras = ras;
  if (flags.stacks != "all") examination.stacks = flags.stacks == "python" ? Stacks::kPython : Stacks::kNone;
  examination.look = [&](const v1::ProgressRequest& request) { return source.Look(request); };
  examination.sleep = [&](Nanos time) {
    if (time > examination.between_looks) {
      PrintMessage(absl::StrCat("NCCL's RAS shows members behind others: it is read again in ",
                                analysis::AgeText(time), " (--after), to see if they move"));
    }
    Sleep(time);
  };
  return aggregator::ExplainRunningJobs(examination);
}

void Print(const ExplainedJobs& explained, const Flags& flags, Nanos after) {
  if (!explained.silent_hosts.empty()) {
    PrintMessage(
        absl::StrCat("no answer from ", absl::StrJoin(explained.silent_hosts, ", "),
                     ": ranks there are missing below; the daemon is of an older release, or hangs"));
  }
  const std::string text = flags.format == "json" ? HangJson(explained.jobs, explained.silent_hosts, after)
                                                  : CleanLines(HangText(explained.jobs));
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

ExitCode NothingToSee(const ExplainedJobs& explained, const Flags& flags) {
  if (explained.jobs.empty()) {
    return Fail(ExitCode::kNotFound, flags.job.empty()
                                         ? "no job has registered: start it with `lockstep run --mode nccl`"
                                         : absl::StrCat("job ", flags.job,
                                                        " has no living ranks here; "
                                                        "`lockstep status` lists all jobs"));
  }
  std::string text =
      "no rank keeps its progress: start the job with `lockstep run --mode nccl`, or wait until it has "
      "made its first communicator";
  for (const aggregator::ExplainedJob& job : explained.jobs) {
    if (job.ras)
      absl::StrAppend(&text, "; NCCL's RAS of job ", job.job, " is not reachable: ", job.ras->problem);
  }
  return Fail(ExitCode::kFailed, text);
}

ExitCode Once(Source& source, const Flags& flags, Nanos after) {
  const absl::StatusOr<ExplainedJobs> explained = Explain(source, flags, after, Ras::kAlsoWithoutProgress);
  if (!explained.ok()) return Fail(explained.status());
  if (explained->SawNoRank()) return NothingToSee(*explained, flags);
  Print(*explained, flags, after);
  return explained->Any(HangExplanation::Verdict::kHang) ? ExitCode::kHang : ExitCode::kDone;
}

ExitCode Watch(Source& source, const Flags& flags, Nanos after) {
  const Nanos pause = std::clamp(Nanos(after.ns() / 6), kShortestPause, kLongestPause);
  bool seen = false;
  bool waiting = false;
  while (true) {
    const absl::StatusOr<ExplainedJobs> explained = Explain(source, flags, after, Ras::kOfHangs);
    if (!explained.ok()) return Fail(explained.status());
    if (explained->Any(HangExplanation::Verdict::kHang)) {
      Print(*explained, flags, after);
      return ExitCode::kHang;
    }
    if (explained->jobs.empty() && seen) return ExitCode::kDone;
    if (explained->jobs.empty()) return NothingToSee(*explained, flags);
    seen = true;
    const bool waits = explained->Any(HangExplanation::Verdict::kWaiting);
    if (waits && !std::exchange(waiting, waits)) Print(*explained, flags, after);
    waiting = waits;
    Sleep(pause);
  }
}

// A dump was written because the job hung, so the length of a wait does not matter.
ExitCode FromDumps(const Flags& flags) {
  const absl::StatusOr<analysis::HangJob> job = formats::ReadFlightRecorder(flags.from);
  if (!job.ok()) return Fail(ExitCode::kUsage, std::string(job.status().message()));
  ExplainedJobs explained;
  explained.jobs.push_back({job->job, job->world_size, analysis::ExplainHang(*job, Nanos())});
  Print(explained, flags, Nanos());
  return explained.Any(HangExplanation::Verdict::kHang) ? ExitCode::kHang : ExitCode::kDone;
}

ExitCode Hang(const Flags& flags) {
  if (!flags.from.empty()) return FromDumps(flags);
  const absl::StatusOr<Nanos> after = settings::ParseDuration(flags.after, settings::kFlagDuration);
  if (!after.ok()) return Fail(after.status());
  rpc::PrepareProcess();
  absl::StatusOr<Source> source = Source::Open(flags);
  if (!source.ok()) return Fail(source.status());
  return flags.watch ? Watch(*source, flags, *after) : Once(*source, flags, *after);
}

}  // namespace

void AddHang(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "hang", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("--job", flags->job, "Only this job")->type_name(kJobValue);
  sub->add_option("--after", flags->after, "How long an operation may take before it counts as a hang")
      ->capture_default_str();
  CLI::Option* watch = sub->add_flag("--watch", flags->watch, "Wait until the job hangs or has ended");
  sub->add_option("--from", flags->from,
                  "Explain dumps of PyTorch's Flight Recorder instead: a folder with one file per rank")
      ->type_name(kFolderValue)
      ->excludes(watch);
  sub->add_option(
         "--stacks", flags->stacks,
         "Stacks of late ranks: all; python, which stops no thread; or none. For a native stack, each "
         "thread of the rank is stopped for less than a millisecond")
      ->check(CLI::IsMember({"all", "python", "none"}))
      ->capture_default_str();
  sub->add_option("--format", flags->format, "text, or json (docs/formats/hang.md)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub->add_option("--daemon", flags->daemon, "Client socket of the daemon")->type_name(kSocketValue);
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Hang(*flags); }; });
}

}  // namespace lockstep::cli
