#include "daemon/drain/user_drainers.h"

#include <chrono>
#include <future>

#include "base/clock.h"
#include "gtest/gtest.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/writer.h"

namespace lockstep::daemon {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

class UserDrainersTest : public testing::Test {
 protected:
  std::shared_ptr<DaemonSegment> Begin(uid_t uid, int32_t pid) {
    std::shared_ptr<DaemonSegment> segment = *DaemonSegment::Create({.ring_count = 1});
    drainers_.Begin(uid, {pid, 1}, segment, 1, "capture", spool_);
    return segment;
  }
  // Returns the number of records that the drain took.
  std::future<uint64_t> End(int32_t pid) {
    auto done = std::make_shared<std::promise<uint64_t>>();
    drainers_.End({pid, 1}, {.done = [done](uint64_t records, const std::function<void()>&) {
                    done->set_value(records);
                  }});
    return done->get_future();
  }
  static void Write(const DaemonSegment& segment, size_t records) {
    ring::ClientSegment client;
    ASSERT_EQ(client.Attach(segment.fd(), segment.bytes()), ring::AttachError::kNone);
    ring::RingWriter writer = client.Writer(0);
    for (size_t i = 0; i < records; ++i) {
      ASSERT_NE(writer.New<ring::ApiRecord>(), nullptr);
      writer.Commit();
    }
    client.Detach();
  }

  SystemClock clock_;
  losses::LossTable losses_{{"ring", "spool"}};
  std::shared_ptr<Spool> spool_ = std::make_shared<Spool>(1u << 20, clock_, losses_);
  UserDrainers drainers_{clock_};
};

TEST_F(UserDrainersTest, AUserWhoseDrainIsStuckDelaysNobodyElse) {
  Begin(1, 10);
  std::promise<void> other_is_done;
  auto stuck = std::make_shared<std::promise<void>>();
  drainers_.End({10, 1}, {.done = [&, stuck](uint64_t, const std::function<void()>&) {
                  other_is_done.get_future().wait_for(kLimit);
                  stuck->set_value();
                }});
  const auto segment = Begin(2, 20);
  Write(*segment, 7);
  auto other = End(20);
  ASSERT_EQ(other.wait_for(kLimit / 2), std::future_status::ready);
  EXPECT_EQ(other.get(), 7u);
  other_is_done.set_value();
  EXPECT_EQ(stuck->get_future().wait_for(kLimit), std::future_status::ready);
}

TEST_F(UserDrainersTest, KeepsTheTotalsOfUsersWhoHaveLeft) {
  Write(*Begin(1, 10), 3);
  EXPECT_EQ(End(10).get(), 3u);
  Write(*Begin(2, 20), 4);
  EXPECT_EQ(End(20).get(), 4u);
  Begin(3, 30);
  EXPECT_EQ(drainers_.stats().records, 7u);
}

TEST_F(UserDrainersTest, AnAbandonedProcessIsNotDrained) {
  const auto segment = Begin(1, 10);
  drainers_.Abandon({10, 1});
  Write(*segment, 3);
  Begin(2, 20);
  End(20).get();
  EXPECT_EQ(drainers_.stats().records, 0u);
}

}  // namespace
}  // namespace lockstep::daemon
