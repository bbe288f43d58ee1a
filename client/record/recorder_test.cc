// Tests the slots of a capture with application threads and the agent's thread: claiming, leaving, being
// stuck.
#include "client/record/recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/abi/support/daemon_end.h"

namespace lockstep::client {
namespace {

class RecorderTest : public testing::Test {
 protected:
  RecorderTest() : recorder_(flags_), memory_(ring::kMaxRings * (4u << 10)) {
    EXPECT_TRUE(recorder_.Init(nullptr));
    EXPECT_EQ(client_.Attach(daemon_.segment.fd(), daemon_.segment.bytes()), ring::AttachError::kNone);
  }
  ~RecorderTest() override {
    flags_.Close();
    client_.Detach();
  }
  void Begin() { recorder_.Begin(++capture_, client_, {memory_.data(), memory_.size()}, ids_); }
  bool End() {
    return recorder_.End(kSystemTiming, &totals_, [](ThreadSlot&) {});
  }
  static void Write(ThreadSlot& slot) {
    slot.ring.New<ring::ClockRecord>();
    slot.ring.Commit();
  }
  uint32_t OwnedRings() {
    uint32_t owned = 0;
    for (uint32_t i = 0; i < client_.ring_count(); ++i) {
      owned += client_.ring(i).state.load() == static_cast<uint32_t>(ring::RingState::kOwned);
    }
    return owned;
  }

  DaemonEnd daemon_{{.main_ring_bytes = 32 << 10, .thread_ring_bytes = 32 << 10, .ring_count = 4}};
  ring::ClientSegment client_;
  RecordingFlags flags_;
  Recorder recorder_;
  StringIds ids_;
  std::vector<std::byte> memory_;
  RecorderTotals totals_;
  uint64_t capture_ = 0;
};

TEST_F(RecorderTest, NoThreadEntersWhileClosed) { EXPECT_EQ(recorder_.Enter(), nullptr); }

TEST_F(RecorderTest, AThreadKeepsItsSlotForTheCaptureAndReturnsItsRing) {
  Begin();
  ThreadSlot* first = recorder_.Enter();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->thread, static_cast<uint32_t>(::gettid()));
  Write(*first);
  recorder_.Leave(*first);
  ThreadSlot* again = recorder_.Enter();
  EXPECT_EQ(again, first);
  recorder_.Leave(*again);
  EXPECT_EQ(OwnedRings(), 1u);
  EXPECT_TRUE(End());
  EXPECT_EQ(OwnedRings(), 0u);
  EXPECT_EQ(totals_.records, 1u);
  EXPECT_EQ(recorder_.Enter(), nullptr);
}

TEST_F(RecorderTest, RefusesReentryOnTheSameThread) {
  Begin();
  ThreadSlot* slot = recorder_.Enter();
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(recorder_.Enter(), nullptr) << "as from a signal handler";
  recorder_.Leave(*slot);
}

TEST_F(RecorderTest, AStuckThreadDoesNotBlockTheEndAndFreesItsSlotLater) {
  Begin();
  std::atomic<bool> inside{false};
  std::atomic<bool> leave{false};
  std::thread stuck([&] {
    ThreadSlot* slot = recorder_.Enter();
    inside = true;
    while (!leave) std::this_thread::yield();
    recorder_.Leave(*slot);
  });
  while (!inside) std::this_thread::yield();
  const auto before = kSystemTiming.monotonic();
  EXPECT_FALSE(End());
  EXPECT_LT((kSystemTiming.monotonic() - before).millis(), 1000);
  leave = true;
  stuck.join();
  Begin();
  std::set<ThreadSlot*> slots;
  std::vector<std::thread> threads;
  std::atomic<int> entered{0};
  std::atomic<bool> go{false};
  ThreadSlot* got[3] = {};
  for (auto& slot : got) {
    threads.emplace_back([&] {
      slot = recorder_.Enter();
      ++entered;
      while (!go) std::this_thread::yield();
      if (slot != nullptr) recorder_.Leave(*slot);
    });
  }
  while (entered < 3) std::this_thread::yield();
  go = true;
  for (auto& thread : threads) thread.join();
  for (ThreadSlot* slot : got) slots.insert(slot);
  EXPECT_EQ(slots.size(), 3u) << "all three rings can be had again";
  EXPECT_EQ(slots.count(nullptr), 0u);
  EXPECT_TRUE(End());
}

TEST_F(RecorderTest, ThreadsRacingWithTheEndRecordOrAreRefused) {
  for (int round = 0; round < 200; ++round) {
    Begin();
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> written{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!stop) {
          ThreadSlot* slot = recorder_.Enter();
          if (slot == nullptr) continue;
          Write(*slot);
          ++written;
          recorder_.Leave(*slot);
        }
      });
    }
    while (written.load() == 0) std::this_thread::yield();
    totals_ = {};
    EXPECT_TRUE(End());
    stop = true;
    for (auto& thread : threads) thread.join();
    // The writer counted the records that a full ring dropped; they are not among its records.
    const uint64_t lost = daemon_.Lost(ring::LossReason::kRingFull, ring::RecordKind::kClock);
    EXPECT_EQ(daemon_.Drain().size(), totals_.records);
    EXPECT_GE(written.load() + lost, totals_.records);
  }
}

}  // namespace
}  // namespace lockstep::client
