// Tests MungePrograms with programs that answer like munge 0.5. tests/e2e/slurm_test.py uses the real ones.
#include "base/rpc/munge.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::rpc {
namespace {

using testing::HasSubstr;

class MungeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = testing::TempDir() + "/lockstep-munge-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Program(const std::string& body) {
    std::string path = absl::StrCat(folder_, "/program", ++programs_);
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }
  absl::StatusOr<uid_t> Read(const std::string& body, const std::string& credential = "MUNGE:AwQ:") {
    return MungePrograms({.unmunge = Program(body), .timeout = timeout_}).Read(credential);
  }

  std::string folder_;
  int programs_ = 0;
  Nanos timeout_ = Nanos::Seconds(20);
};

TEST_F(MungeTest, MakesAShortLivedCredentialForLockstep) {
  const std::string program = Program(absl::StrCat("echo \"$@\" > ", folder_, "/said; echo MUNGE:AwQDAAD=:"));
  const auto made = MungePrograms({.munge = program, .socket = "/run/x"}).Make();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*made, "MUNGE:AwQDAAD=:");
  std::string said;
  std::getline(std::ifstream(folder_ + "/said"), said);
  EXPECT_EQ(said, "--socket=/run/x --string lockstep-control --ttl=60");
}

TEST_F(MungeTest, ReportsWhyThereIsNoCredential) {
  EXPECT_THAT(MungePrograms({.munge = Program("echo 'munge: Error: Socket communication error' >&2; exit 6")})
                  .Make()
                  .status()
                  .message(),
              HasSubstr("Socket communication error"));
  EXPECT_TRUE(absl::IsUnavailable(MungePrograms({.munge = folder_ + "/none"}).Make().status()));
}

TEST_F(MungeTest, ReturnsTheUserOfACredential) {
  const auto uid = Read(
      "read c; [ \"$c\" = MUNGE:AwQ: ] && printf 'STATUS:          Success (0)\\nUID:  "
      "12001\\n\\nlockstep-control'");
  ASSERT_TRUE(uid.ok()) << uid.status();
  EXPECT_EQ(*uid, 12001u);
}

TEST_F(MungeTest, RefusesInvalidCredentials) {
  for (const char* body : {
           "printf 'STATUS: Replayed credential (17)\\nUID: 12001\\n\\nlockstep-control'; exit 17",
           "printf 'STATUS: Success (0)\\nUID: 12001\\n\\nsome-other-service'",
           "printf 'STATUS: Success (0)\\nUID: 12001\\n'",
           "printf 'STATUS: Success (0)\\n\\nUID: 12001\\nlockstep-control'",
           "printf 'UID: 0\\nUID: 12001\\n\\nlockstep-control'",
           "printf 'UID: alice\\n\\nlockstep-control'",
           "true",
       }) {
    EXPECT_TRUE(absl::IsUnauthenticated(Read(body).status())) << body;
  }
  const std::string good = "printf 'UID: 12001\\n\\nlockstep-control'";
  EXPECT_TRUE(Read(good).ok());
  for (const std::string& credential :
       {std::string(), std::string("MUNGE: :"), std::string(5000, 'a'), std::string("MUNGE\n")}) {
    EXPECT_TRUE(absl::IsUnauthenticated(Read(good, credential).status())) << credential.size();
  }
}

TEST_F(MungeTest, KillsAMungeProcessThatHangs) {
  timeout_ = Nanos::Millis(50);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Read("exec sleep 100").status()));
}

}  // namespace
}  // namespace lockstep::rpc
