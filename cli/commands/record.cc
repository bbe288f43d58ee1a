// `lockstep record`: captures of what ranks did before now, from the logs that they keep.
#include <memory>
#include <string>
#include <utility>

#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/commands/run_capture.h"
#include "cli/common/command.h"

namespace lockstep::cli {
namespace {

constexpr char kRecordAbout[] =
    "Capture what a job did before now: each rank keeps a log of its latest NCCL operations.\n"
    "\n"
    "The ranks must have been started with `lockstep run --mode nccl`. The log costs 0.1 us per operation,\n"
    "and nothing reads it before a dump. It outlives its rank, so a job that has ended can be dumped too.\n"
    "`dump` writes a folder like `lockstep trace`, with the report, a trace per rank and one of all ranks.\n"
    "It has the operations with their times on the GPU, and the steps. It has no other kernels and no\n"
    "calls, so the report names the late rank, and not what its GPU or host did instead.\n"
    "\n"
    "Examples:\n"
    "  lockstep record dump                          the last 30 s of the job on this node\n"
    "  lockstep record dump --job 4711 --last 2m --aggregator head:7077 --token-file ~/.lockstep-token\n"
    "  lockstep record dump --job train --ended      the ended ranks of a job that was restarted\n"
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
  record->require_subcommand(1);
}

}  // namespace lockstep::cli
