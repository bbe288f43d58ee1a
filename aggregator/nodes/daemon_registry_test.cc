#include "aggregator/nodes/daemon_registry.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

class SetClock final : public JobClock {
 public:
  JobTime Now() const override { return now; }
  JobTime now{1'800'000'000'000'000'000};
};

class Silent final : public DaemonConnection {
 public:
  bool Send(const v1::FromAggregator&) override { return true; }
  void Close() override {}
};

class DaemonRegistryTest : public testing::Test {
 protected:
  static constexpr Nanos kHour = Nanos::Seconds(3600);

  std::shared_ptr<Silent> Connect(const std::string& node, uint64_t session = 1) {
    v1::DaemonHello hello;
    *hello.mutable_version() = DaemonRegistry::Protocol();
    hello.set_node_id(node);
    hello.set_session(session);
    auto connection = std::make_shared<Silent>();
    EXPECT_EQ(daemons_.Connect(hello, connection, {}).refused(), "");
    return connection;
  }
  // A daemon that connects, stores a message, and leaves.
  void Visit(const std::string& node) {
    const auto connection = Connect(node);
    daemons_.Acknowledge({node, 1}, 7);
    daemons_.Disconnect({node, 1}, connection.get());
  }
  bool IsKnown(const std::string& node) {
    const auto sequence = daemons_.Sequence({node, 1});
    MutexLock lock(&sequence->mutex);
    return sequence->durable == 7;
  }

  SetClock clock_;
  DaemonRegistry daemons_{clock_, 16, &LogNothing};
};

TEST_F(DaemonRegistryTest, ForgetsADaemonADayAfterItHasLeft) {
  Visit("a");
  clock_.now = clock_.now + kHour * 23;
  Visit("b");
  EXPECT_EQ(daemons_.Absent().size(), 2u);
  EXPECT_TRUE(IsKnown("a")) << "it may return, and then sends no message twice";
  clock_.now = clock_.now + kHour * 2;
  Visit("c");
  EXPECT_EQ(daemons_.Absent().size(), 2u) << "b and c";
  EXPECT_FALSE(IsKnown("a"));
  EXPECT_TRUE(IsKnown("b"));
}

TEST_F(DaemonRegistryTest, ForgetsTheOldestOfTooMany) {
  const auto stays = Connect("stays");
  Visit("oldest");
  for (int i = 0; i < 1024; ++i) {
    clock_.now = clock_.now + Nanos::Millis(1);
    Visit("n" + std::to_string(i));
  }
  EXPECT_FALSE(IsKnown("oldest"));
  EXPECT_TRUE(IsKnown("n0"));
  EXPECT_TRUE(daemons_.IsConnected({"stays", 1}, stays.get()));
}

TEST_F(DaemonRegistryTest, KeepsADaemonOfAnEarlierProcessForADay) {
  daemons_.Acknowledge({"restored", 1}, 7);
  Visit("other");
  EXPECT_TRUE(IsKnown("restored"));
  EXPECT_EQ(daemons_.Absent().size(), 1u) << "it has not been connected";
}

}  // namespace
}  // namespace lockstep::aggregator
