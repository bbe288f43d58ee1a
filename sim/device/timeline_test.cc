#include "sim/device/timeline.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::sim {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

class TimelineTest : public ::testing::Test {
 protected:
  ItemRef Work(int64_t duration, std::vector<ItemRef> after = {}, int64_t given = 0) {
    auto item = std::make_shared<Item>();
    item->earliest_start_ns = given;
    item->duration_ns = duration;
    item->after = std::move(after);
    timeline_.Submit(item);
    return item;
  }

  int64_t now_ = 0;
  Timeline timeline_{[this] { return now_; }, nullptr};
};

TEST_F(TimelineTest, ComputesTimesAtOnceAndDelaysEffects) {
  std::vector<int> ran;
  const ItemRef first = Work(100, {}, 10), second = Work(50, {first}, 10), elsewhere = Work(30, {}, 20);
  first->effect = [&] { ran.push_back(1); };
  second->effect = [&] { ran.push_back(2); };
  EXPECT_EQ(timeline_.Advance(), 10);
  EXPECT_EQ(second->start_ns, 110);
  EXPECT_EQ(second->end_ns, 160);
  EXPECT_EQ(elsewhere->end_ns, 50);
  EXPECT_TRUE(ran.empty());
  now_ = 60;
  timeline_.Advance();
  EXPECT_EQ(ran, (std::vector<int>{1}));
  EXPECT_TRUE(timeline_.Done(elsewhere));
  EXPECT_FALSE(timeline_.Done(first));
  now_ = 1000;  // a very late wake-up, which changes no time
  EXPECT_EQ(timeline_.Advance(), kNever);
  EXPECT_EQ(ran, (std::vector<int>{1, 2}));
  EXPECT_TRUE(timeline_.Done(second));
  EXPECT_EQ(second->end_ns, 160);
}

TEST_F(TimelineTest, ReportsStampsOnceAsSoonAsTheyAreKnown) {
  int told = 0;
  const ItemRef item = Work(100, {}, 10);
  item->timed = [&](const Item& i) {
    ++told;
    EXPECT_EQ(i.start_ns, 10);
    EXPECT_EQ(i.end_ns, 110);
  };
  timeline_.Advance();
  now_ = 500;
  timeline_.Advance();
  EXPECT_EQ(told, 1);
}

struct FakeCompletion : ExternalCompletion {
  void Entered(const ItemRef&, int64_t start_ns) override { entered = start_ns; }
  void Begin(const ItemRef&) override { begun = true; }
  int64_t entered = -1;
  bool begun = false;
};

TEST_F(TimelineTest, AnExternalCompletionDelaysLaterItems) {
  auto external = std::make_shared<FakeCompletion>();
  const ItemRef before = Work(100, {}, 10);
  auto collective = std::make_shared<Item>();
  collective->after = {before};
  collective->external = external;
  timeline_.Submit(collective);
  const ItemRef after = Work(5, {collective});
  timeline_.Advance();
  EXPECT_EQ(external->entered, 110) << "the others may know it before the clock is there";
  EXPECT_FALSE(external->begun);
  EXPECT_EQ(after->start_ns, -1);
  now_ = 120;
  timeline_.Advance();
  EXPECT_TRUE(external->begun);
  timeline_.SetEnd(collective, 300);
  timeline_.Advance();
  EXPECT_EQ(after->start_ns, 300);
  now_ = 400;
  timeline_.Advance();
  EXPECT_FALSE(timeline_.Done(collective)) << "its data is not there yet";
  timeline_.SetDone(collective);
  timeline_.Advance();
  EXPECT_TRUE(timeline_.Done(collective));
  EXPECT_TRUE(timeline_.Done(after));
  EXPECT_EQ(after->end_ns, 305);
}

TEST_F(TimelineTest, FinishedItemsReleaseEarlierOnes) {
  std::weak_ptr<Item> first;
  ItemRef last;
  for (int i = 0; i < 10; ++i) {
    last = last == nullptr ? Work(10) : Work(10, {last});
    if (i == 0) first = last;
  }
  now_ = 1000;
  timeline_.Advance();
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace lockstep::sim
