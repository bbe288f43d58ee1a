#include "aggregator/ingest/durable_acks.h"

#include <memory>
#include <vector>

#include "aggregator/nodes/clock.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Acks final : public DaemonConnection {
 public:
  bool Send(const v1::FromAggregator& message) override {
    MutexLock lock(&mutex_);
    if (message.has_ack()) through_.push_back(message.ack().through());
    return true;
  }
  void Close() override {}
  std::vector<uint64_t> through() const {
    MutexLock lock(&mutex_);
    return through_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<uint64_t> through_ ABSL_GUARDED_BY(mutex_);
};

// A disk that the test makes slow.
class Disk {
 public:
  void Sync() {
    MutexLock lock(&mutex_);
    ++syncs_;
    changed_.SignalAll();
    changed_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ >= syncs_; });
  }
  void WaitForSync(int number) {
    MutexLock lock(&mutex_);
    changed_.Wait(&mutex_, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return syncs_ >= number; });
  }
  void Finish(int number) {
    MutexLock lock(&mutex_);
    finished_ = number;
    changed_.SignalAll();
  }
  int syncs() const {
    MutexLock lock(&mutex_);
    return syncs_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int syncs_ ABSL_GUARDED_BY(mutex_) = 0;
  int finished_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST(DurableAcksTest, AcknowledgesAfterTheSyncAndManyAtOnce) {
  SystemJobClock clock;
  DaemonRegistry daemons(clock, 16, &LogNothing);
  v1::DaemonHello hello;
  hello.mutable_version()->set_protocol_min(1);
  hello.mutable_version()->set_protocol_max(1);
  hello.set_node_id("n");
  hello.set_session(1);
  const auto connection = std::make_shared<Acks>();
  daemons.Connect(hello, connection, {});
  const DaemonKey daemon{"n", 1};
  Disk disk;
  DurableAcks acks(daemons, [&disk] { disk.Sync(); });
  acks.Add(daemon, 1);
  disk.WaitForSync(1);
  for (uint64_t i = 2; i <= 9; ++i) acks.Add(daemon, i);
  EXPECT_THAT(connection->through(), IsEmpty()) << "not on disk yet";
  disk.Finish(1);
  disk.WaitForSync(2);
  EXPECT_THAT(connection->through(), ElementsAre(1));
  EXPECT_EQ(daemons.Connect(hello, connection, {}).acked_sequence(), 1u) << "2 to 9 must be sent again";
  disk.Finish(1000);
  acks.Stop();
  EXPECT_THAT(connection->through(), ElementsAre(1, 9));
  EXPECT_EQ(disk.syncs(), 2) << "one sync for all that came meanwhile";
  EXPECT_EQ(daemons.Connect(hello, connection, {}).acked_sequence(), 9u);
}

}  // namespace
}  // namespace lockstep::aggregator
