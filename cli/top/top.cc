// Implements `lockstep top`: shows live which rank slows a running job down.
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/rpc/channel.h"
#include "base/rpc/status_macros.h"
#include "base/settings/duration.h"
#include "cli/common/aggregator_client.h"
#include "cli/common/command.h"
#include "cli/common/daemon_socket.h"
#include "cli/common/values.h"
#include "cli/top/top_feed.h"
#include "cli/top/top_model.h"
#include "cli/top/top_program.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

constexpr char kAbout[] =
    "Watch a running job: step length, the rank that holds the others back and the cause, wait and overlap "
    "of each rank.\n"
    "\n"
    "It captures the job for a short sample (--window) at intervals (--every), and nothing in between. Each\n"
    "sample is analysed like a capture and then deleted. The last line shows the sampled share of the time\n"
    "and the lost records. Several viewers of a job share the samples. A `lockstep trace` has priority: top\n"
    "pauses and reports this while it runs.\n"
    "On a terminal: q quits, s sorts, p pauses sampling, arrows scroll, ? helps. Otherwise, and with --once "
    "or\n"
    "--count, it prints one text per sample.\n"
    "\n"
    "Examples:\n"
    "  lockstep top                                            the only job there is\n"
    "  lockstep top --job 4711 --every 10s --window 500ms      a twentieth of the time\n"
    "  lockstep top --once                                     one sample, for a script or a mail\n"
    "  lockstep top --aggregator head:7077 --token-file ~/.lockstep-token\n"
    "  lockstep top --format json | jq '[.step_ns, .stragglers[0].ranks]'\n"
    "\n"
    "Exit codes: 0 the job ended, or --once or --count is complete; 1 failed, 2 usage, 4 no such job, 5 "
    "denied.\n";

struct Flags {
  std::string job, daemon, every = "5s", window = "1s", format = "text",
                           sort = TopSortName(TopSort::kAboveTypical);
  uint64_t count = 0;
  uint32_t rows = 10;
  bool once = false;
  AggregatorFlags aggregator;
};

// Joins the aggregator of another `lockstep top` of this user if one is sampling, else starts one in this
// process.
absl::StatusOr<TopSource> ConnectHere(const Flags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DaemonPlace daemon, DaemonFinder(flags.daemon).Find());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<v1::StatusReply> status,
                            DaemonStatus(daemon.control_socket, ""));
  TopSource source;
  for (const v1::DaemonStatus& node : status->daemons()) {
    for (const std::string& address : node.shared_aggregators()) {
      auto joined = ConnectAggregator({address, ""});
      if (!joined.ok()) continue;
      source.remote = *std::move(joined);
      source.client = source.remote.get();
      return source;
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(source.local, StartLocalAggregator(daemon.control_socket, Sharing::kShared));
  source.client = &source.local->client();
  return source;
}

absl::StatusOr<TopSource> ConnectSource(const Flags& flags) {
  if (!flags.aggregator.given()) return ConnectHere(flags);
  TopSource source;
  LOCKSTEP_ASSIGN_OR_RETURN(source.remote, ConnectAggregator(flags.aggregator));
  source.client = source.remote.get();
  return source;
}

ExitCode Top(const Flags& flags) {
  const absl::StatusOr<Nanos> every = settings::ParseDuration(flags.every, settings::kFlagDuration);
  if (!every.ok()) return Fail(every.status());
  const absl::StatusOr<Nanos> window = settings::ParseDuration(flags.window, settings::kFlagDuration);
  if (!window.ok()) return Fail(window.status());
  v1::WatchRequest request;
  request.set_job(flags.job);
  request.set_every_ns(every->ns());
  request.set_window_ns(window->ns());
  TopOptions options;
  options.count = flags.once ? 1 : flags.count;
  options.rows = flags.rows;
  options.sort = *ParseTopSort(flags.sort);
  const bool terminal = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
  if (flags.format == "json") {
    options.form = TopForm::kJson;
  } else if (terminal && options.count == 0) {
    options.form = TopForm::kScreen;
  }
  // Created before the first thread.
  TopSignals signals;
  rpc::PrepareProcess();
  TopFeed feed([&flags] { return ConnectSource(flags); }, request);
  return TopProgram(feed, signals, options).Run();
}

}  // namespace

void AddTop(CLI::App& app, Chosen& chosen) {
  CLI::App* sub = AddCommand(app, "top", kAbout);
  auto flags = std::make_shared<Flags>();
  sub->add_option("--job", flags->job,
                  "The job's id, required if there are several jobs; UID:ID if two users have the same id")
      ->type_name(kJobValue);
  sub->add_option("--every", flags->every,
                  "Interval between samples, 1s to 1h; several viewers share the shortest")
      ->capture_default_str();
  sub->add_option("--window", flags->window,
                  "Length of a sample, 20ms to 10s and at most half of --every; if too few steps fit, "
                  "samples become longer and less frequent")
      ->capture_default_str();
  auto* once = sub->add_flag("--once", flags->once, "Show one sample as text, and exit");
  sub->add_option("--count", flags->count, "Show this number of samples as text, and exit")
      ->check(CLI::PositiveNumber)
      ->excludes(once);
  std::vector<std::string> sorts;
  for (size_t i = 0; i < kTopSorts; ++i) sorts.emplace_back(TopSortName(static_cast<TopSort>(i)));
  sub->add_option("--sort-by", flags->sort, "Sort column of the table of ranks, worst first")
      ->check(CLI::IsMember(sorts))
      ->capture_default_str();
  sub->add_option("--rows", flags->rows, "Number of ranks in text output")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  sub->add_option("--format", flags->format,
                  "text, or json with one object per line and sample (docs/formats/top.md)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  sub->add_option("--daemon", flags->daemon, "Client socket of the daemon")->type_name(kSocketValue);
  AddAggregatorFlags(*sub, flags->aggregator);
  sub->callback([flags, &chosen] { chosen.action = [flags] { return Top(*flags); }; });
}

}  // namespace lockstep::cli
