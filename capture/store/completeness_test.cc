#include "capture/store/completeness.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/schema.h"

namespace lockstep::capture {
namespace {

using columns::Kind;
using testing::HasSubstr;

constexpr Nanos kRequested = Nanos::Seconds(6);
constexpr HostTime kWindowBegin = HostTime(1'700'000'000'000'000'000);

class CompletenessTest : public testing::Test {
 protected:
  CompletenessTest() {
    process_.rank = RankId(3);
    process_.state = "done";
    SetWindow(kRequested);
    rows_[static_cast<size_t>(Kind::kKernel)] = 10;
    rows_[static_cast<size_t>(Kind::kClock)] = 4;
    data_.activities.push_back({});
    data_.activities[0].end = kWindowBegin + Nanos::Seconds(2);
    AddReading(Nanos());
    AddReading(Nanos::Seconds(5));
  }

  void SetWindow(Nanos length) {
    process_.window = {kWindowBegin, kWindowBegin + length};
    data_.window = process_.window;
  }
  void AddReading(Nanos at, Nanos clock_error = Nanos()) {
    ClockReading reading;
    reading.realtime = kWindowBegin + at + clock_error;
    reading.monotonic = MonoTime(1000) + at;
    data_.clocks.push_back(reading);
  }
  std::optional<IncompleteRank> Check(ManifestState manifest = ManifestState::kFinal,
                                      Nanos requested = kRequested) const {
    return CheckProcess({process_, data_, rows_, damaged_}, requested, manifest);
  }
  std::string Reason(ManifestState manifest = ManifestState::kFinal) const {
    const auto entry = Check(manifest);
    return entry ? entry->reason : "";
  }

  ManifestProcess process_;
  RankData data_;
  RowCounts rows_ = {};
  bool damaged_ = false;
};

TEST_F(CompletenessTest, AProcessThatRecordedItsWindowIsWhole) { EXPECT_FALSE(Check()); }

TEST_F(CompletenessTest, AWindowMayBeShorterByItsSlack) {
  SetWindow(kRequested - Nanos::Millis(59));
  EXPECT_FALSE(Check());
  SetWindow(kRequested - Nanos::Millis(61));
  ASSERT_TRUE(Check());
  EXPECT_EQ(Check()->asked, kRequested);
  EXPECT_EQ(Check()->recorded, kRequested - Nanos::Millis(61));
  EXPECT_EQ(Reason(), "its window was too short");
  EXPECT_FALSE(Check(ManifestState::kFinal, Nanos())) << "the length depended on a trigger";
}

TEST_F(CompletenessTest, ALateBeginShortensTheWindow) {
  process_.late = Nanos::Millis(50);
  EXPECT_FALSE(Check());
  process_.late = Nanos::Seconds(2);
  ASSERT_TRUE(Check());
  EXPECT_EQ(Check()->recorded, Nanos::Seconds(4));
  EXPECT_EQ(Reason(), "it began 2 s late");
}

TEST_F(CompletenessTest, AProcessThatDidNotEndSaysWhy) {
  process_.state = "gone";
  process_.text = "its process ended while capturing";
  ASSERT_TRUE(Check());
  EXPECT_EQ(Reason(), "gone: its process ended while capturing");
  EXPECT_EQ(Check()->recorded, Nanos::Seconds(2)) << "until the last record";
  process_.state = "failed";
  EXPECT_EQ(Reason(), "its process ended while capturing");
  process_.state = "unfinished";
  process_.text = "";
  EXPECT_EQ(Reason(), "unfinished: no reason was reported");
}

TEST_F(CompletenessTest, AWindowThatWasCutShortSaysBy) {
  process_.cut = "its daemon was stopped inside the window";
  SetWindow(Nanos::Seconds(2));
  ASSERT_TRUE(Check());
  EXPECT_EQ(Reason(), "its daemon was stopped inside the window");
  EXPECT_EQ(Check()->recorded, Nanos::Seconds(2));
}

TEST_F(CompletenessTest, WithoutAFinalManifestNoProcessIsWhole) {
  EXPECT_THAT(Reason(ManifestState::kOpen), HasSubstr("the aggregator ended before the capture did"));
  EXPECT_THAT(Reason(ManifestState::kNone), HasSubstr("no manifest"));
  process_.state = "unfinished";
  EXPECT_THAT(Reason(ManifestState::kOpen), testing::Not(HasSubstr("unfinished")))
      << "the open manifest has the states of the capture's begin";
}

TEST_F(CompletenessTest, AnEmptyProcessIsNotWhole) {
  rows_[static_cast<size_t>(Kind::kKernel)] = 0;
  ASSERT_TRUE(Check());
  EXPECT_EQ(Check()->recorded, Nanos());
  EXPECT_EQ(Reason(), "it recorded nothing in the window");
  process_.via = "kineto";
  EXPECT_FALSE(Check()) << "its records are in its trace file";
}

TEST_F(CompletenessTest, DamageOnDiskIsNamed) {
  damaged_ = true;
  EXPECT_EQ(Reason(), "some of its records on disk cannot be read");
}

TEST_F(CompletenessTest, ASteppedClockIsNamedWithItsDirection) {
  AddReading(Nanos::Seconds(6), -Nanos::Seconds(3600));
  EXPECT_EQ(Reason(), "its host's clock was set back by 3.6e+03 s during the capture");
  EXPECT_EQ(ClockStep(data_.clocks), -Nanos::Seconds(3600));
  data_.clocks.pop_back();
  AddReading(Nanos::Seconds(6), Nanos::Millis(20));
  EXPECT_EQ(Reason(), "its host's clock was set forward by 0.02 s during the capture");
}

TEST_F(CompletenessTest, ASlewIsNotAStep) {
  AddReading(Nanos::Seconds(105), Nanos::Millis(50));
  EXPECT_FALSE(ClockStep(data_.clocks));
}

TEST_F(CompletenessTest, ImpossibleReadingsAreIgnored) {
  ClockReading reading;
  reading.realtime = HostTime(std::numeric_limits<int64_t>::min());
  reading.monotonic = MonoTime(std::numeric_limits<int64_t>::max());
  data_.clocks.push_back(reading);
  EXPECT_FALSE(ClockStep(data_.clocks));
}

TEST_F(CompletenessTest, EntriesOfARankAreJoinedAndSorted) {
  std::vector<IncompleteRank> all;
  AddIncomplete({RankId(4), "late", Nanos(10), Nanos(5)}, all);
  AddIncomplete({RankId(2), "gone", {}, {}}, all);
  AddIncomplete({RankId(4), "empty", Nanos(10), Nanos()}, all);
  AddIncomplete({RankId(4), "empty", Nanos(10), Nanos(3)}, all);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].rank, RankId(2));
  EXPECT_EQ(all[1].reason, "late; empty");
  EXPECT_EQ(all[1].recorded, Nanos());
}

}  // namespace
}  // namespace lockstep::capture
