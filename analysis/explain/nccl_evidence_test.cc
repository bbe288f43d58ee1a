#include "analysis/explain/nccl_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::analysis {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kChannels = 4, kOperations = 5;

// Two ranks of one group with five operations. `length` is a channel's time in microseconds.
template <typename Length>
capture::Capture TwoRanks(Length length) {
  capture::Capture c;
  c.groups.push_back({.key = "0", .name = "dp", .members = {RankId(0), RankId(1)}, .size = 2});
  for (int32_t r = 0; r < 2; ++r) {
    capture::RankData& rank = c.ranks.emplace_back();
    rank.rank = RankId(r);
    for (uint64_t operation = 1; operation <= kOperations; ++operation) {
      capture::Collective& op = rank.collectives.emplace_back();
      op.group = 0, op.peer = 1 - r, op.operation = operation;
      for (uint32_t channel = 0; channel < kChannels; ++channel) {
        capture::ChannelTiming& t = rank.channel_timings.emplace_back();
        t.operation = operation, t.channel = channel;
        t.start = HostTime(1'000'000), t.end = t.start + Nanos::Micros(length(r, channel));
      }
    }
  }
  return c;
}

const TransferOwner kBoth{.group = 0, .rank_indices = {0, 1}, .is_pair = false};
const TransferOwner kPair{.group = 0, .rank_indices = {0, 1}, .is_pair = true};

TEST(NcclEvidence, NamesTheChannelThatIsBusyLongest) {
  const capture::Capture c =
      TwoRanks([](int rank, uint32_t channel) { return rank == 1 && channel == 2 ? 400 : 100; });
  const uint32_t slow[] = {1};
  EXPECT_THAT(NcclEvidence(c, std::span(&kBoth, 1), slow),
              ElementsAre(HasSubstr("channel 2 of rank 1 is busy 400 us per operation, its other 3 100 us")));
  EXPECT_THAT(NcclEvidence(c, std::span(&kPair, 1), slow), ElementsAre(HasSubstr("channel 2 of rank 1")));
  EXPECT_THAT(NcclEvidence(c, std::span(&kBoth, 1), {}),
              ElementsAre("all 4 channels of rank 0 are busy alike, 100 us per operation",
                          HasSubstr("channel 2 of rank 1")));
}

TEST(NcclEvidence, SaysWhatNetworkOperationsWaitFor) {
  capture::Capture c = TwoRanks([](int, uint32_t) { return 100; });
  for (capture::RankData& rank : c.ranks) rank.channel_timings.clear();
  capture::ProxyOp op;
  op.operation = 3;
  op.network_wait = Nanos::Micros(80), op.peer_wait = Nanos::Micros(15), op.gpu_wait = Nanos::Micros(5);
  c.ranks[0].proxy_ops = {op};
  op.network_wait = Nanos::Micros(10), op.gpu_wait = Nanos::Micros(90), op.peer_wait = Nanos();
  c.ranks[1].proxy_ops = {op};
  EXPECT_THAT(
      NcclEvidence(c, std::span(&kBoth, 1), {}),
      ElementsAre(
          "rank 0's network operations wait for the network 80% of their waiting, for the peer 15%",
          "rank 1's network operations wait for its own GPU 90% of their waiting, for the network 10%: "
          "the network is not what they wait for"));
}

TEST(NcclEvidence, IsSilentOnOtherOperationsAndWithoutRecords) {
  capture::Capture c = TwoRanks([](int, uint32_t) { return 100; });
  for (capture::RankData& rank : c.ranks) {
    for (capture::Collective& op : rank.collectives) op.operation += 100;
  }
  EXPECT_THAT(NcclEvidence(c, std::span(&kBoth, 1), {}), ElementsAre());
}

}  // namespace
}  // namespace lockstep::analysis
