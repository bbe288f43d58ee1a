// Implements `lockstep trace`: captures a running job.
#include <memory>

#include "absl/strings/str_cat.h"
#include "aggregator/nodes/clock.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/commands/detach.h"
#include "cli/commands/run_capture.h"
#include "cli/commands/trigger_flags.h"
#include "cli/common/command.h"
#include "cli/common/values.h"

namespace lockstep::cli {
namespace {

constexpr char kTraceAbout[] =
    "Capture a running job and report which rank holds the others back.\n"
    "\n"
    "Without --aggregator it captures the ranks of this node through the daemon that `lockstep run` "
    "started.\n"
    "It writes a folder with the report, a trace per rank and one of all ranks, and prints the report.\n"
    "\n"
    "Examples:\n"
    "  lockstep trace --duration 2s                            the only job there is\n"
    "  lockstep trace --job 4711 --ranks 0-7,12 --duration 500ms -o slow-%j\n"
    "  lockstep trace --aggregator head:7077 --token-file ~/.lockstep-token\n"
    "  lockstep trace --duration 10s --no-wait                 return at once; a background process writes "
    "the folder\n"
    "  lockstep trace --steps 5                                five whole training steps, the same on every "
    "rank\n"
    "  lockstep trace --start-on-step 5000 --steps 3\n"
    "  lockstep trace --start-on-range validation\n"
    "  lockstep trace --python-profile -o slow && lockstep profile slow\n"
    "Steps are NVTX ranges named \"step 17\", \"iteration 17\" or \"ProfilerStep#17\", or marked by "
    "lockstep.h.\n"
    "PyTorch's own profiler counts optimizer steps instead, and several ranks begin at a multiple of 100.\n"
    "\n"
    "Exit codes: 0 done, 1 failed, 2 usage, 3 with --exit-code: a straggler, 4 no such job, 5 denied, 6 "
    "timed out,\n"
    "7 the capture is not whole.\n";

struct TraceFlags {
  CaptureFlags capture;
  WindowFlags window;
  std::string start_at, activities = kAllActivities, via = "auto", arm_timeout = "10s";
  bool all = false, no_wait = false, python_profile = false;
};

absl::StatusOr<v1::TraceRequest> MakeRequest(const TraceFlags& flags) {
  v1::TraceRequest request;
  LOCKSTEP_RETURN_IF_ERROR(SetRanks(flags.capture, request));
  request.set_all(flags.all);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<v1::Trigger> trigger, ParseTrigger(flags.window));
  if (trigger) *request.mutable_trigger() = *trigger;
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos duration, ParseWindowLength(flags.window.duration));
  request.set_duration_ns(duration.ns());
  LOCKSTEP_ASSIGN_OR_RETURN(const Nanos arm_timeout,
                            settings::ParseDuration(flags.arm_timeout, settings::kFlagDuration));
  request.set_arm_timeout_ns(arm_timeout.ns());
  LOCKSTEP_ASSIGN_OR_RETURN(const RequestedActivities activities, ParseActivities(flags.activities));
  request.set_activities(trigger ? WithTrigger(activities.recorded, *trigger) : activities.recorded);
  if (flags.python_profile)
    request.set_activities(request.activities() | v1::RECORDED_ACTIVITY_PYTHON_PROFILE);
  request.set_framework(activities.framework);
  request.set_via(flags.via);
  if (flags.via == "cupti" && activities.framework != 0) {
    return absl::InvalidArgumentError(
        "--via cupti cannot record cpu_op, python, modules and shapes, which only PyTorch records: use --via "
        "auto");
  }
  if (!flags.start_at.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const JobTime start,
                              ParseStartAt(flags.start_at, aggregator::SystemJobClock().Now()));
    request.set_start_at_unix_ns(start.ns());
  }
  return request;
}

ExitCode Trace(const TraceFlags& flags) {
  auto request = MakeRequest(flags);
  if (!request.ok()) return Fail(request.status());
  auto output = OutputOf(flags.capture);
  if (!output.ok()) return Fail(output.status());
  if (!flags.no_wait) return RunCapture(flags.capture, *request, *std::move(output));
  return Detach([&](const std::function<void(const std::string&)>& started) {
    output->accepted = started;
    return RunCapture(flags.capture, *request, *output);
  });
}

void AddWindow(CLI::App& sub, TraceFlags& flags) {
  WindowFlags& window = flags.window;
  auto* duration =
      sub.add_option("--duration", window.duration, "Length of the window, as in 2s or 500ms [2s]");
  auto* steps =
      sub.add_option("--steps", window.steps, "Number of training steps instead, the same ones on all ranks");
  duration->excludes(steps);
  sub.add_option("--start-at", flags.start_at,
                 "Earliest start: +500ms, or a time as in 2026-03-01T12:00:00Z");
  auto* step = sub.add_option("--start-on-step", window.start_on_step,
                              "Begin when each rank starts this training step");
  auto* range = sub.add_option("--start-on-range", window.start_on_range,
                               "Begin with the next NVTX range of this name (or NAME@DOMAIN), and end with "
                               "it without --duration and --steps");
  auto* profiler =
      sub.add_flag("--start-on-profiler-api", window.start_on_profiler_api,
                   "Begin at cudaProfilerStart or lockstep_profiler_start, and end at the stop call");
  step->excludes(range)->excludes(profiler);
  range->excludes(profiler);
  sub.add_option("--trigger-timeout", window.timeout, "Timeout for the begin, and then for the end")
      ->capture_default_str();
}

}  // namespace

void AddTrace(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "trace", kTraceAbout);
  auto flags = std::make_shared<TraceFlags>();
  const JobOptions named = AddRankFlags(*sub, flags->capture, ", required if there are several jobs");
  sub->add_flag("--all", flags->all, "All registered ranks")->excludes(named.job)->excludes(named.pid);
  AddWindow(*sub, *flags);
  sub->add_option(
         "--activities", flags->activities,
         "Activities to record; on request also memory, nccl-channels (GPU time in each channel of a "
         "collective), nccl-proxy (waits of network operations), and in PyTorch jobs cpu_op, python, modules "
         "and shapes")
      ->type_name(ListOf(ActivityNames()))
      ->capture_default_str();
  sub->add_flag(
      "--python-profile", flags->python_profile,
      "Also profile the main thread of each rank's Python during the capture into "
      "profiles/rank_N.cprofile, for `lockstep profile`, pstats and snakeviz; it slows Python code");
  sub->add_option("--via", flags->via,
                  "cupti: by Lockstep's client; kineto: by PyTorch's own profiler, in jobs with "
                  "KINETO_USE_DAEMON, which needs up to 15 s to "
                  "start; auto: kineto if no client is loaded, only PyTorch records the activities, or "
                  "another tool holds CUPTI")
      ->check(CLI::IsMember({"auto", "cupti", "kineto"}))
      ->capture_default_str();
  sub->add_option("--arm-timeout", flags->arm_timeout,
                  "Timeout for ranks to arm; the others start without them")
      ->capture_default_str();
  sub->add_flag("--no-wait", flags->no_wait, "Return once the capture runs; a background process writes it");
  AddOutputFlags(*sub, flags->capture);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Trace(*flags); }; });
}

}  // namespace lockstep::cli
