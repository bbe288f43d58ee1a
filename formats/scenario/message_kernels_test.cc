#include "formats/scenario/message_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "formats/scenario/program_order.h"

namespace lockstep::formats {
namespace {

using capture::CollectiveOp;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// A send or receive. The two ends of a message have the same number; a number that occurs once has no
// partner.
struct MessageEnd {
  CollectiveOp op;
  int32_t peer;
  int number;
  uint32_t group = 0;
};
constexpr CollectiveOp kSend = CollectiveOp::kSend, kReceive = CollectiveOp::kReceive;

// Three ranks of two groups with the same members. Each kernel starts after those added before it.
class Job {
 public:
  Job() {
    for (int g = 0; g < 2; ++g) {
      capture_.groups.push_back({.key = std::to_string(g), .members = {RankId(0), RankId(1), RankId(2)}});
    }
    capture_.ranks.resize(3);
    for (int r = 0; r < 3; ++r) capture_.ranks[static_cast<size_t>(r)].rank = RankId(r);
    matches_.instance_of.resize(3);
  }

  // Returns the index of the kernel's activity.
  uint32_t Kernel(uint32_t rank, const std::vector<MessageEnd>& messages) {
    capture::RankData& r = capture_.ranks[rank];
    const auto activity = static_cast<uint32_t>(r.activities.size());
    r.activities.push_back({.start = HostTime(1000 * ++kernels_), .end = HostTime(1000 * kernels_ + 500)});
    for (const MessageEnd& m : messages) {
      const capture::Member self{rank, static_cast<uint32_t>(r.collectives.size())};
      r.collectives.push_back({.activity = activity, .group = m.group, .op = m.op, .peer = m.peer});
      matches_.instance_of[rank].push_back(capture::kNone);
      const auto [first, added] = first_end_.try_emplace(m.number, self);
      if (added) continue;
      const auto instance = static_cast<uint32_t>(matches_.instances.size());
      matches_.instances.push_back({.group = m.group,
                                    .op = CollectiveOp::kSendReceive,
                                    .members = {first->second, self},
                                    .complete = true,
                                    .usable = true});
      matches_.instance_of[rank][self.collective] = instance;
      matches_.instance_of[first->second.rank_index][first->second.collective] = instance;
    }
    return activity;
  }

  // Returns the kernels as (rank, activity) with their numbers of messages.
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, size_t>> Selected() const {
    std::vector<std::vector<uint32_t>> order;
    for (const capture::RankData& rank : capture_.ranks) order.push_back(ProgramOrder(rank));
    std::vector<std::pair<std::pair<uint32_t, uint32_t>, size_t>> out;
    for (const auto& [place, kernel] : SelectMessageKernels(capture_, matches_, order))
      out.push_back({{place.rank_index, place.activity}, kernel.messages.size()});
    return out;
  }

  capture::Capture capture_;
  capture::Matches matches_;

 private:
  int64_t kernels_ = 0;
  std::map<int, capture::Member> first_end_;
};

TEST(MessageKernels, KernelsWhoseMessagesAllPairAreKept) {
  Job job;
  job.Kernel(0, {{kSend, 1, 1}, {kReceive, 1, 2}});
  job.Kernel(1, {{kReceive, 0, 1}, {kSend, 0, 2}, {kSend, 2, 3}});
  job.Kernel(2, {{kReceive, 1, 3}});
  EXPECT_THAT(job.Selected(), ElementsAre(Pair(Pair(0, 0), 2), Pair(Pair(1, 0), 3), Pair(Pair(2, 0), 1)));
}

// Rank 2's kernel pairs, but its partner is rank 1's kernel, which pairs with rank 0's.
TEST(MessageKernels, AnUnmatchedMessageDropsAllKernelsThatDependOnIt) {
  Job job;
  job.Kernel(0, {{kSend, 1, 1}, {kSend, 2, 90}});
  job.Kernel(1, {{kReceive, 0, 1}, {kSend, 2, 2}});
  job.Kernel(2, {{kReceive, 1, 2}});
  job.Kernel(0, {{kSend, 1, 3}});
  job.Kernel(1, {{kReceive, 0, 3}});
  EXPECT_THAT(job.Selected(), ElementsAre(Pair(Pair(0, 1), 1), Pair(Pair(1, 1), 1))) << "the later pair";
}

TEST(MessageKernels, MessagesOfARankToItselfAreLeftOut) {
  Job job;
  job.Kernel(0, {{kSend, 0, 1}, {kReceive, 0, 1}, {kSend, 1, 2}});
  job.Kernel(1, {{kReceive, 0, 2}, {kSend, 1, 91}});
  job.Kernel(2, {{kSend, 2, 3}, {kReceive, 2, 3}});
  EXPECT_THAT(job.Selected(), ElementsAre(Pair(Pair(0, 0), 1), Pair(Pair(1, 0), 1)))
      << "a kernel without other messages has no partner";
}

TEST(MessageKernels, AKernelWithMessagesOfTwoGroupsIsDropped) {
  Job job;
  job.Kernel(0, {{kSend, 1, 1, 0}, {kSend, 2, 2, 1}});
  job.Kernel(1, {{kReceive, 0, 1, 0}});
  job.Kernel(2, {{kReceive, 0, 2, 1}});
  EXPECT_THAT(job.Selected(), IsEmpty());
}

TEST(MessageKernels, AKernelWithAnotherOperationIsDropped) {
  for (const CollectiveOp other : {CollectiveOp::kAllReduce, CollectiveOp::kUnknown}) {
    Job job;
    job.Kernel(0, {{kSend, 1, 1}, {other, -1, 92}});
    job.Kernel(1, {{kReceive, 0, 1}});
    EXPECT_THAT(job.Selected(), IsEmpty());
  }
}

TEST(MessageKernels, OnlyACompletePairOfSendAndReceiveCounts) {
  Job two_sends, incomplete;
  two_sends.Kernel(0, {{kSend, 1, 1}});
  two_sends.Kernel(1, {{kSend, 0, 1}});
  EXPECT_THAT(two_sends.Selected(), IsEmpty());
  incomplete.Kernel(0, {{kSend, 1, 1}});
  incomplete.Kernel(1, {{kReceive, 0, 1}});
  incomplete.matches_.instances[0].complete = false;
  EXPECT_THAT(incomplete.Selected(), IsEmpty());
}

// Rank 1 receives message 2 before message 1. A replay would pair them the other way around.
TEST(MessageKernels, MessagesThatDisagreeInOrderAreDropped) {
  Job job;
  job.Kernel(0, {{kSend, 1, 1}});
  job.Kernel(0, {{kSend, 1, 2}});
  job.Kernel(0, {{kSend, 1, 3}});
  job.Kernel(1, {{kReceive, 0, 2}});
  job.Kernel(1, {{kReceive, 0, 1}});
  job.Kernel(1, {{kReceive, 0, 3}});
  EXPECT_THAT(job.Selected(), ElementsAre(Pair(Pair(0, 0), 1), Pair(Pair(0, 2), 1), Pair(Pair(1, 1), 1),
                                          Pair(Pair(1, 2), 1)));
}

TEST(MessageKernels, MessagesOfOneKernelThatDisagreeInOrderDropTheKernel) {
  Job job;
  job.Kernel(0, {{kSend, 1, 1}, {kSend, 1, 2}});
  job.Kernel(1, {{kReceive, 0, 2}, {kReceive, 0, 1}});
  EXPECT_THAT(job.Selected(), IsEmpty());
}

// Messages of other groups or in the other direction are separate channels.
TEST(MessageKernels, OnlyMessagesOfOneChannelNeedACommonOrder) {
  Job job;
  job.Kernel(0, {{kSend, 1, 1}});
  job.Kernel(0, {{kReceive, 1, 2}});
  job.Kernel(0, {{kSend, 1, 3, 1}});
  job.Kernel(1, {{kReceive, 0, 3, 1}});
  job.Kernel(1, {{kSend, 0, 2}});
  job.Kernel(1, {{kReceive, 0, 1}});
  EXPECT_EQ(job.Selected().size(), 6u);
}

// The replay issues kernels in the order of their launches. Streams may start them in another order.
TEST(ProgramOrder, FollowsTheLaunches) {
  capture::RankData rank;
  rank.api_calls.push_back({.start = HostTime(10), .end = HostTime(11), .correlation = CorrelationId(7)});
  rank.api_calls.push_back({.start = HostTime(20), .end = HostTime(21), .correlation = CorrelationId(8)});
  const auto work = [&](int64_t start, uint32_t correlation) {
    rank.activities.push_back(
        {.start = HostTime(start), .end = HostTime(start + 1), .correlation = CorrelationId(correlation)});
  };
  work(15, 0);  // without a launch
  work(20, 9);  // of a call that was not recorded, at the start of the second call
  work(30, 8);
  work(40, 7);
  work(50, 7);
  EXPECT_THAT(ProgramOrder(rank), ElementsAre(2, 3, 4, 0, 1));
}

}  // namespace
}  // namespace lockstep::formats
