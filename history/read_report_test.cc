#include "history/read_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::history {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr HostTime kAdded{1'800'000'000'000'000'000};

// The members that a history reads. tests/e2e/history_test.py reads reports that the program made.
constexpr char kReport[] = R"({"schema": "lockstep.report/1", "verdict": "STRAGGLER rank 1",
  "capture": {"id": "20260301-120000-0a1b2c", "job": "4711.0", "source": "live", "start_unix_ns": 1700000000000000000,
    "duration_ns": 2000000000, "world_size": 2, "hosts": 1, "steps": 2, "partial": true,
    "losses": [{"records": 3}, {"records": -9}, {"records": 4}]},
  "ranks": [{"rank": 0, "host": "n0", "device": 0, "device_name": "H100", "device_uuid": null, "span_ns": 100,
      "compute_ns": 60, "exposed_communication_ns": 30, "idle_ns": 10, "caused_wait_ns": 1, "gain_ns_per_step": null},
    {"rank": 1, "host": "n\u001b[31m1", "device": 1, "span_ns": 100, "idle_ns": 30, "gain_ns_per_step": 5.5}],
  "steps": [{"step": 7, "duration_ns": 20, "efficiency": {"parallel": 0.5, "load_balance": null},
      "ranks": [{"rank": 0, "wait_ns": 4, "overlap_ns": 1, "lost_ns": -1}, {"rank": 1, "wait_ns": 8, "overlap_ns": 3, "lost_ns": 9}]},
    {"step": 8, "duration_ns": 30, "ranks": [{"rank": 0, "wait_ns": null, "overlap_ns": 2, "lost_ns": null}]},
    {"step": 9, "duration_ns": 22, "ranks": []}],
  "step_breakdown": [{"communication_ns": 10}, {"communication_ns": 20}],
  "slowdown": {"step_ns": 24.5, "ideal_step_ns": 20, "lost_ns_per_step": 4.5, "noise_floor_ns_per_step": null},
  "stragglers": [{"kind": "rank", "ranks": [1], "cause": "gpu_clock", "lost_ns_per_step": 4, "gain_ns_per_step": 3.5,
    "verdict": "sure", "confidence": 1, "since_step": 8, "action": "read clocks"}],
  "shared_losses": [{"kind": "input", "lost_ns_per_step": 2, "action": "more loaders"}],
  "efficiency": {"parallel": 0.75, "load_balance": 0.9, "communication": 0.8, "orchestration": 1}})";

TEST(ReadReportTest, ReadsTheSummary) {
  const auto read = ReadReport(kReport, kAdded);
  ASSERT_TRUE(read.ok()) << read.status();
  const CaptureHead& head = read->head;
  EXPECT_EQ(head.id, "20260301-120000-0a1b2c");
  EXPECT_EQ(head.job, "4711.0");
  EXPECT_EQ(head.captured.ns(), 1'700'000'000'000'000'000);
  EXPECT_EQ(head.lost_records, 7);
  EXPECT_TRUE(head.partial);
  EXPECT_EQ(head.step_ns, 22) << "the median of the steps";
  EXPECT_EQ(head.exposed_ns_per_step, 15);
  EXPECT_EQ(head.idle_fraction, 0.2);
  EXPECT_EQ(head.gain_ns_per_step, 3.5);
  EXPECT_FALSE(head.noise_floor_ns_per_step.has_value());
  ASSERT_THAT(read->ranks, SizeIs(2));
  EXPECT_EQ(read->ranks[1].host, "n?[31m1");
  EXPECT_FALSE(read->ranks[0].device_uuid.has_value());
  ASSERT_THAT(read->steps, SizeIs(3));
  EXPECT_EQ(read->steps[0].wait_ns, 6);
  EXPECT_EQ(read->steps[0].costliest_rank, RankId(1));
  EXPECT_FALSE(read->steps[0].load_balance.has_value());
  EXPECT_FALSE(read->steps[1].costliest_rank.has_value());
  EXPECT_FALSE(read->steps[2].wait_ns.has_value());
  ASSERT_THAT(read->findings, SizeIs(2));
  ASSERT_THAT(read->findings[0].ranks, SizeIs(1));
  EXPECT_EQ(read->findings[0].ranks[0].host, "n?[31m1");
  EXPECT_EQ(read->findings[1].list, kSharedLosses);
}

std::string With(const std::string& from, const std::string& to) {
  std::string text = kReport;
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(ReadReportTest, AnImportHasItsBeginInItsId) {
  const auto read = ReadReport(With("\"source\": \"live\"", "\"source\": \"import\""), kAdded);
  EXPECT_EQ(read->head.id, "20260301-120000-0a1b2c@20231114-221320.000");
  const auto unknown = ReadReport(
      With("\"source\": \"live\", \"start_unix_ns\": 1700000000000000000", "\"source\": \"import\""), kAdded);
  EXPECT_EQ(unknown->head.id, "20260301-120000-0a1b2c");
  EXPECT_EQ(unknown->head.captured.ns(), kAdded.ns());
}

TEST(ReadReportTest, NothingToFixIsAGainOfZeroOnlyIfItWasJudged) {
  const std::string healthy = With("\"stragglers\": [", "\"stragglers\": [], \"x\": [");
  EXPECT_EQ(ReadReport(healthy, kAdded)->head.gain_ns_per_step, 0);
  std::string unknown = healthy;
  unknown.replace(unknown.find("\"lost_ns_per_step\": 4.5"), 23, "\"lost_ns_per_step\": null");
  EXPECT_FALSE(ReadReport(unknown, kAdded)->head.gain_ns_per_step.has_value());
}

TEST(ReadReportTest, OtherDocumentsAreRefusedWithTheReason) {
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {"", "is not JSON"},
           {"{\"schema\": ", "is not JSON"},
           {"[1, 2]", "is not a report of Lockstep"},
           {"{\"traceEvents\": []}", "is not a report of Lockstep"},
           {With("lockstep.report/1", "lockstep.report/2"), "has the schema lockstep.report/2"},
           {"{\"schema\": \"lockstep.report/1\"}", "names neither its capture nor its job"}}) {
    const absl::Status status = ReadReport(text, kAdded).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 40);
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
  }
}

TEST(ReadReportTest, MembersOfOtherTypesAreUnknown) {
  const auto read =
      ReadReport(R"({"schema": "lockstep.report/1", "capture": {"id": "a", "job": 7, "world_size": "x",
      "losses": {}}, "ranks": 5, "steps": [3, null, {"ranks": [[]]}], "stragglers": [{"ranks": ["x", 3.5, 99999999999]}]})",
                 kAdded);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->head.job, "a");
  EXPECT_EQ(read->head.world_size, 0);
  EXPECT_FALSE(read->head.step_ns.has_value() && *read->head.step_ns != 0);
  EXPECT_THAT(read->steps, SizeIs(3));
}

TEST(ReadReportTest, LongNamesAreCut) {
  const auto read = ReadReport(With("\"n0\"", "\"" + std::string(100000, 'n') + "\""), kAdded);
  EXPECT_LE(read->ranks[0].host.size(), 1000u);
}

}  // namespace
}  // namespace lockstep::history
