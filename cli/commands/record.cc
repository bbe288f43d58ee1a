// `lockstep record`: captures of what ranks did before now, from the logs that they keep and from windows of
// their GPUs.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/log/clean_text.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/commands/run_capture.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/command.h"
#include "cli/common/values.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

constexpr char kRecordAbout[] =
    "Know what a job did before now.\n"
    "\n"
    "Each rank under `lockstep run --mode nccl` keeps a log of its latest NCCL operations. The log costs 0.1 "
    "us\n"
    "per operation. `dump` makes a capture of it, also after the job's end: a folder like that of `lockstep\n"
    "trace`, with the operations and steps, and without other kernels and calls. So the report names the "
    "late\n"
    "rank, and not what its GPU or host did instead.\n"
    "\n"
    "`on` lets a permanent aggregator also capture the GPUs of a running job for a short time, again and "
    "again,\n"
    "and keep the last captures. It ends with `off`, with the job, or with the aggregator.\n"
    "\n"
    "Examples:\n"
    "  lockstep record dump                          the last 30 s of the job on this node\n"
    "  lockstep record dump --job 4711 --last 2m --aggregator head:7077 --token-file ~/.lockstep-token\n"
    "  lockstep record dump --job train --ended      the ended ranks of a job that was restarted\n"
    "  lockstep record on --job 4711 --gpu 1s/60s --keep 30 --aggregator head:7077 --token-file F\n"
    "  lockstep record status --aggregator head:7077 --token-file F\n"
    "\n"
    "Exit codes: those of lockstep trace.\n";

struct DumpFlags {
  CaptureFlags capture;
  std::string last = "30s";
  bool ended = false;
};

absl::StatusOr<v1::TraceRequest> MakeRequest(const DumpFlags& flags) {
  v1::TraceRequest request;
  LOCKSTEP_RETURN_IF_ERROR(SetRanks(flags.capture, request));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos last, settings::ParseDuration(flags.last, settings::kFlagDuration));
  if (last <= Nanos()) return absl::InvalidArgumentError("--last must be positive, as in --last 30s");
  request.set_past_ns(last.ns());
  request.set_departed(flags.ended);
  return request;
}

ExitCode Dump(const DumpFlags& flags) {
  const auto request = MakeRequest(flags);
  if (!request.ok()) return Fail(request.status());
  auto output = OutputOf(flags.capture);
  if (!output.ok()) return Fail(output.status());
  return RunCapture(flags.capture, *request, *std::move(output));
}

struct RecordFlags {
  std::string job, gpu = "1s/60s";
  uint32_t keep = 30;
  AggregatorFlags aggregator;
};

// Parses "1s/60s": the length of a window, and the time from begin to begin.
absl::Status SetWindows(const std::string& text, v1::RecordRequest& request) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  if (parts.size() != 2)
    return absl::InvalidArgumentError(absl::StrCat("--gpu ", text, " is not WINDOW/PERIOD, as in 1s/60s"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos window, settings::ParseDuration(parts[0], settings::kFlagDuration));
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos period, settings::ParseDuration(parts[1], settings::kFlagDuration));
  if (window <= Nanos() || period <= Nanos())
    return absl::InvalidArgumentError(absl::StrCat("--gpu ", text, ": both must be positive, as in 1s/60s"));
  request.set_window_ns(window.ns());
  request.set_period_ns(period.ns());
  return absl::OkStatus();
}

std::string RecordingText(const v1::JobRecording& r) {
  return absl::StrFormat(
      "job %s (uid %u): %s of the GPUs' time each %s (%.1f %%), the last %u captures are kept", r.job(),
      r.uid(), FormatDuration(Nanos(r.window_ns())), FormatDuration(Nanos(r.period_ns())),
      100.0 * static_cast<double>(r.window_ns()) / static_cast<double>(r.period_ns()), r.keep());
}

absl::StatusOr<std::unique_ptr<AggregatorClient>> Connect(const RecordFlags& flags) {
  if (!flags.aggregator.given())
    return absl::InvalidArgumentError(
        "a permanent aggregator records: give --aggregator HOST:PORT, or set LOCKSTEP_AGGREGATOR");
  rpc::PrepareProcess();
  return ConnectAggregator(flags.aggregator);
}

absl::StatusOr<std::unique_ptr<v1::JobRecording>> Ask(const RecordFlags& flags,
                                                      const v1::RecordRequest& request) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<AggregatorClient> client, Connect(flags));
  auto recording = client->Record(request);
  if (!absl::IsUnimplemented(recording.status())) return recording;
  return absl::UnimplementedError("the aggregator is of an older release, which does not record: update it");
}

ExitCode On(const RecordFlags& flags) {
  v1::RecordRequest request;
  request.set_job(flags.job);
  request.set_keep(flags.keep);
  if (const absl::Status wrong = SetWindows(flags.gpu, request); !wrong.ok()) return Fail(wrong);
  const auto recording = Ask(flags, request);
  if (!recording.ok()) return Fail(recording.status());
  std::printf("%s\n", CleanText(RecordingText(**recording)).c_str());
  return ExitCode::kDone;
}

ExitCode Off(const RecordFlags& flags) {
  v1::RecordRequest request;
  request.set_job(flags.job);
  const auto recording = Ask(flags, request);
  if (!recording.ok()) return Fail(recording.status());
  std::printf("job %s is not recorded any more; its %d captures stay until their turn comes\n",
              CleanText((*recording)->job()).c_str(), (*recording)->captures_size());
  return ExitCode::kDone;
}

ExitCode ShowRecordings(const RecordFlags& flags) {
  const auto client = Connect(flags);
  if (!client.ok()) return Fail(client.status());
  const auto status = (*client)->Status(flags.job);
  if (!status.ok()) return Fail(status.status());
  std::string text;
  for (const v1::JobRecording& r : (*status)->recordings()) {
    absl::StrAppend(&text, RecordingText(r), "\n  ", r.windows(), " windows were made, ", r.failed(),
                    " of them without a capture",
                    r.problem().empty() ? "" : absl::StrCat("; the last one: ", r.problem()), "\n");
    if (!r.captures().empty())
      absl::StrAppend(&text, "  captures ", r.captures(0), " to ", *r.captures().rbegin(), "\n");
  }
  if (text.empty()) text = "no job is recorded\n";
  std::fputs(CleanLines(text).c_str(), stdout);
  return ExitCode::kDone;
}

// Adds a subcommand with flags of its own: the environment would otherwise replace a flag of another one.
std::shared_ptr<RecordFlags> AddWindowCommand(CLI::App& record, const char* name, const char* help,
                                              ExitCode (*run)(const RecordFlags&), Chosen& chosen) {
  auto flags = std::make_shared<RecordFlags>();
  CLI::App* sub = record.add_subcommand(name, help);
  sub->add_option("--job", flags->job, "The job; not needed if there is only one")->type_name(kJobValue);
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, run, &chosen] { chosen.action = [flags, run] { return run(*flags); }; });
  return flags;
}

}  // namespace

void AddRecord(CLI::App& app, Chosen& chosen) {
  CLI::App* record = AddCommand(app, "record", kRecordAbout);
  auto flags = std::make_shared<DumpFlags>();
  CLI::App* dump = record->add_subcommand("dump", "Write the last operations of a job's ranks as a capture");
  AddRankFlags(*dump, flags->capture, "; without it, the job that runs, or else the one that ended last");
  dump->add_option("--last", flags->last,
                   "How much of the past, at most 1h; a log holds a rank's last 32,768 operations")
      ->capture_default_str();
  dump->add_flag("--ended", flags->ended, "Only ranks that have ended, even if new ones have their places");
  AddOutputFlags(*dump, flags->capture);
  dump->callback([flags, &chosen] { chosen.action = [flags] { return Dump(*flags); }; });
  const auto on =
      AddWindowCommand(*record, "on", "Capture a running job for a short time, again and again", &On, chosen);
  CLI::App* sub = record->get_subcommand("on");
  sub->add_option("--gpu", on->gpu,
                  "WINDOW/PERIOD: the length of a capture, and the time from one to the next. A window has "
                  "100ms to 10s, and at most a tenth of the period")
      ->capture_default_str();
  sub->add_option("--keep", on->keep, "Number of captures to keep; the oldest are removed first")
      ->check(CLI::Range(1u, 1000u, "NUMBER"))
      ->capture_default_str();
  AddWindowCommand(*record, "off", "End it", &Off, chosen);
  AddWindowCommand(*record, "status", "Show the jobs that are recorded, and their captures", &ShowRecordings,
                   chosen);
  record->require_subcommand(1);
}

}  // namespace lockstep::cli
