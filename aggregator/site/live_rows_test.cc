#include "aggregator/site/live_rows.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobRowsTest : public ::testing::Test {
 protected:
  void Add(const std::string& host, const std::string& job, uint32_t uid, int32_t rank, int32_t world_size) {
    v1::DaemonStatus* daemon = nullptr;
    for (v1::DaemonStatus& d : *status_.mutable_daemons()) {
      if (d.host_name() == host) daemon = &d;
    }
    if (daemon == nullptr) daemon = status_.add_daemons();
    daemon->set_host_name(host);
    v1::Rank& r = *daemon->add_ranks();
    r.set_job(job);
    r.set_uid(uid);
    r.set_rank(rank);
    seen_[{job, uid}] = {world_size, JobTime(1000)};
  }
  v1::StatusReply status_;
  std::map<aggregator::JobKey, aggregator::SeenJob> seen_;
};

TEST_F(JobRowsTest, CountsARankOnTwoDevicesOnceAndSortsHosts) {
  Add("b", "train", 7, 1, 2);
  Add("a", "train", 7, 0, 2);
  Add("a", "train", 7, 0, 2);
  const std::vector<JobRow> rows = JobRows(status_, seen_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].ranks, 2u);
  EXPECT_EQ(rows[0].world_size, 2u);
  EXPECT_EQ(rows[0].state, "running");
  EXPECT_THAT(rows[0].hosts, ElementsAre("a", "b"));
}

TEST_F(JobRowsTest, TwoUsersJobsOfOneNameAreSeparateRows) {
  Add("a", "train", 7, 0, 2);
  Add("a", "train", 8, 0, 1);
  const std::vector<JobRow> rows = JobRows(status_, seen_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].state, "incomplete") << "one of its two ranks is missing";
  EXPECT_EQ(rows[1].state, "running");
}

TEST_F(JobRowsTest, ShowsWhatWasNoticed) {
  Add("a", "train", 7, 0, 2);
  Add("a", "train", 8, 0, 1);
  v1::JobSteps& steps = *status_.add_jobs();
  steps.set_job("train");
  steps.set_uid(7);
  steps.set_step_time_ns(85'000'000);
  steps.add_trend_ns(73'000'000);
  for (const int32_t rank : {1, 0}) {
    v1::Slowdown& slowdown = *steps.add_slowdowns();
    slowdown.set_rank(rank);
    if (rank == 1) slowdown.set_ended_unix_ns(5);
  }
  v1::JobRecording& recording = *status_.add_recordings();
  recording.set_job("train");
  recording.set_uid(8);
  recording.set_window_ns(1'000'000'000);
  recording.set_period_ns(60'000'000'000);
  std::vector<JobRow> rows = JobRows(status_, seen_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].step, Nanos::Millis(85));
  EXPECT_THAT(rows[0].trend, ElementsAre(Nanos::Millis(73)));
  EXPECT_THAT(rows[0].slow_ranks, ElementsAre(RankId(0)));
  EXPECT_EQ(rows[0].alarm, "slower");
  EXPECT_THAT(rows[0].alarm_text.value(), testing::HasSubstr("rank 0 takes"));
  EXPECT_EQ(rows[0].window, std::nullopt);
  EXPECT_EQ(rows[1].step, std::nullopt);
  EXPECT_EQ(rows[1].alarm, std::nullopt);
  EXPECT_EQ(rows[1].window, Nanos::Seconds(1));
  EXPECT_EQ(rows[1].period, Nanos::Seconds(60));
  v1::JobHang& hang = *status_.add_hangs();
  hang.set_job("train");
  hang.set_uid(7);
  hang.set_sentence("rank 1 never entered");
  rows = JobRows(status_, seen_);
  EXPECT_EQ(rows[0].alarm, "hang");
  EXPECT_EQ(rows[0].alarm_text, "rank 1 never entered");
  hang.set_ended_unix_ns(5);
  EXPECT_EQ(JobRows(status_, seen_)[0].alarm, "slower");
}

TEST_F(JobRowsTest, ListsEndedJobsLastAndTheNewestFirst) {
  Add("a", "here", 7, -1, 0);
  seen_[{"old", 7}] = {8, JobTime(2000)};
  seen_[{"older", 7}] = {8, JobTime(1500)};
  const std::vector<JobRow> rows = JobRows(status_, seen_);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].job, "here");
  EXPECT_EQ(rows[0].ranks, 1u) << "a process that nothing gives a rank can be captured too";
  EXPECT_EQ(rows[0].world_size, std::nullopt);
  EXPECT_EQ(rows[1].job, "old");
  EXPECT_EQ(rows[1].state, "gone");
  EXPECT_THAT(rows[1].hosts, IsEmpty());
  EXPECT_EQ(rows[2].last_seen, JobTime(1500));
}

TEST(RunningRowTest, DescribesTheStateOfItsRanks) {
  aggregator::RunningCapture capture;
  capture.status.set_capture("20260301-120000-0a1b2c");
  capture.status.set_job("train");
  capture.status.set_phase("arming");
  capture.status.set_records(12);
  capture.world_size = 4;
  capture.missing_ranks = 1;
  for (const auto state : {v1::RankState::ARMED, v1::RankState::ARMED, v1::RankState::FAILED})
    capture.status.add_states()->set_state(state);
  CaptureRow row = RunningRow(capture);
  EXPECT_EQ(row.state, "arming");
  EXPECT_EQ(row.text, "2 armed, 1 failed");
  EXPECT_EQ(row.ranks, 3u);
  EXPECT_EQ(row.missing_ranks, 1u);
  EXPECT_EQ(row.records, 12u);
  EXPECT_EQ(row.lost_records, std::nullopt) << "not known before it ends";
  EXPECT_THAT(row.files, IsEmpty());
  capture.status.set_phase("closed");
  EXPECT_EQ(RunningRow(capture).state, "analysing");
}

}  // namespace
}  // namespace lockstep::aggregator
