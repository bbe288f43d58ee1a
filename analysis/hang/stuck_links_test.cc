#include "analysis/hang/stuck_links.h"

#include "absl/strings/str_join.h"
#include "analysis/hang/hang_fixture.h"

namespace lockstep::analysis {
namespace {

using Direction = HangTransfer::Direction;
using TransferWait = HangTransfer::Wait;

// Four ranks on two nodes, in a collective whose ring has the links 1 to 2 and 3 to 0 between the nodes.
class StuckLinksTest : public HangTest {
 protected:
  StuckLinksTest() {
    AllEnterAndEnd();
    for (int32_t r = 0; r < 4; ++r) Enter(r);
    for (const uint32_t channel : {0, 1}) {
      Send(1, 2, channel, TransferWait::kGpu);
      Receive(2, 1, channel, TransferWait::kNetwork);
      Send(3, 0, channel, TransferWait::kGpu);
      Receive(0, 3, channel, TransferWait::kNetwork);
    }
  }

  HangTransfer& Send(int32_t from, int32_t to, uint32_t channel, TransferWait wait) {
    return Add(from, to, channel, Direction::kSend, wait);
  }
  HangTransfer& Receive(int32_t at, int32_t from, uint32_t channel, TransferWait wait) {
    return Add(at, from, channel, Direction::kReceive, wait);
  }
  HangTransfer& Add(int32_t rank, int32_t peer, uint32_t channel, Direction direction, TransferWait wait) {
    HangTransfer& made = Rank(rank).transfers.emplace_back();
    made.communicator = kWorld;
    made.position = 2;
    made.direction = direction;
    made.peer = peer;
    made.channel = channel;
    made.steps = 40;
    made.steps_done = 12;
    made.wait = wait;
    made.moved_ago = Nanos::Seconds(90);
    return made;
  }
  HangTransfer& At(int32_t rank, size_t index) { return Rank(rank).transfers.at(index); }
  void SetWaits(int32_t rank, TransferWait wait) {
    for (HangTransfer& transfer : Rank(rank).transfers) transfer.wait = wait;
  }
};

TEST_F(StuckLinksTest, NamesTheLinkThatTheNetworkDoesNotComplete) {
  SetWaits(1, TransferWait::kNetwork);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kStuck);
  ASSERT_EQ(finding.links.size(), 1u);
  const HangLink& link = finding.links[0];
  EXPECT_EQ(link.from_rank, RankId(1));
  EXPECT_EQ(link.to_rank, RankId(2));
  EXPECT_EQ(link.channels, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(link.steps_done, 24u);
  EXPECT_EQ(link.steps, 80u);
  EXPECT_EQ(link.still, Nanos::Seconds(90));
  EXPECT_EQ(
      finding.sentence,
      "all_reduce #2 of world runs on the GPUs of all its 4 ranks and does not end, for 94 s: the network "
      "does not carry its data from rank 1 (node1, local rank 1) to rank 2 (node2, local rank 0)");
  ASSERT_EQ(finding.reasons.size(), 1u);
  EXPECT_EQ(
      finding.reasons[0],
      "the network has completed nothing from rank 1 (node1, local rank 1) to rank 2 (node2, local rank 0) "
      "for 90 s, after 24 of 80 steps on channels 0, 1");
}

TEST_F(StuckLinksTest, WithoutSuchALinkTheDataDoesNotArrive) {
  const HangFinding finding = Only();
  EXPECT_TRUE(finding.links.empty());
  EXPECT_TRUE(finding.sentence.ends_with(": the data does not arrive")) << finding.sentence;
}

TEST_F(StuckLinksTest, ALinkThatMovesIsSlowAndNotStuck) {
  SetWaits(1, TransferWait::kNetwork);
  At(1, 0).moved_ago = At(1, 1).moved_ago = Nanos::Seconds(2);
  EXPECT_TRUE(Only().links.empty());
}

TEST_F(StuckLinksTest, ASenderWithoutABufferWaitsForTheNetworkIfTheReceiverWaitsForData) {
  SetWaits(1, TransferWait::kPeer);
  SetWaits(3, TransferWait::kPeer);
  SetWaits(0, TransferWait::kGpu);  // it has data, and its GPU does not take it
  const HangFinding finding = Only();
  ASSERT_EQ(finding.links.size(), 1u);
  EXPECT_EQ(finding.links[0].from, 1);
  EXPECT_EQ(finding.links[0].wait, HangLink::Wait::kBuffer);
  EXPECT_EQ(
      finding.reasons.at(0),
      "rank 1 (node1, local rank 1) has waited for a buffer of rank 2 (node2, local rank 0), which waits for "
      "its data, for 90 s, after 24 of 80 steps on channels 0, 1");
  // A send that the network does not complete explains the others.
  SetWaits(3, TransferWait::kNetwork);
  EXPECT_EQ(Only().links.at(0).from, 3);
}

TEST_F(StuckLinksTest, OperationsOfOtherCommunicatorsAndOtherOperationsDoNotCount) {
  SetWaits(1, TransferWait::kNetwork);
  At(1, 0).position = 1;
  At(1, 1).communicator = kTensor;
  EXPECT_TRUE(Only().links.empty());
  At(1, 0).position = 0;  // of another process, through PXN
  EXPECT_EQ(Only().links.size(), 1u);
}

TEST_F(StuckLinksTest, AMemberThatNoDaemonReportsIsNamedByItsNumber) {
  SetWaits(1, TransferWait::kNetwork);
  SetWaits(3, TransferWait::kNetwork);
  job_.ranks.erase(job_.ranks.begin() + 2, job_.ranks.end());
  const HangFinding finding = Only();
  EXPECT_EQ(finding.cause, HangCause::kAbsent);
  ASSERT_EQ(finding.links.size(), 1u);
  EXPECT_EQ(finding.links[0].to_rank, std::nullopt);
  EXPECT_EQ(
      finding.reasons.at(0),
      "the network has completed nothing from rank 1 (node1, local rank 1) to member 2 for 90 s, after 24 of "
      "80 steps on channels 0, 1");
}

TEST_F(StuckLinksTest, ManyLinksAreCounted) {
  for (int32_t peer = 10; peer < 16; ++peer) Send(1, peer, 0, TransferWait::kNetwork);
  const HangFinding finding = Only();
  EXPECT_EQ(finding.links.size(), 6u);
  EXPECT_EQ(finding.reasons.back(), "2 further links stand still");
  EXPECT_NE(finding.sentence.find(", and on 5 further links"), std::string::npos) << finding.sentence;
}

}  // namespace
}  // namespace lockstep::analysis
