#include "base/job_name.h"

#include "gtest/gtest.h"

namespace lockstep {
namespace {

TEST(JobName, AJobSelectsItsSteps) {
  const JobNames step = {"123.0", "Slurm", "123"};
  for (const char* wanted : {"123", "123.0"}) EXPECT_TRUE(SelectsJob(wanted, step)) << wanted;
  for (const char* wanted : {"", "12", "1234", "123.", "123.00", "123.1", "123_0"})
    EXPECT_FALSE(SelectsJob(wanted, step)) << wanted;
}

TEST(JobName, AnArrayTaskIsSelectedByArrayTaskOrNumber) {
  const JobNames task = {"123_4.1", "Slurm", "130"};
  for (const char* wanted : {"123", "123_4", "123_4.1", "130", "130.1"})
    EXPECT_TRUE(SelectsJob(wanted, task)) << wanted;
  for (const char* wanted : {"123_", "123_40", "123.1", "130.0", "13", "1301", "4"})
    EXPECT_FALSE(SelectsJob(wanted, task)) << wanted;
}

TEST(JobName, SplitsOnlySlurmsNames) {
  const JobNames own = {"sweep_4.1", "LOCKSTEP", ""};
  EXPECT_TRUE(SelectsJob("sweep_4.1", own));
  EXPECT_FALSE(SelectsJob("sweep", own));
  EXPECT_FALSE(SelectsJob("sweep_4", own));
}

TEST(JobName, TheSchedulersNumberSelectsALaunchersJob) {
  const JobNames pbs = {"3735552", "PMIx", "88[4].head.cluster"};
  for (const char* wanted : {"3735552", "88[4].head.cluster", "88[4]"})
    EXPECT_TRUE(SelectsJob(wanted, pbs)) << wanted;
  for (const char* wanted : {"", "88", "88[4].head", "8"}) EXPECT_FALSE(SelectsJob(wanted, pbs)) << wanted;
  EXPECT_TRUE(SelectsJob("f2Abc", {"1", "PMIx", "f2Abc"}));
}

}  // namespace
}  // namespace lockstep
