#include "daemon/clients/rank_progress.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/rpc/channel.h"
#include "daemon/clients/client_fake.h"
#include "daemon/clients/client_server_fixture.h"
#include "daemon/node/own_access.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

class RankProgressTest : public ClientServerTest {
 protected:
  void SetUp() override {
    ClientServerTest::SetUp();
    Open();
    progress_ = std::make_unique<RankProgress>(node_, registry_, *server_, departed_, clock_, access_);
  }
  void Connect(FakeClient& client, const char* rank, const char* world_size) {
    ASSERT_TRUE(client.Connect(path_));
    ASSERT_TRUE(client.Register(
        absl::StrCat("LOCKSTEP_JOB=j\nLOCKSTEP_RANK=", rank, "\nLOCKSTEP_WORLD_SIZE=", world_size, "\n")));
  }

  const NodeInfo node_{.id = "boot", .host_name = "node1"};
  const OwnAccess access_;
  std::unique_ptr<RankProgress> progress_;
};

// Writes one communicator with one operation, which has not ended.
void WriteProgress(ring::ProgressSlot& slot) {
  slot.communicator = 0xABC;
  slot.ranks = 4;
  slot.operations_entered = slot.collectives_entered = 1;
  slot.name.Set("world\x1b[2J");
  slot.operations[1].function.Set("AllReduce");
  slot.operations[1].entered_ns = 5;
  slot.operations[1].number = 1;
  slot.operations[1].position = 1;
  slot.state = static_cast<uint32_t>(ring::ProgressState::kLiving);
}

TEST_F(RankProgressTest, TellsWhereARankIsAlsoAfterItHasLeft) {
  FakeClient client;
  ASSERT_NO_FATAL_FAILURE(Connect(client, "3", "4"));
  ASSERT_NE(client.segment().progress(), nullptr);
  WriteProgress(*client.segment().progress());
  const auto check = [&](bool gone) {
    const v1::NodeProgress read = progress_->Read(RankFilter::All(), "j");
    ASSERT_EQ(read.processes_size(), 1);
    EXPECT_EQ(read.processes(0).rank().rank(), 3);
    EXPECT_EQ(read.processes(0).gone_unix_ns() != 0, gone);
    ASSERT_EQ(read.processes(0).communicators_size(), 1);
    const v1::CommunicatorProgress& communicator = read.processes(0).communicators(0);
    EXPECT_EQ(communicator.id(), 0xABCu);
    EXPECT_EQ(communicator.name(), "world?[2J") << "it cannot control a terminal";
    EXPECT_EQ(communicator.operations(0).function(), "AllReduce");
    EXPECT_EQ(communicator.operations(0).entered_unix_ns(), 5);
    EXPECT_EQ(progress_->Read(RankFilter::Of(getuid() + 1), "").processes_size(), 0) << "another user's";
    EXPECT_EQ(progress_->Read(RankFilter::All(), "other").processes_size(), 0) << "another job's";
  };
  OnLoop([&] { check(false); });
  client.Disconnect();
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
  OnLoop([&] { check(true); });
  // The same rank of a new process hides the one that has left.
  FakeClient again;
  ASSERT_NO_FATAL_FAILURE(Connect(again, "3", "4"));
  OnLoop([&] {
    const v1::NodeProgress read = progress_->Read(RankFilter::All(), "");
    ASSERT_EQ(read.processes_size(), 1);
    EXPECT_EQ(read.processes(0).gone_unix_ns(), 0);
    EXPECT_EQ(read.processes(0).communicators_size(), 0);
  });
}

TEST_F(RankProgressTest, SendsTheNetworkOperationsThatStandStillForTheLongestTime) {
  FakeClient client;
  ASSERT_NO_FATAL_FAILURE(Connect(client, "3", "4"));
  ASSERT_NE(client.segment().network(), nullptr);
  for (uint32_t i = 0; i < 300; ++i) {
    ring::NetworkEntry& entry = client.segment().network()[i];
    entry.communicator = 0xABC;
    entry.moved_ns = 1000 - i;
    entry.waits = static_cast<uint64_t>(ring::NetworkWait::kNetwork);
    entry.peer = 4;
    entry.channel = 7 | ring::kNetworkSend;
    entry.use = i + 1;
  }
  OnLoop([&] {
    const v1::NodeProgress read = progress_->Read(RankFilter::All(), "");
    ASSERT_EQ(read.processes_size(), 1);
    const v1::ProcessProgress& process = read.processes(0);
    ASSERT_EQ(process.network_size(), 256);
    EXPECT_EQ(process.network_missing(), 44u);
    const v1::NetworkProgress& longest = process.network(0);
    EXPECT_EQ(longest.moved_unix_ns(), 1000 - 299);
    EXPECT_EQ(longest.wait(), v1::NetworkProgress::NETWORK);
    EXPECT_TRUE(longest.sends());
    EXPECT_EQ(longest.channel(), 7u);
    EXPECT_EQ(longest.peer(), 4);
  });
}

TEST_F(RankProgressTest, SendsTheLastOperationThatHasEnded) {
  FakeClient client;
  ASSERT_NO_FATAL_FAILURE(Connect(client, "0", "1"));
  ring::ProgressSlot& slot = *client.segment().progress();
  slot.communicator = 0xABC;
  slot.operations_entered = slot.collectives_entered = 40;
  for (uint64_t position = 1; position <= 40; ++position) {
    ring::ProgressOperation& operation = slot.operations[position];
    operation.entered_ns = 5;
    operation.completed_ns = position <= 10 ? 6 : 0;
    operation.number = operation.position = position;
  }
  slot.state = static_cast<uint32_t>(ring::ProgressState::kLiving);
  OnLoop([&] {
    const v1::NodeProgress read = progress_->Read(RankFilter::All(), "");
    ASSERT_EQ(read.processes_size(), 1);
    ASSERT_EQ(read.processes(0).communicators_size(), 1);
    const v1::CommunicatorProgress& communicator = read.processes(0).communicators(0);
    ASSERT_EQ(communicator.operations_size(), 31);
    EXPECT_EQ(communicator.operations(0).position(), 10u);
    EXPECT_EQ(communicator.operations(0).completed_unix_ns(), 6);
    EXPECT_EQ(communicator.operations(1).position(), 11u);
  });
}

// Fills the whole table with operations that have not ended, as only a hostile rank does.
void FillTable(ring::ProgressSlot* slots) {
  constexpr char kLongest[] = "0123456789abcdef";
  for (uint32_t i = 0; i < ring::kProgressSlots; ++i) {
    ring::ProgressSlot& slot = slots[i];
    slot.communicator = ~uint64_t{i};
    slot.operations_entered = slot.collectives_entered = ring::kProgressOperations;
    for (uint64_t position = 1; position <= ring::kProgressOperations; ++position) {
      ring::ProgressOperation& operation = slot.operations[position & (ring::kProgressOperations - 1)];
      operation.function.Set(kLongest);
      operation.datatype.Set(kLongest);
      operation.count = operation.number = ~uint64_t{0};
      operation.entered_ns = operation.launched_ns = operation.started_ns = INT64_MAX;
      operation.position = position;
    }
    slot.state = static_cast<uint32_t>(ring::ProgressState::kLiving);
  }
}

TEST_F(RankProgressTest, AFullTableLeavesRoomForOthersAndIsCounted) {
  FakeClient client;
  ASSERT_NO_FATAL_FAILURE(Connect(client, "0", "1"));
  FillTable(client.segment().progress());
  OnLoop([&] {
    const v1::NodeProgress read = progress_->Read(RankFilter::All(), "");
    ASSERT_EQ(read.processes_size(), 1);
    const v1::ProcessProgress& process = read.processes(0);
    EXPECT_GT(process.communicators_size(), 8);
    uint64_t sent = 0;
    for (const v1::CommunicatorProgress& communicator : process.communicators())
      sent += static_cast<uint64_t>(communicator.operations_size());
    EXPECT_EQ(sent + process.unreadable(), uint64_t{ring::kProgressSlots} * ring::kProgressOperations);
    EXPECT_LT(read.ByteSizeLong(), size_t{rpc::kMaxMessageBytes} / 32);
  });
}

}  // namespace
}  // namespace lockstep::daemon
