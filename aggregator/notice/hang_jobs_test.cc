#include "aggregator/notice/hang_jobs.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep::aggregator {
namespace {

using Life = analysis::HangRank::Life;

constexpr int64_t kNow = 1'790'000'000'000'000'000;

v1::ProcessProgress& AddProcess(v1::ProgressReply& reply, int32_t rank, const char* state, int64_t cpu_ns) {
  if (reply.nodes_size() == 0) {
    reply.add_nodes()->set_node_id("boot");
    reply.mutable_nodes(0)->set_host_name("node1");
    reply.mutable_nodes(0)->set_now_unix_ns(kNow);
  }
  v1::ProcessProgress& process = *reply.mutable_nodes(0)->add_processes();
  process.mutable_rank()->set_rank(rank);
  process.mutable_rank()->set_world_size(4);
  process.mutable_rank()->set_job("train");
  process.mutable_rank()->mutable_process()->set_pid(100 + rank);
  if (*state != '\0') {
    process.mutable_state()->set_state(state);
    process.mutable_state()->set_cpu_ns(cpu_ns);
  }
  return process;
}

TEST(HangJobs, TakesTheStateOfEachProcess) {
  v1::ProgressReply reply;
  AddProcess(reply, 3, "", 0);
  AddProcess(reply, 1, "T", 0);
  AddProcess(reply, 0, "S", 0).mutable_state()->set_wait_channel("futex_wait");
  v1::ProcessProgress& gone = AddProcess(reply, 2, "", 0);
  gone.set_gone_unix_ns(kNow - 5'000'000'000);
  gone.set_gone_reason("the process ended");
  const std::vector<analysis::HangJob> jobs = HangJobsOf(reply, nullptr);
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].job, "train");
  EXPECT_EQ(jobs[0].world_size, 4);
  ASSERT_EQ(jobs[0].ranks.size(), 4u);
  EXPECT_EQ(jobs[0].ranks[0].life, Life::kRunning);
  EXPECT_EQ(jobs[0].ranks[0].wait_channel, "futex_wait");
  EXPECT_FALSE(jobs[0].ranks[0].cpu_share.has_value());
  EXPECT_EQ(jobs[0].ranks[1].life, Life::kStopped);
  EXPECT_EQ(jobs[0].ranks[2].life, Life::kEnded);
  EXPECT_EQ(jobs[0].ranks[2].ended_ago, Nanos::Seconds(5));
  EXPECT_EQ(jobs[0].ranks[3].life, Life::kUnknown);
}

void AddFrame(v1::ProcessProgress& process, const char* file, int32_t line) {
  v1::PythonFrame& frame = *process.mutable_stacks()->mutable_python()->add_frames();
  frame.set_file(file);
  frame.set_line(line);
  frame.set_function("step");
}

TEST(HangJobs, ARankMovesIfItsStackChanges) {
  v1::ProgressReply before, now;
  for (const int32_t rank : {0, 1, 2}) {
    AddFrame(AddProcess(before, rank, "S", 0), "train.py", 10);
    AddFrame(AddProcess(now, rank, "S", 0), "train.py", rank == 1 ? 11 : 10);
  }
  AddFrame(*now.mutable_nodes(0)->mutable_processes(2), "train.py", 20);
  AddProcess(before, 3, "S", 0);
  AddFrame(AddProcess(now, 3, "S", 0), "train.py", 10);
  const analysis::HangJob job = HangJobsOf(now, &before).at(0);
  EXPECT_FALSE(job.ranks[0].moved);
  EXPECT_TRUE(job.ranks[1].moved) << "another line";
  EXPECT_TRUE(job.ranks[2].moved) << "another caller";
  EXPECT_FALSE(job.ranks[3].moved) << "its stack was not read before";
  EXPECT_EQ(job.ranks[1].stacks->python.frames[0].line, 11);
  EXPECT_FALSE(HangJobsOf(now, nullptr).at(0).ranks[1].moved);
}

TEST(HangJobs, NamesTheLivingProcessesOfRanks) {
  v1::ProgressReply look;
  for (const int32_t rank : {0, 1, 2}) AddProcess(look, rank, "S", 0);
  look.mutable_nodes(0)->mutable_processes(2)->set_gone_unix_ns(kNow);
  const std::vector<v1::StackTarget> targets = StackTargetsOf(look, 0, "train", {RankId(1), RankId(2)});
  ASSERT_EQ(targets.size(), 1u) << "rank 2 has ended";
  EXPECT_EQ(targets[0].node_id(), "boot");
  EXPECT_EQ(targets[0].process().pid(), 101);
  EXPECT_TRUE(StackTargetsOf(look, 0, "other", {RankId(1)}).empty());
  EXPECT_TRUE(StackTargetsOf(look, 1000, "train", {RankId(1)}).empty()) << "another user's job of that name";
}

TEST(HangJobs, LeavesOutAJobWithoutLivingProcesses) {
  v1::ProgressReply reply;
  AddProcess(reply, 0, "", 0).set_gone_unix_ns(kNow);
  AddProcess(reply, 1, "Z", 0);
  EXPECT_TRUE(HangJobsOf(reply, nullptr).empty());
}

TEST(HangJobs, ARankThatWasStartedAgainReplacesTheOneThatHasEnded) {
  v1::ProgressReply reply;
  AddProcess(reply, 0, "", 0).set_gone_unix_ns(kNow);
  AddProcess(reply, 1, "", 0).set_gone_unix_ns(kNow);
  AddProcess(reply, 0, "S", 0);
  const std::vector<analysis::HangJob> jobs = HangJobsOf(reply, nullptr);
  ASSERT_EQ(jobs.size(), 1u);
  ASSERT_EQ(jobs[0].ranks.size(), 2u);
  EXPECT_EQ(jobs[0].ranks[0].life, Life::kRunning);
  EXPECT_EQ(jobs[0].ranks[1].life, Life::kEnded);
}

TEST(HangJobs, ComparesProcessorTimeWithAnEarlierLook) {
  v1::ProgressReply before;
  v1::ProgressReply now;
  AddProcess(before, 0, "R", 7'000'000'000);
  AddProcess(now, 0, "R", 7'500'000'000);
  before.mutable_nodes(0)->set_now_unix_ns(kNow - 1'000'000'000);
  EXPECT_DOUBLE_EQ(HangJobsOf(now, &before).at(0).ranks.at(0).cpu_share.value(), 0.5);
  now.mutable_nodes(0)->mutable_processes(0)->mutable_rank()->mutable_process()->set_start_ticks(9);
  EXPECT_FALSE(HangJobsOf(now, &before).at(0).ranks.at(0).cpu_share.has_value()) << "the pid was reused";
}

TEST(HangJobs, ComparesTransferredBytesWithAnEarlierLook) {
  v1::ProgressReply before;
  v1::ProgressReply now;
  v1::ProcessState& first = *AddProcess(before, 0, "R", 0).mutable_state();
  v1::ProcessState& second = *AddProcess(now, 0, "R", 0).mutable_state();
  before.mutable_nodes(0)->set_now_unix_ns(kNow - 2'000'000'000);
  second.set_transferred_bytes(9'000'000);
  EXPECT_FALSE(HangJobsOf(now, &before).at(0).ranks.at(0).transfer_rate.has_value()) << "it was not shown";
  first.set_transferred_bytes(1'000'000);
  EXPECT_DOUBLE_EQ(HangJobsOf(now, &before).at(0).ranks.at(0).transfer_rate.value(), 4e6);
}

TEST(HangJobs, AStampOfARankMayBeAnything) {
  v1::ProgressReply reply;
  v1::CommunicatorProgress& communicator = *AddProcess(reply, 0, "S", 0).add_communicators();
  for (const int64_t stamp : {kNow - 94'000'000'000, INT64_MIN, INT64_MAX, int64_t{0}})
    communicator.add_operations()->set_entered_unix_ns(stamp);
  const std::vector<analysis::HangJob> jobs = HangJobsOf(reply, nullptr);
  const auto& operations = jobs.at(0).ranks.at(0).communicators.at(0).operations;
  EXPECT_EQ(operations.at(0).entered_ago, Nanos::Seconds(94));
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(operations.at(i).entered_ago, Nanos());
}

}  // namespace
}  // namespace lockstep::aggregator
