#include "daemon/node/scheduler_jobs.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using testing::HasSubstr;

constexpr uid_t kAlice = 12001, kBob = 12002;

class Processes final : public ProcessTable {
 public:
  std::optional<ProcessInfo> Find(int32_t pid) const override {
    const auto found = known.find(pid);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }
  ProcessInfo Add(int32_t pid, int32_t parent) {
    return known[pid] = {{pid, static_cast<uint64_t>(pid) * 10}, parent};
  }
  std::string ControlGroups(int32_t pid) const override {
    const auto found = groups.find(pid);
    return found == groups.end() ? "" : found->second;
  }
  std::map<int32_t, ProcessInfo> known;
  std::map<int32_t, std::string> groups;
};

class SchedulerJobsTest : public testing::Test {
 protected:
  // slurmd is 10, slurmstepd 20 and 30. The others are their descendants and a login shell.
  void SetUp() override {
    processes_.Add(10, 1);
    processes_.Add(20, 10);
    processes_.Add(21, 20);
    processes_.Add(22, 21);
    processes_.Add(30, 10);
    processes_.Add(31, 30);
    processes_.Add(40, 1);
  }
  static v1::BeginJobRequest Step(uint32_t job, uid_t uid, uint32_t step, int32_t pid) {
    v1::BeginJobRequest request = Job(job, uid);
    request.set_step(step);
    request.set_pid(pid);
    return request;
  }
  static v1::BeginJobRequest Job(uint32_t job, uid_t uid) {
    v1::BeginJobRequest request;
    request.set_job(job);
    request.set_uid(uid);
    return request;
  }
  // Returns the identity of a process with this environment, or the reason for its refusal.
  std::string JobAfterApply(int32_t pid, uid_t uid, const char* environment) {
    Identity identity = Identify({environment, {pid, 1}, {}});
    const absl::Status status = jobs_.ApplyTo(*processes_.Find(pid), uid, identity);
    applied_ = identity;
    return status.ok() ? identity.job : std::string(status.message());
  }

  Processes processes_;
  SchedulerJobs jobs_{processes_};
  Identity applied_;
};

TEST_F(SchedulerJobsTest, DescendantsOfAStepBelongToItDespiteTheirEnvironment) {
  EXPECT_EQ(*jobs_.Begin(Step(12, kAlice, 0, 20)), "12.0");
  EXPECT_EQ(JobAfterApply(22, kAlice, "SLURM_JOB_ID=12\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=4\n"),
            "12.0");
  EXPECT_TRUE(applied_.job_by_scheduler);
  EXPECT_EQ(JobAfterApply(22, kAlice, ""), "12.0") << "env -i";
  EXPECT_EQ(applied_.job_source, "Slurm");
  EXPECT_EQ(JobAfterApply(22, kAlice, "SLURM_JOB_ID=99\nSLURM_STEP_ID=3\n"), "12.0") << "another of her jobs";
  EXPECT_EQ(applied_.scheduler_job, "12");
  EXPECT_EQ(JobAfterApply(22, kAlice, "TORCHELASTIC_RUN_ID=exp\n"), "12.0");
  EXPECT_EQ(JobAfterApply(22, kAlice, "LOCKSTEP_JOB=exp\n"), "exp") << "her own choice";
}

TEST_F(SchedulerJobsTest, ProcessesInAStepsControlGroupBelongToIt) {
  constexpr char kSlurm[] = "0::/system.slice/slurmstepd.scope/job_12/";
  processes_.groups = {{20, absl::StrCat(kSlurm, "step_0/slurm\n")},
                       {30, absl::StrCat(kSlurm, "step_1/slurm\n")},
                       {40, absl::StrCat(kSlurm, "step_0/user/task_3\n")}};
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 0, 20)).ok());
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 1, 30)).ok());
  EXPECT_EQ(JobAfterApply(40, kAlice, ""), "12.0") << "no descendant of slurmstepd";
  EXPECT_TRUE(applied_.job_by_scheduler);
  EXPECT_THAT(JobAfterApply(40, kBob, ""), HasSubstr("runs in Slurm's job 12.0"));
  processes_.groups[40] = absl::StrCat(kSlurm, "step_10/user/task_0\n");
  EXPECT_NE(JobAfterApply(40, kAlice, ""), "12.0") << "another step";
  processes_.groups[40] = "0::/user.slice/user-12001.slice/user@12001.service/job_12/step_0\n";
  EXPECT_NE(JobAfterApply(40, kAlice, ""), "12.0") << "a group that the user made";
}

TEST_F(SchedulerJobsTest, FindsTheGroupInEachVersionOfControlGroups) {
  constexpr char kFirst[] =
      "11:devices:/slurm/uid_12001/job_12/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service\n";
  processes_.groups = {
      {20, kFirst},
      {40, "9:cpuset:/slurm/uid_12001/job_12/step_0\n11:devices:/slurm/uid_12001/job_12/step_0/task_1\n"}};
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 0, 20)).ok());
  EXPECT_EQ(JobAfterApply(40, kAlice, ""), "12.0");
  EXPECT_TRUE(StepGroup::Of("0::/system.slice/slurmstepd.scope/job_123/step_0\n", 12).empty())
      << "another job's number";
  EXPECT_TRUE(StepGroup::Of("0::/system.slice/slurmd.service\n", 12).empty());
  EXPECT_TRUE(StepGroup::Of("0::/a/job_12\n", 12).Holds("0::/a/job_12/step_3/user\n")) << "the batch script";
  EXPECT_FALSE(StepGroup().Holds(""));
}

TEST_F(SchedulerJobsTest, RefusesAnotherUserInAJobAndNamesIt) {
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 0, 20)).ok());
  EXPECT_THAT(JobAfterApply(22, kBob, "SLURM_JOB_ID=12\n"),
              HasSubstr("runs in Slurm's job 12.0, which is user 12001's, as user 12002"));
  EXPECT_THAT(JobAfterApply(21, 0, ""), HasSubstr("as user 0"));
}

TEST_F(SchedulerJobsTest, RefusesClaimsOfAnotherUsersJob) {
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 0, 20)).ok());
  ASSERT_TRUE(jobs_.Begin(Step(13, kBob, 0, 30)).ok());
  for (const char* claim : {"SLURM_JOB_ID=12\n", "SLURM_JOB_ID=12\nSLURM_STEP_ID=0\n", "LOCKSTEP_JOB=12\n",
                            "LOCKSTEP_JOB=12.0\n"}) {
    EXPECT_THAT(JobAfterApply(40, kBob, claim), HasSubstr("which is user 12001's according to Slurm"))
        << claim;
    EXPECT_EQ(JobAfterApply(40, kAlice, claim).find("user"), std::string::npos) << claim;
  }
  EXPECT_THAT(JobAfterApply(31, kBob, "LOCKSTEP_JOB=12\n"), HasSubstr("which is user 12001's"))
      << "from within his own job neither";
  EXPECT_EQ(JobAfterApply(31, kBob, "SLURM_JOB_ID=12\n"), "13.0")
      << "but set right where the environment is merely wrong";
  EXPECT_EQ(JobAfterApply(40, kBob, "SLURM_JOB_ID=120\n"), "120");
}

TEST_F(SchedulerJobsTest, APrologNamesTheUserBeforeAnyStep) {
  EXPECT_EQ(*jobs_.Begin(Job(12, kAlice)), "12");
  EXPECT_THAT(JobAfterApply(40, kBob, "SLURM_JOB_ID=12\nSLURM_STEP_ID=0\n"), HasSubstr("user 12001's"));
  EXPECT_EQ(JobAfterApply(40, kAlice, "SLURM_JOB_ID=12\nSLURM_STEP_ID=0\n"), "12.0");
  EXPECT_FALSE(applied_.job_by_scheduler);
  EXPECT_FALSE(jobs_.HasStarters());
  EXPECT_EQ(jobs_.End(12).size(), 1u);
  EXPECT_EQ(JobAfterApply(40, kBob, "SLURM_JOB_ID=12\nSLURM_STEP_ID=0\n"), "12.0") << "forgotten";
}

TEST_F(SchedulerJobsTest, ArraysTasksAndSteps) {
  v1::BeginJobRequest task = Step(130, kAlice, 1, 20);
  task.set_array_job(123);
  task.set_array_task(0);
  EXPECT_EQ(*jobs_.Begin(task), "123_0.1");
  EXPECT_EQ(
      JobAfterApply(22, kAlice,
                    "SLURM_JOB_ID=130\nSLURM_ARRAY_JOB_ID=123\nSLURM_ARRAY_TASK_ID=0\nSLURM_STEP_ID=1\n"),
      "123_0.1");
  EXPECT_EQ(applied_.scheduler_job, "130");
  for (const char* claim : {"LOCKSTEP_JOB=123\n", "LOCKSTEP_JOB=123_0\n", "SLURM_JOB_ID=130\n"}) {
    EXPECT_THAT(JobAfterApply(40, kBob, claim), HasSubstr("user 12001's")) << claim;
  }
  EXPECT_EQ(JobAfterApply(40, kBob, "LOCKSTEP_JOB=123_7\n"), "123_7");
}

TEST_F(SchedulerJobsTest, AHeterogeneousJobIsOneByItsFirstComponent) {
  v1::BeginJobRequest second = Step(3, kAlice, 0, 20);
  second.set_het_leader(2);
  EXPECT_EQ(*jobs_.Begin(second), "2.0");
  EXPECT_EQ(JobAfterApply(
                22, kAlice,
                "SLURM_JOB_ID=2\nSLURM_STEP_ID=0\nSLURM_PROCID=4\nSLURM_NTASKS=5\nSLURM_STEP_NUM_TASKS=5\n"),
            "2.0");
  EXPECT_EQ(applied_.world_size, 5);
  EXPECT_THAT(JobAfterApply(40, kBob, "SLURM_JOB_ID=3\n"), HasSubstr("user 12001's"));
  EXPECT_EQ(JobAfterApply(40, kBob, "SLURM_JOB_ID=2\n"), "2")
      << "the leader's number came from Alice's environment";
}

TEST_F(SchedulerJobsTest, AStepEndsWithItsProcess) {
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 0, 20)).ok());
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 1, 30)).ok());
  EXPECT_TRUE(jobs_.EndStepsOfDeadStarters().empty());
  processes_.known[20].id.start_ticks = 7;  // the pid was reused
  const auto ended = jobs_.EndStepsOfDeadStarters();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].name, "12.0");
  processes_.known[30].ended = true;
  EXPECT_EQ(jobs_.EndStepsOfDeadStarters().size(), 1u);
  EXPECT_FALSE(jobs_.HasStarters());
}

TEST_F(SchedulerJobsTest, TheNewestStatementCounts) {
  ASSERT_TRUE(jobs_.Begin(Step(12, kAlice, 0, 20)).ok());
  ASSERT_TRUE(jobs_.Begin(Step(12, kBob, 0, 30)).ok());
  EXPECT_EQ(jobs_.End(12).size(), 1u) << "numbers come round: Alice's is gone";
}

TEST_F(SchedulerJobsTest, ABatchScriptsProcessAndTheOneBesideItAreBothKept) {
  v1::BeginJobRequest batch = Job(12, kAlice), beside = Job(12, kAlice);
  batch.set_pid(20);
  beside.set_pid(30);
  ASSERT_TRUE(jobs_.Begin(batch).ok());
  ASSERT_TRUE(jobs_.Begin(beside).ok());
  EXPECT_EQ(JobAfterApply(22, kAlice, ""), "12");
  EXPECT_EQ(JobAfterApply(31, kAlice, ""), "12");
}

TEST_F(SchedulerJobsTest, RefusesInvalidJobsAndTooManySteps) {
  EXPECT_TRUE(absl::IsInvalidArgument(jobs_.Begin(Job(0, kAlice)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(jobs_.Begin(Step(12, kAlice, 0, 999)).status()));
  for (uint32_t i = 1; i <= SchedulerJobs::kMost; ++i) ASSERT_TRUE(jobs_.Begin(Job(i, kAlice)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(jobs_.Begin(Job(1'000'000, kAlice)).status()));
  EXPECT_TRUE(jobs_.Begin(Job(1, kAlice)).ok()) << "one that is known";
}

}  // namespace
}  // namespace lockstep::daemon
