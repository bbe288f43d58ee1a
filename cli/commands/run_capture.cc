#include "cli/commands/run_capture.h"

#include <pthread.h>

#include <csignal>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "cli/commands/memory_limit.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "cli/common/values.h"

namespace lockstep::cli {
namespace {

// SIGINT and SIGTERM end the capture, not this process. Create this object before any other thread starts,
// because the signals must be blocked in all threads.
class Interruptions {
 public:
  Interruptions() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void Watch(TraceSession& session) {
    thread_ = std::jthread([this, &session](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const timespec wait = {0, 50'000'000};
        if (::sigtimedwait(&set_, nullptr, &wait) > 0) session.Interrupt();
      }
    });
  }
  void Unwatch() { thread_ = {}; }

 private:
  sigset_t set_;
  std::jthread thread_;
};

}  // namespace

JobOptions AddRankFlags(CLI::App& sub, CaptureFlags& flags, const std::string& job_help) {
  JobOptions options{};
  options.job =
      sub.add_option("--job", flags.job,
                     absl::StrCat("The job's id", job_help, "; UID:ID if two users have the same id"))
          ->type_name(kJobValue);
  options.pid = sub.add_option("--pid", flags.pids, "The GPU processes with these pids");
  options.job->excludes(options.pid);
  sub.add_option("--ranks", flags.ranks, "Only these ranks, as in 0-7,12");
  return options;
}

void AddOutputFlags(CLI::App& sub, CaptureFlags& flags) {
  sub.add_option(
         "-o,--output", flags.output,
         "The folder to write; %h host, %p pid, %r ranks, %j job, %q{ENV}; default: ./lockstep-JOB-TIME")
      ->type_name(kFolderValue);
  sub.add_flag("--force", flags.force, "Replace an existing capture of this name");
  std::vector<std::string> formats = FormatNames();
  formats.emplace_back("none");
  sub.add_option("--formats", flags.formats, "Traces to write, with commas")
      ->type_name(ListOf(formats))
      ->capture_default_str();
  sub.add_flag("--exit-code", flags.exit_code,
               "Exit with code 3 if there is a straggler with verdict sure or likely");
  AddMemoryFlag(sub, flags.memory_bytes);
  sub.add_option("--daemon", flags.daemon, "Client socket of the daemon")->type_name(kSocketValue);
  AddAggregatorFlags(sub, flags.aggregator);
}

absl::Status SetRanks(const CaptureFlags& flags, v1::TraceRequest& request) {
  request.set_job(flags.job);
  for (const int32_t pid : flags.pids) request.add_pids(pid);
  if (flags.ranks.empty()) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int32_t> ranks, ParseRanks(flags.ranks));
  for (const int32_t rank : ranks) request.add_ranks(rank);
  return absl::OkStatus();
}

absl::StatusOr<TraceOutput> OutputOf(const CaptureFlags& flags) {
  TraceOutput output;
  output.pattern = flags.output;
  output.overwrite = flags.force ? Overwrite::kForce : Overwrite::kNever;
  LOCKSTEP_ASSIGN_OR_RETURN(output.formats, ParseFormats(flags.formats));
  output.exit_code = flags.exit_code;
  output.memory_bytes = MemoryLimitOf(flags.memory_bytes);
  // Checked before the capture if no token in the name depends on the job.
  if (flags.output.find('%') == std::string::npos && !flags.output.empty())
    LOCKSTEP_RETURN_IF_ERROR(CheckOutput(flags.output, output.overwrite));
  return output;
}

ExitCode RunCapture(const CaptureFlags& flags, const v1::TraceRequest& request, TraceOutput output) {
  Interruptions interruptions;
  rpc::PrepareProcess();
  std::unique_ptr<LocalAggregator> local;
  std::unique_ptr<AggregatorClient> remote;
  AggregatorClient* client = nullptr;
  if (flags.aggregator.given()) {
    auto connected = ConnectAggregator(flags.aggregator);
    if (!connected.ok()) return Fail(connected.status());
    remote = *std::move(connected);
    client = remote.get();
  } else {
    auto daemon = DaemonFinder(flags.daemon).Find();
    if (!daemon.ok()) return Fail(daemon.status());
    auto started = StartLocalAggregator(daemon->control_socket);
    if (!started.ok()) return Fail(started.status());
    local = *std::move(started);
    client = &local->client();
  }
  TraceSession session(*client, std::move(output));
  interruptions.Watch(session);
  const ExitCode code = session.Run(request);
  interruptions.Unwatch();
  return code;
}

}  // namespace lockstep::cli
