#include "aggregator/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/files/own_folder.h"
#include "capture/store/records_manifest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class RetireTest : public ::testing::Test {
 protected:
  RetireTest() {
    char pattern[] = "/tmp/lockstep-retire-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~RetireTest() override { fs::remove_all(folder_); }
  void Add(const std::string& name) {
    ASSERT_TRUE(MakeOwnFolder(folder_ + "/" + name, OwnFolder::kStoredCapture).ok());
    std::ofstream(folder_ + "/" + name + "/x") << std::string(1000, 'x');
  }
  std::vector<std::string> Names(const Retention& limits, std::optional<JobTime> now = std::nullopt,
                                 const std::string& writing = "") {
    std::vector<std::string> names;
    last_ = Retire(folder_, limits, now, surplus_, use_,
                   [&](const std::string& name) { return name == writing; });
    for (const RetiredCapture& capture : last_.captures) names.push_back(capture.name + " " + capture.reason);
    return names;
  }
  std::string folder_;
  std::set<std::string> surplus_;
  aggregator::CaptureUse use_;
  Retired last_;
};

TEST_F(RetireTest, RemovesTheOldestExceptThoseInUseAndTheNewest) {
  for (const char* name : {"a", "b", "c", "d"}) Add(name);
  EXPECT_THAT(Names({.captures = 100, .bytes = 10000, .age = std::nullopt}), IsEmpty());
  EXPECT_THAT(Names({.captures = 100, .bytes = 2500, .age = std::nullopt}, std::nullopt, "b"),
              ElementsAre("a bytes", "c bytes"));
  EXPECT_EQ(last_.left.captures, 2u);
  EXPECT_EQ(last_.left.bytes, MeasureStore(folder_).bytes);
  EXPECT_THAT(Names({.captures = 0, .bytes = 0, .age = std::nullopt}, std::nullopt, "b"), IsEmpty())
      << "in use, and the newest";
  EXPECT_THAT(Retire(folder_ + "/none", {}, std::nullopt, {}, use_, [](const std::string&) { return false; })
                  .captures,
              IsEmpty());
}

TEST_F(RetireTest, AUsersOldestGoBeforeThoseOfOthers) {
  const auto add = [&](const std::string& name, uint32_t uid) {
    Add(name);
    capture::Manifest manifest;
    manifest.uid = uid;
    fs::create_directory(folder_ + "/" + name + "/records");
    std::ofstream(folder_ + "/" + name + "/records/manifest.json") << capture::ManifestToJson(manifest);
  };
  add("a", 1);
  for (const char* name : {"b", "c", "d", "e"}) add(name, 2);
  Add("f");
  const uint64_t one = MeasureStore(folder_).bytes / 5;
  EXPECT_THAT(Names({.captures = 100, .bytes = 100 * one, .user_bytes = 5 * one, .age = std::nullopt}),
              IsEmpty());
  EXPECT_THAT(
      Names({.captures = 100, .bytes = 100 * one, .user_bytes = 5 * one / 2, .age = std::nullopt}, {}, "c"),
      ElementsAre("b user_bytes", "d user_bytes"));
  EXPECT_THAT(Names({.captures = 100, .bytes = 100 * one, .user_bytes = 0, .age = std::nullopt}),
              ElementsAre("c user_bytes"))
      << "each user keeps the newest, and f is of no known user";
  EXPECT_EQ(last_.left.bytes, MeasureStore(folder_).bytes);
}

TEST_F(RetireTest, SurplusGoesRegardlessOfTheLimits) {
  for (const char* name : {"a", "b", "c"}) Add(name);
  fs::create_directories(folder_ + "/d/experiment");
  surplus_ = {"b", "c", "d", "gone"};
  EXPECT_THAT(Names({.captures = 100, .bytes = 10000, .age = std::nullopt}, std::nullopt, "b"),
              ElementsAre("c recording"));
  EXPECT_EQ(last_.left.captures, 2u);
  EXPECT_THAT(Names({.captures = 100, .bytes = 10000, .age = std::nullopt}), ElementsAre("b recording"));
  EXPECT_TRUE(fs::exists(folder_ + "/d/experiment"));
}

TEST_F(RetireTest, FoldersOfOthersStay) {
  Add("b");
  fs::create_directories(folder_ + "/a/experiment");
  fs::create_directories(folder_ + "/.removing-thesis");
  EXPECT_EQ(MeasureStore(folder_).captures, 1u);
  EXPECT_THAT(Names({.captures = 0, .bytes = 0, .age = std::nullopt}), IsEmpty());
  EXPECT_TRUE(fs::exists(folder_ + "/a/experiment"));
  EXPECT_TRUE(fs::exists(folder_ + "/.removing-thesis"));
}

TEST_F(RetireTest, TheLastWrittenCaptureOfASecondIsTheNewest) {
  const std::string last = "20260101-000000-00000a", first = "20260101-000000-ffffff";
  for (const std::string& name : {first, last}) Add(name);
  const auto now = fs::last_write_time(folder_ + "/" + last);
  fs::last_write_time(folder_ + "/" + first, now - std::chrono::milliseconds(300));
  EXPECT_THAT(Names({.captures = 1, .bytes = 1 << 20, .age = std::nullopt}),
              ElementsAre(first + " captures"));
}

TEST_F(RetireTest, RemovesExpiredCapturesButNoFutureOnesAndNoOtherNames) {
  for (const char* name :
       {"20260101-000000-00000a", "20260115-120000-00000b", "20270101-000000-00000c", "mine"})
    Add(name);
  const JobTime now = *CaptureTime("20260201-000000-000000");
  const Retention month = {.captures = 100, .bytes = 1 << 20, .age = Nanos::Seconds(30 * 86400)};
  EXPECT_THAT(Names(month), IsEmpty()) << "the time is not known";
  EXPECT_THAT(Names(month, now), ElementsAre("20260101-000000-00000a age"));
  fs::remove_all(folder_ + "/20270101-000000-00000c");
  fs::remove_all(folder_ + "/mine");
  EXPECT_THAT(Names(month, now + Nanos::Seconds(90 * 86400)), ElementsAre("20260115-120000-00000b age"));
}

TEST_F(RetireTest, KeepsACaptureUntilItsReaderIsDone) {
  for (const char* name : {"a", "b", "c"}) Add(name);
  auto reading = use_.Read("a");
  ASSERT_NE(reading, nullptr);
  EXPECT_THAT(Names({.captures = 1, .bytes = 1 << 20, .age = std::nullopt}), ElementsAre("b captures"));
  EXPECT_TRUE(fs::exists(folder_ + "/a/x"));
  reading = nullptr;
  EXPECT_THAT(Names({.captures = 1, .bytes = 1 << 20, .age = std::nullopt}), ElementsAre("a captures"));
  ASSERT_TRUE(use_.BeginRemoval("c"));
  EXPECT_EQ(use_.Read("c"), nullptr) << "it is being removed";
  use_.EndRemoval("c");
  EXPECT_NE(use_.Read("c"), nullptr);
}

TEST_F(RetireTest, FinishesTheRemovalsOfAnEarlierProcess) {
  Add(".removing-a");
  Add("b");
  EXPECT_EQ(MeasureStore(folder_).captures, 1u);
  EXPECT_THAT(Names({}), IsEmpty());
  EXPECT_FALSE(fs::exists(folder_ + "/.removing-a"));
}

TEST(CaptureTime, ParsesOnlyOurNames) {
  EXPECT_EQ(CaptureTime("19700102-000001-00000a"), JobTime(86'401'000'000'000));
  for (const char* other : {"", "a", "20260101", "20261301-000000-a", "20260132-000000-a",
                            "20260101-250000-a", "2026010a-000000-a"}) {
    EXPECT_EQ(CaptureTime(other), std::nullopt) << other;
  }
}

TEST(ClockStepDetector, AStepInEitherDirectionIsUnreliableOnce) {
  ClockStepDetector detector;
  JobTime now(1'790'000'000'000'000'000);
  MonoTime mono(5);
  const auto pass = [&](Nanos wall, Nanos real) {
    now += wall;
    mono += real;
    return detector.IsReliable(now, mono);
  };
  EXPECT_TRUE(pass(Nanos(), Nanos()));
  EXPECT_TRUE(pass(Nanos::Seconds(3601), Nanos::Seconds(3600)));
  EXPECT_FALSE(pass(Nanos::Seconds(10 * 86400), Nanos::Seconds(3600)));
  EXPECT_TRUE(pass(Nanos::Seconds(3600), Nanos::Seconds(3600))) << "it went on as the other did";
  EXPECT_FALSE(pass(Nanos::Seconds(-10 * 86400), Nanos::Seconds(3600)));
}

}  // namespace
}  // namespace lockstep::aggregator
