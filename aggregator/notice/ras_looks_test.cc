#include "aggregator/notice/ras_looks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::aggregator {
namespace {

using Result = analysis::RasReport::Result;
using Verdict = analysis::HangExplanation::Verdict;
using Ras = HangExamination::Ras;
using testing::HasSubstr;

// RAS's answer about two ranks with these numbers of calls.
std::string Json(int first, int second, int first_pid = 100) {
  return absl::StrCat(
      R"({"nccl_version":"2.28.9","communicators":[{"hash":"0xab","size":2,"ranks":[)",
      R"({"rank":0,"host":"10.0.0.1","pid":)", first_pid, R"(,"collective_counts":{"AllReduce":)", first,
      R"(}},{"rank":1,"host":"10.0.0.1","pid":101,"collective_counts":{"AllReduce":)", second, "}}]}]}");
}

class RasLooksTest : public testing::Test {
 protected:
  // A look at two ranks of job "train", which keep no progress.
  v1::ProgressReply Reply() const {
    v1::ProgressReply reply;
    v1::NodeProgress& node = *reply.add_nodes();
    node.set_node_id("boot");
    node.set_host_name("node1");
    node.set_now_unix_ns(1'790'000'000'000'000'000 + Nanos::Seconds(looks_).ns());
    for (const int32_t rank : {0, 1}) {
      v1::ProcessProgress& process = *node.add_processes();
      process.mutable_rank()->set_rank(rank);
      process.mutable_rank()->set_world_size(2);
      process.mutable_rank()->set_job("train");
      process.mutable_rank()->set_uid(7);
      process.mutable_rank()->mutable_process()->set_pid(100 + rank);
      process.mutable_state()->set_state(rank == 0 ? state_ : "S");
      process.mutable_state()->set_cpu_ns(looks_ * cpu_ns_per_look_);
    }
    return reply;
  }

  absl::StatusOr<ExplainedJobs> Explain(Ras ras) {
    HangExamination examination;
    examination.ras = ras;
    examination.after = Nanos::Seconds(60);
    examination.sleep = [&](Nanos time) { slept_.push_back(time); };
    examination.look =
        [&](const v1::ProgressRequest& request) -> absl::StatusOr<std::unique_ptr<v1::ProgressReply>> {
      auto reply = std::make_unique<v1::ProgressReply>(Reply());
      ++looks_;
      if (request.ras().empty()) return reply;
      asked_.push_back(request.ras(0).process().pid());
      if (answers_.empty()) return absl::UnavailableError("the aggregator has gone");
      if (answers_.front().has_pid_unset) {
        answers_.erase(answers_.begin());
        return reply;
      }
      v1::ProcessProgress& process = *reply->mutable_nodes(0)->mutable_processes(asked_.back() - 100);
      *process.mutable_ras() = answers_.front().answer;
      process.mutable_ras()->set_pid(asked_.back());
      answers_.erase(answers_.begin());
      return reply;
    };
    return ExplainRunningJobs(examination);
  }
  analysis::RasReport Report(Ras ras = Ras::kAlsoWithoutProgress) {
    const absl::StatusOr<ExplainedJobs> explained = Explain(ras);
    EXPECT_TRUE(explained.ok() && explained->jobs.size() == 1 && explained->jobs[0].ras.has_value());
    if (!explained.ok() || explained->jobs.size() != 1 || !explained->jobs[0].ras) return {};
    verdict_ = explained->jobs[0].explanation.verdict;
    saw_no_rank_ = explained->SawNoRank();
    return *explained->jobs[0].ras;
  }
  void Answer(const std::string& json) {
    v1::RasAnswer answer;
    answer.set_text(json);
    answer.set_is_json(true);
    answers_.push_back({answer});
  }
  void AnswerProblem(const std::string& problem) {
    v1::RasAnswer answer;
    answer.set_address("localhost:28028");
    answer.set_problem(problem);
    answers_.push_back({answer});
  }

  struct Given {
    v1::RasAnswer answer;
    bool has_pid_unset = false;  // the daemon is of an older release
  };
  std::vector<Given> answers_;
  std::vector<int32_t> asked_;
  std::vector<Nanos> slept_;
  int looks_ = 0;
  int64_t cpu_ns_per_look_ = 0;
  std::string state_ = "S";
  Verdict verdict_ = Verdict::kNoHang;
  bool saw_no_rank_ = false;
};

TEST_F(RasLooksTest, ALateRankThatDoesNotMoveForLongEnoughIsAHang) {
  Answer(Json(42, 41));
  Answer(Json(42, 41));
  const analysis::RasReport report = Report();
  EXPECT_EQ(report.result, Result::kStandsStill);
  EXPECT_EQ(verdict_, Verdict::kHang);
  EXPECT_FALSE(saw_no_rank_);
  EXPECT_THAT(report.sentences.at(0), HasSubstr("rank 1 (node1, pid 101) has called 41 all_reduce"));
  EXPECT_EQ(slept_, std::vector<Nanos>{Nanos::Seconds(60)});
  EXPECT_EQ(asked_, (std::vector<int32_t>{100, 100}));
}

TEST_F(RasLooksTest, CountsThatMoveAreNotAHang) {
  Answer(Json(42, 41));
  Answer(Json(43, 42));
  EXPECT_EQ(Report().result, Result::kMoves);
  EXPECT_EQ(verdict_, Verdict::kNoHang);
}

TEST_F(RasLooksTest, ALateRankThatComputesIsAWait) {
  cpu_ns_per_look_ = 900'000'000;
  Answer(Json(42, 41));
  Answer(Json(42, 41));
  EXPECT_EQ(Report().result, Result::kStandsStill);
  EXPECT_EQ(verdict_, Verdict::kWaiting);
}

TEST_F(RasLooksTest, EqualCountsNeedNoSecondAnswer) {
  Answer(Json(42, 42));
  EXPECT_EQ(Report().result, Result::kNoDifference);
  EXPECT_TRUE(slept_.empty());
  EXPECT_FALSE(saw_no_rank_);
}

TEST_F(RasLooksTest, AStoppedProcessIsNotAskedFirst) {
  state_ = "T";
  Answer(Json(42, 42));
  Report();
  EXPECT_EQ(asked_, std::vector<int32_t>{101});
}

TEST_F(RasLooksTest, ProblemsAreStated) {
  AnswerProblem("no process listens there");
  EXPECT_EQ(Report().problem, "localhost:28028: no process listens there");
  EXPECT_TRUE(saw_no_rank_);
  Answer("{");
  EXPECT_THAT(Report().problem, HasSubstr("not valid"));
  Answer(Json(42, 41, 999));
  EXPECT_THAT(Report().problem, HasSubstr("the RAS of another job answers"));
  answers_.push_back({{}, true});
  EXPECT_THAT(Report().problem, HasSubstr("of an older release"));
  EXPECT_THAT(Report().problem, HasSubstr("the aggregator has gone"));
  // The second answer is missing.
  Answer(Json(42, 41));
  EXPECT_THAT(Report().problem, HasSubstr("the aggregator has gone"));
  EXPECT_EQ(verdict_, Verdict::kNoHang);
}

TEST_F(RasLooksTest, IsAskedOnlyOnRequest) {
  for (const Ras ras : {Ras::kNone, Ras::kOfHangs}) {
    const absl::StatusOr<ExplainedJobs> explained = Explain(ras);
    ASSERT_TRUE(explained.ok());
    EXPECT_FALSE(explained->jobs.at(0).ras.has_value());
  }
  EXPECT_TRUE(asked_.empty());
}

// Rank 1 never entered the second all_reduce, in which rank 0 waits.
TEST_F(RasLooksTest, IsEvidenceOfAHang) {
  HangExamination examination;
  examination.ras = Ras::kOfHangs;
  examination.after = Nanos::Seconds(60);
  examination.stacks = HangExamination::Stacks::kNone;
  examination.sleep = [](Nanos) {};
  examination.look =
      [&](const v1::ProgressRequest& request) -> absl::StatusOr<std::unique_ptr<v1::ProgressReply>> {
    auto reply = std::make_unique<v1::ProgressReply>(Reply());
    ++looks_;
    const int64_t now = reply->nodes(0).now_unix_ns();
    for (const int rank : {0, 1}) {
      v1::ProcessProgress& process = *reply->mutable_nodes(0)->mutable_processes(rank);
      v1::CommunicatorProgress& communicator = *process.add_communicators();
      communicator.set_id(0xab);
      communicator.set_rank(rank);
      communicator.set_ranks(2);
      communicator.set_reports_launches(true);
      communicator.set_reports_kernels(true);
      const uint64_t entered = rank == 0 ? 2 : 1;
      communicator.set_operations_entered(entered);
      communicator.set_collectives_entered(entered);
      for (uint64_t number = 1; number <= entered; ++number) {
        v1::OperationProgress& operation = *communicator.add_operations();
        operation.set_position(number);
        operation.set_number(number);
        operation.set_function("AllReduce");
        operation.set_entered_unix_ns(now - 100'000'000'000);
        operation.set_launched_unix_ns(now - 100'000'000'000);
        operation.set_started_unix_ns(now - 100'000'000'000);
        if (number == 1) operation.set_completed_unix_ns(now - 99'000'000'000);
      }
      if (request.ras_size() == 1 && rank == request.ras(0).process().pid() - 100) {
        process.mutable_ras()->set_text(Json(2, 1));
        process.mutable_ras()->set_is_json(true);
        process.mutable_ras()->set_pid(request.ras(0).process().pid());
        asked_.push_back(request.ras(0).process().pid());
      }
    }
    return reply;
  };
  const absl::StatusOr<ExplainedJobs> explained = ExplainRunningJobs(examination);
  ASSERT_TRUE(explained.ok());
  ASSERT_EQ(explained->jobs.size(), 1u);
  EXPECT_EQ(explained->jobs[0].explanation.verdict, Verdict::kHang);
  ASSERT_TRUE(explained->jobs[0].ras.has_value());
  EXPECT_EQ(explained->jobs[0].ras->result, Result::kAgrees);
  EXPECT_THAT(explained->jobs[0].ras->sentences.at(0),
              HasSubstr("rank 1 (node1, pid 101) has called 1 all_reduce"));
  EXPECT_EQ(asked_, std::vector<int32_t>{100}) << "not the late rank";
}

}  // namespace
}  // namespace lockstep::aggregator
