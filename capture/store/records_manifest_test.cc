// The manifest beside a capture's records, and the names of the files that hold them.
#include "capture/store/records_manifest.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

using ::testing::HasSubstr;

TEST(RecordsManifest, ReadsBackUnchanged) {
  Manifest m;
  m.id = "x";
  m.job = "na\"me\\ \xff\n";
  m.t0 = JobTime(1);
  m.t1 = JobTime(9'000'000'000'000'000'000);
  m.missing_ranks = {RankId(3)};
  m.wanted_steps = StepSpan{500, 3};
  m.notes = {"one", "two"};
  m.hosts = {{"id", "host", {{HostTime(1), JobTime(2), JobTime(3), HostTime(4), MonoTime(5)}}}};
  ManifestProcess p;
  p.rank = RankId(7);
  p.host = 0;
  p.start_ticks = 18'000'000'000'000'000'000u;
  p.window = {HostTime(-5), HostTime(6)};
  p.files = {{"r.lsr", 12, {}}};
  p.files[0].rows[2] = 44;
  p.losses = {{"ring", "kernel", 3, "full", HostTime(1), HostTime(2)}};
  p.python_profile = {"r00007.p00000.cprofile", 41, {HostTime(-4), HostTime(7)}};
  m.processes = {p};
  auto back = ParseManifest(ManifestToJson(m));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->job, "na\"me\\ \xEF\xBF\xBD\n");
  EXPECT_EQ(back->t1, m.t1);
  EXPECT_EQ(back->notes, m.notes);
  EXPECT_EQ(back->wanted_steps, m.wanted_steps);
  EXPECT_EQ(back->missing_ranks, m.missing_ranks);
  ASSERT_EQ(back->hosts.size(), 1u);
  EXPECT_EQ(back->hosts[0].exchanges[0].monotonic, MonoTime(5));
  ASSERT_EQ(back->processes.size(), 1u);
  EXPECT_EQ(back->processes[0].start_ticks, p.start_ticks);
  EXPECT_EQ(back->processes[0].window, p.window);
  EXPECT_EQ(back->processes[0].files[0].rows[2], 44u);
  EXPECT_EQ(back->processes[0].losses[0].records, 3u);
  EXPECT_EQ(back->processes[0].python_profile.name, p.python_profile.name);
  EXPECT_EQ(back->processes[0].python_profile.bytes, 41u);
  EXPECT_EQ(back->processes[0].python_profile.window, p.python_profile.window);
}

TEST(RecordsManifest, RefusesAnotherSchemaByName) {
  const auto m = ParseManifest("{\"schema\": \"lockstep.records/9\"}");
  ASSERT_FALSE(m.ok());
  EXPECT_THAT(std::string(m.status().message()), HasSubstr("lockstep.records/9"));
  EXPECT_FALSE(ParseManifest("").ok());
  EXPECT_FALSE(ParseManifest("[]").ok());
}

TEST(RecordsFileNames, NamesGiveTheProcess) {
  const std::string name = RecordsFileName({RankId(12), 3, 4});
  const auto file = ParseRecordsFileName(name);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->rank, RankId(12));
  EXPECT_EQ(file->process, 3u);
  EXPECT_TRUE(IsPlainFileName(name));
  EXPECT_EQ(ParseRecordsFileName(RecordsFileName({kNoRank, 3, 4}))->rank, kNoRank);
  for (const char* bad :
       {"", "a.lsr", "r1.p1.1.txt", "r-2.p1.1.lsr", "...lsr", "r1.q1.1.lsr", "r99999999999.p1.1.lsr"}) {
    EXPECT_FALSE(ParseRecordsFileName(bad).has_value()) << bad;
  }
  for (const TraceFileKind kind : {TraceFileKind::kKineto, TraceFileKind::kPythonProfile}) {
    const auto owner = ParseTraceFileName(TraceFileName({RankId(12), 3, kind}));
    ASSERT_TRUE(owner.has_value());
    EXPECT_EQ(owner->rank, RankId(12));
    EXPECT_EQ(owner->process, 3u);
    EXPECT_EQ(owner->kind, kind);
  }
  for (const char* bad :
       {"", "rank_1.cprofile", "r1.p1.1.cprofile", "r1.p1.cprofile.gz", "r1.p1.kineto.json"}) {
    EXPECT_FALSE(ParseTraceFileName(bad).has_value()) << bad;
  }
  for (const char* bad : {"", ".", "..", "../x", "a/b", ".hidden", "a b"})
    EXPECT_FALSE(IsPlainFileName(bad)) << bad;
}

TEST(RecordsManifest, ClockExchangesWithImpossibleTimesAreLeftOut) {
  const auto parsed = ParseManifest(
      R"({"schema": "lockstep.records/1", "hosts": [{"id": "n", "exchanges": [
          [-7423055708680598452, 7238874426221171354, 5, 6, 7], [1, 2, 3, 4, 5]]}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->hosts.size(), 1u);
  ASSERT_EQ(parsed->hosts[0].exchanges.size(), 1u);
  EXPECT_EQ(parsed->hosts[0].exchanges[0].t1.ns(), 1);
}

TEST(RecordsManifest, ImpossibleTimesAndLossesAreNotUsed) {
  const auto parsed = ParseManifest(
      R"({"schema": "lockstep.records/1", "requested_ns": 9223372036854775807, "processes": [
          {"rank": 0, "t0_host_ns": -9223372036854775808, "t1_host_ns": 9223372036854775807,
           "late_ns": 9223372036854775807,
           "losses": [{"stage": "ring", "kind": "kernel", "records": 18446744073709551615}]}]})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->requested, Nanos());
  ASSERT_EQ(parsed->processes.size(), 1u);
  EXPECT_EQ(parsed->processes[0].window.length(), Nanos());
  EXPECT_EQ(parsed->processes[0].late, Nanos());
  ASSERT_EQ(parsed->processes[0].losses.size(), 1u);
  EXPECT_EQ(parsed->processes[0].losses[0].records, kMostLostRecords);
}

}  // namespace
}  // namespace lockstep::capture
