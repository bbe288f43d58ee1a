#include "client/python/python_profile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "client/python/python_fixture.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {
namespace {

std::string Contents(const Fd& file) {
  std::string text(100, '\0');
  const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

class PythonProfileTest : public testing::Test {
 protected:
  PythonFake python_;
  PythonProfile profile_{kSystemTiming, kPythonFake};
};

TEST_F(PythonProfileTest, RunsInTheMainThreadAndIsSealed) {
  EXPECT_FALSE(profile_.wanted());
  profile_.Arm();
  python_.RunPending();
  EXPECT_EQ(python_.prepared, 1);
  EXPECT_EQ(python_.begun, 0);
  const HostTime before = kSystemTiming.realtime();
  profile_.Begin();
  profile_.Begin();
  EXPECT_EQ(python_.begun, 0) << "not on our thread";
  python_.RunPending();
  EXPECT_EQ(python_.begun, 1);
  profile_.End();
  profile_.End();
  EXPECT_FALSE(profile_.over());
  python_.RunPending();
  EXPECT_EQ(python_.ended, 1);
  ASSERT_TRUE(profile_.over());
  const PythonProfileResult result = profile_.Take();
  EXPECT_TRUE(result.error.empty()) << result.error.c_str();
  EXPECT_EQ(Contents(result.file), "a profile");
  EXPECT_EQ(result.bytes, 9u);
  EXPECT_GE(result.window.start, before);
  EXPECT_GE(result.window.end, result.window.start);
  EXPECT_LT(::write(result.file.get(), "x", 1), 0);
  EXPECT_NE(::ftruncate(result.file.get(), 0), 0);
  EXPECT_FALSE(profile_.wanted());
}

TEST_F(PythonProfileTest, ReportsAMainThreadInNativeCodeAndStopsItLater) {
  profile_.Arm();
  python_.RunPending();
  profile_.Begin();
  python_.RunPending();
  profile_.End();
  const PythonProfileResult late = profile_.Take();
  EXPECT_FALSE(late.file.ok());
  EXPECT_NE(std::string(late.error.c_str()).find("native code"), std::string::npos);
  EXPECT_EQ(python_.ended, 0);
  python_.RunPending();
  EXPECT_EQ(python_.ended, 1) << "it is not left on";
}

TEST_F(PythonProfileTest, ALateCallOfAnEarlierCaptureIsIgnored) {
  profile_.Arm();
  profile_.Begin();
  python_.RunPending();
  profile_.End();
  profile_.Take();
  profile_.Arm();
  profile_.Begin();
  profile_.End();  // the main thread ran nothing until here
  python_.profile = "of the first";
  python_.RunPending();
  ASSERT_TRUE(profile_.over());
  const PythonProfileResult second = profile_.Take();
  EXPECT_FALSE(second.file.ok());
  EXPECT_FALSE(second.error.empty());
  EXPECT_EQ(python_.begun, python_.ended);
}

TEST_F(PythonProfileTest, AnAbortedProfileIsEndedAndDiscarded) {
  profile_.Arm();
  profile_.Begin();
  python_.RunPending();
  profile_.Abort();
  python_.RunPending();
  EXPECT_EQ(python_.ended, 1);
  // This Abort comes while the main thread is about to begin.
  profile_.Arm();
  profile_.Begin();
  profile_.Abort();
  python_.RunPending();
  EXPECT_EQ(python_.begun, 1);
  profile_.Arm();
  profile_.Begin();
  python_.RunPending();
  profile_.End();
  python_.RunPending();
  EXPECT_EQ(Contents(profile_.Take().file), "a profile");
}

TEST_F(PythonProfileTest, ReportsErrors) {
  profile_.Arm();
  python_.RunPending();
  python_.begin_error = "another profiler is active: Profile";
  profile_.Begin();
  python_.RunPending();
  profile_.End();
  ASSERT_TRUE(profile_.over());
  EXPECT_STREQ(profile_.Take().error.c_str(), "another profiler is active: Profile");

  python_.begin_error.clear();
  python_.takes_calls = false;
  profile_.Arm();
  profile_.Begin();
  ASSERT_TRUE(profile_.over());
  EXPECT_NE(std::string(profile_.Take().error.c_str()).find("accepts no calls"), std::string::npos);

  python_.takes_calls = true;
  profile_.Arm();
  profile_.End();
  ASSERT_TRUE(profile_.over());
  EXPECT_STREQ(profile_.Take().error.c_str(), "the capture ended before the profile began");
}

TEST_F(PythonProfileTest, PassesOnAnExceptionOfTheProgram) {
  profile_.Arm();
  python_.RunPending();
  python_.raises = true;
  profile_.Begin();
  python_.RunPending();
  EXPECT_EQ(python_.last, -1);
  profile_.End();
  ASSERT_TRUE(profile_.over());
  EXPECT_FALSE(profile_.Take().error.empty());
}

TEST_F(PythonProfileTest, ReportsTheSizeOfATooLargeProfile) {
  python_.profile.assign(ring::kMostProfileBytes + 1, 'x');
  profile_.Arm();
  profile_.Begin();
  python_.RunPending();
  profile_.End();
  python_.RunPending();
  const PythonProfileResult result = profile_.Take();
  EXPECT_FALSE(result.file.ok());
  EXPECT_STREQ(result.error.c_str(), "the profile has 64 MiB, more than the limit of 64 MiB");
}

TEST(PythonProfileWithoutPythonTest, ReportsTheReason) {
  PythonProfile profile(kSystemTiming, kPythonFake);
  profile.Arm();
  profile.Begin();
  profile.End();
  ASSERT_TRUE(profile.over());
  EXPECT_STREQ(profile.Take().error.c_str(), "the process runs no Python");
}

TEST(PythonCallsTest, ThisTestRunsNoPython) {
  Sentence why;
  EXPECT_FALSE(kProcessPython.find(&why));
  EXPECT_STREQ(why.c_str(), "the process runs no Python");
}

}  // namespace
}  // namespace lockstep::client
