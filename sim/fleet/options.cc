#include "sim/fleet/options.h"

#include <arpa/inet.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/rpc/address.h"
#include "base/settings/duration.h"

namespace lockstep::sim {
namespace {

constexpr uint32_t kMostDaemons = 4096;
constexpr uint32_t kMostRanks = 16384;
constexpr uint32_t kMostRowsOfRank = 1'000'000;
// The encoded rows of a capture stay in memory until they are acknowledged: some 6 bytes per row.
constexpr uint64_t kMostRows = 20'000'000;
constexpr uint32_t kLeastRows = 300;

constexpr char kFleetAbout[] =
    "Many daemons of one simulated job, in one process: a load for an aggregator.\n\n"
    "  lockstep-aggregator --listen unix:/tmp/fleet/a.sock --state-dir /tmp/fleet/state &\n"
    "  lockstep-sim-fleet --aggregator unix:/tmp/fleet/a.sock --daemons 64 --slow-rank 5 &\n"
    "  lockstep trace --aggregator unix:/tmp/fleet/a.sock --duration 1s      the report names rank 5\n\n"
    "Each daemon has a connection and a stream of its own, as lockstepd has. It registers its ranks, "
    "exchanges "
    "clocks, arms at once, and sends the columns of its ranks when the window has ended. No rank runs: the "
    "rows "
    "are computed in virtual time when a capture starts, to fit its window. Their steps have kernels, the "
    "calls "
    "that launch them, and all-reduces over all ranks.";

constexpr char kFleetFooter[] =
    "Output: a line of JSON when all daemons are registered, and one per capture. The times of a capture are "
    "CLOCK_REALTIME in ns: first and last daemon that got the arm, sent that it is armed, got the start, "
    "sent a "
    "batch; the last acknowledgement; t0_ns and t1_ns of the window.\n"
    "Exit codes: 0 done, 1 the aggregator refused a daemon or ended, 2 usage.";

void AddJob(CLI::App& app, FleetOptions* o) {
  app.add_option("--daemons", o->daemons, "number of daemons, each the only one of its node")
      ->check(CLI::Range(1u, kMostDaemons))
      ->capture_default_str();
  app.add_option("--ranks-per-daemon", o->ranks_per_daemon, "number of ranks on each node")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app.add_option(
         "--rows", o->rows,
         "rows of each rank in a capture, in whole steps of 99 rows; a short window has fewer, because a "
         "step takes 0.4 ms or more")
      ->check(CLI::Range(kLeastRows, kMostRowsOfRank))
      ->capture_default_str();
  app.add_option("--job", o->job, "name of the job")->capture_default_str();
  app.add_option("--slow-rank", o->slow_rank, "rank whose kernels are slower; default: none");
  app.add_option("--slow-by", o->slow_by_percent, "how much longer its kernels take, in percent")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  app.add_option("--leave", o->leaver,
                 "daemon, from 0, that breaks its stream in the middle of its first window and stays away");
}

void AddLoad(CLI::App& app, FleetOptions* o, std::string* clock_pause) {
  app.add_option(
         "--clock-burst", o->clock_burst,
         "clock exchanges of a daemon when it registers and when a capture begins; lockstepd makes 20")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  app.add_option(
         "--clock-pause", *clock_pause,
         "time between clock exchanges in a capture; lockstepd waits 50ms. Thousands of exchanges per "
         "second need a core of their own")
      ->capture_default_str();
  app.add_option("--threads", o->threads, "threads that serve all daemons, besides those of gRPC")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  app.add_option("--captures", o->captures, "end after this number of captures; 0: at SIGINT or SIGTERM")
      ->capture_default_str();
  app.add_flag("--measure-decode", o->measure_decode,
               "decode all blocks before they are sent, and add the processor time to the capture's line: a "
               "lower limit for every reader");
  app.add_option(
         "--bare-server", o->bare_rounds,
         "be the other side instead: listen at --aggregator, wait for --daemons streams, send each an arm, "
         "wait for all answers, and do so ROUNDS times. The line of JSON has the times: a lower limit for "
         "an aggregator")
      ->check(CLI::Range(1u, 100'000u))
      ->type_name("ROUNDS");
}

bool IsLoopback(const rpc::Address& address) {
  in_addr v4{};
  const bool is_v4 = ::inet_pton(AF_INET, address.host().c_str(), &v4) == 1;
  return address.is_unix() || address.host() == "localhost" || address.host() == "::1" ||
         (is_v4 && absl::StartsWith(address.host(), "127."));
}

absl::Status Check(const FleetOptions& o) {
  const absl::StatusOr<rpc::Address> address = rpc::Address::Parse(o.aggregator);
  if (!address.ok()) return address.status();
  if (!o.other_machines && !IsLoopback(*address)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--aggregator ", o.aggregator,
        " is not on this machine: give unix:PATH or 127.0.0.1:PORT, or --other-machines if you may load it"));
  }
  if (o.bare_rounds > 0 && !address->is_unix())
    return absl::InvalidArgumentError(
        "--bare-server listens on a Unix socket only: give --aggregator unix:PATH");
  if (o.ranks() > kMostRanks) {
    return absl::InvalidArgumentError(absl::StrCat("--daemons times --ranks-per-daemon is ", o.ranks(),
                                                   " ranks: give at most ", kMostRanks));
  }
  if (uint64_t{o.ranks()} * o.rows > kMostRows) {
    return absl::InvalidArgumentError(absl::StrCat("the capture would have ", uint64_t{o.ranks()} * o.rows,
                                                   " rows: give at most ", kMostRows, ", by fewer --rows"));
  }
  if (o.slow_rank.value_or(0) >= o.ranks()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slow-rank ", *o.slow_rank, ": the ranks are 0 to ", o.ranks() - 1));
  }
  if (o.leaver.value_or(0) >= o.daemons) {
    return absl::InvalidArgumentError(
        absl::StrCat("--leave ", *o.leaver, ": the daemons are 0 to ", o.daemons - 1));
  }
  return absl::OkStatus();
}

}  // namespace

int ParseFleetOptions(int argc, char** argv, FleetOptions* o) {
  constexpr int kUsage = 2;
  CLI::App app{kFleetAbout, "lockstep-sim-fleet"};
  app.footer(kFleetFooter);
  app.add_option("--aggregator", o->aggregator, "unix:PATH or HOST:PORT of the aggregator")->required();
  app.add_option("--token-file", o->token_file, "file with the secret of the aggregator's TCP port");
  app.add_flag("--insecure-plaintext-tcp", o->plaintext, "do not encrypt TCP; the aggregator needs it too");
  app.add_flag("--other-machines", o->other_machines, "allow an aggregator on another machine");
  AddJob(app, o);
  std::string clock_pause = "50ms";
  AddLoad(app, o, &clock_pause);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : (app.exit(e, std::cout, std::cerr), kUsage);
  }
  const absl::StatusOr<Nanos> pause = settings::ParseDuration(clock_pause, settings::kFlagDuration);
  absl::Status checked = pause.ok() ? Check(*o) : pause.status();
  if (checked.ok() && *pause < Nanos::Millis(1))
    checked = absl::InvalidArgumentError(absl::StrCat("--clock-pause ", clock_pause, ": give 1ms or more"));
  if (!checked.ok()) {
    std::cerr << "lockstep-sim-fleet: " << checked.message() << "\n";
    return kUsage;
  }
  o->clock_pause = *pause;
  return -1;
}

}  // namespace lockstep::sim
