#include "cli/doctor/cluster_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/time.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// A cluster without problems: two nodes and a job of two ranks.
v1::StatusReply Healthy() {
  v1::StatusReply reply;
  reply.mutable_version()->set_program("lockstep-aggregator 0.1.0");
  reply.mutable_version()->set_protocol_min(1);
  reply.mutable_version()->set_protocol_max(1);
  for (int node = 0; node < 2; ++node) {
    v1::DaemonStatus& daemon = *reply.add_daemons();
    daemon.set_host_name("n" + std::to_string(node));
    daemon.set_version("lockstepd 0.1.0");
    daemon.mutable_protocol()->set_protocol_min(1);
    daemon.mutable_protocol()->set_protocol_max(1);
    daemon.set_clock_bound_ns(40'000);
    daemon.mutable_health()->set_spool_limit_bytes(64u << 20);
    daemon.mutable_health()->set_registrations(1);
    v1::Rank& rank = *daemon.add_ranks();
    rank.set_rank(node);
    rank.set_world_size(2);
    rank.set_job("4711");
    rank.set_uid(1000);
  }
  v1::AggregatorStatus& status = *reply.mutable_aggregator();
  status.add_listen("0.0.0.0:7077");
  status.set_token(true);
  status.set_state_free_bytes(uint64_t{50} << 30);
  status.set_state_total_bytes(uint64_t{100} << 30);
  status.set_store_captures(3);
  status.set_store_bytes(1u << 30);
  status.set_keep_captures(100);
  status.set_keep_bytes(uint64_t{20} << 30);
  status.set_audit(true);
  return reply;
}

std::vector<std::string> Lines(const v1::StatusReply& reply, const std::string& version = "0.1.0") {
  std::vector<std::string> lines;
  for (const Finding& finding : CheckCluster(reply, version)) lines.push_back(FindingsToText({finding}));
  return lines;
}

TEST(CheckCluster, AHealthyClusterHasNothingBroken) {
  const std::vector<std::string> lines = Lines(Healthy());
  EXPECT_THAT(lines, Not(Contains(HasSubstr("broken"))));
  for (const char* line :
       {"ok      releases: all 0.1.0\n",
        "ok      protocol: the aggregator supports 1 to 1, as does every daemon\n",
        "ok      daemons: 2 are connected\n", "ok      clocks: each node's is known within 40 us\n",
        "ok      job 4711 (uid 1000): all 2 ranks are registered\n",
        "ok      state folder: 50.0 GiB of 100.0 GiB are free\n", "ok      audit log: written\n"}) {
    EXPECT_THAT(lines, Contains(line));
  }
  EXPECT_THAT(lines, Contains(HasSubstr("note    access: connections are not encrypted")));
}

TEST(CheckCluster, EachProblemIsALineWithItsRemedy) {
  v1::StatusReply reply = Healthy();
  reply.mutable_daemons(1)->set_version("lockstepd 0.2.0");
  reply.mutable_daemons(1)->mutable_protocol()->set_protocol_max(2);
  reply.mutable_daemons(1)->set_clock_bound_ns(0);
  reply.mutable_daemons(0)->set_clock_bound_ns(3'000'000);
  reply.mutable_daemons(0)->mutable_health()->set_spool_dropped_records(12);
  reply.mutable_daemons(0)->mutable_health()->set_spool_bytes(60u << 20);
  reply.mutable_daemons(0)->mutable_health()->set_registrations(11);
  reply.mutable_daemons(0)->mutable_ranks(0)->set_world_size(5);
  v1::AbsentDaemon& absent = *reply.mutable_aggregator()->add_absent();
  absent.set_host_name("n9");
  absent.set_away_ns(Nanos::Seconds(90).ns());
  reply.mutable_aggregator()->set_state_free_bytes(1u << 20);
  reply.mutable_aggregator()->set_audit_lines_failed(4);
  const std::vector<std::string> lines = Lines(reply);
  for (const char* line :
       {"note    releases: mixed: 0.1.0 (the aggregator, this command, n0), 0.2.0 (n1);",
        "note    protocol: the aggregator supports 1 to 1, but these daemons differ: n1 1-2;",
        "broken  daemon n9: disconnected 90 s ago; run there: systemctl status lockstepd",
        "broken  daemon n0: 12 records were dropped from the spool: raise --spool-bytes",
        "note    daemon n0: its spool holds 60.0 MiB of 64.0 MiB;",
        "note    daemon n0: it connected about 11 times",
        "note    clock n1: no exchange with the aggregator yet", "note    clock n0: known within 3 ms only",
        "broken  job 4711 (uid 1000): 3 of 5 ranks never registered: 2-4; `lockstep status` on their nodes",
        "broken  state folder: 1.0 MiB of 100.0 GiB are free;",
        "note    captures: --keep-bytes allows 20.0 GiB, more than fits on the disk (1.0 GiB)",
        "broken  audit log: 4 lines could not be written"}) {
    EXPECT_THAT(lines, Contains(HasSubstr(line)));
  }
}

TEST(CheckCluster, AnEmptyClusterGetsInstructions) {
  v1::StatusReply reply;
  reply.mutable_version()->set_program("lockstep-aggregator 0.1.0");
  const std::vector<std::string> lines = Lines(reply);
  EXPECT_THAT(
      lines,
      Contains(HasSubstr("broken  daemons: none is connected; on each node, set aggregator and token-file")));
  EXPECT_THAT(lines, Contains(HasSubstr("note    jobs: no rank is registered")));
  EXPECT_THAT(lines, Contains(HasSubstr("note    aggregator: it reports neither disk")))
      << "an older release";
}

TEST(CheckCluster, JsonMatchesTheFormatPage) {
  v1::StatusReply reply = Healthy();
  reply.mutable_daemons(0)->set_host_name("n\"0");
  reply.mutable_daemons(0)->mutable_health()->set_spool_dropped_records(12);
  const std::string got = FindingsToJson(CheckCluster(reply, "0.1.0"));
  const std::string path = LOCKSTEP_SOURCE_DIR "/tests/golden/doctor/doctor_v1.json";
  std::ifstream file(path);
  const std::string want{std::istreambuf_iterator<char>(file), {}};
  if (got != want) std::ofstream(path + ".actual") << got;
  EXPECT_EQ(got, want) << "where that is meant: mv " << path << ".actual " << path;
}

}  // namespace
}  // namespace lockstep::cli
