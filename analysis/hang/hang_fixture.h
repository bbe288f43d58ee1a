// A fixture for tests of ExplainHang: a job in which they plant states.
#ifndef LOCKSTEP_ANALYSIS_HANG_HANG_FIXTURE_H_
#define LOCKSTEP_ANALYSIS_HANG_HANG_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/hang/explain_hang.h"
#include "gtest/gtest.h"

namespace lockstep::analysis {

inline constexpr Nanos kAfter = Nanos::Seconds(60);
inline constexpr uint64_t kWorld = 0xA, kTensor = 0xB;
using Life = HangRank::Life;
using Verdict = HangExplanation::Verdict;

inline std::vector<int32_t> Numbers(const std::vector<RankId>& ranks) {
  std::vector<int32_t> numbers;
  for (const RankId rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

// A job of which each rank is in communicator "world", and has ended all its operations.
class HangTest : public testing::Test {
 protected:
  explicit HangTest(int32_t ranks = 4) {
    job_.world_size = ranks;
    for (int32_t r = 0; r < ranks; ++r) {
      HangRank& rank = job_.ranks.emplace_back();
      rank.rank = RankId(r);
      rank.host = r < 2 ? "node1" : "node2";
      rank.local_rank = r % 2;
      rank.pid = 1000 + r;
      rank.life = Life::kRunning;
      rank.cpu_share = 0.0;
      Join(r, kWorld, "world", r, ranks);
    }
  }

  HangCommunicator& Join(int32_t rank, uint64_t id, const char* name, int32_t place, int32_t ranks) {
    HangCommunicator& made = job_.ranks[static_cast<size_t>(rank)].communicators.emplace_back();
    made.id = id;
    made.name = name;
    made.rank = place;
    made.ranks = ranks;
    made.reports_launches = made.reports_kernels = true;
    return made;
  }
  HangCommunicator& In(int32_t rank, uint64_t id = kWorld) {
    for (HangCommunicator& communicator : job_.ranks[static_cast<size_t>(rank)].communicators) {
      if (communicator.id == id) return communicator;
    }
    ADD_FAILURE() << "rank " << rank << " is not in " << id;
    return job_.ranks[0].communicators[0];
  }
  // The rank enters its next collective, whose kernel starts and does not end.
  HangOperation& Enter(int32_t rank, uint64_t id = kWorld, Nanos ago = Nanos::Seconds(94)) {
    HangCommunicator& communicator = In(rank, id);
    HangOperation& operation = communicator.operations.emplace_back();
    operation.position = operation.number = ++communicator.collectives_entered;
    operation.function = "AllReduce";
    operation.datatype = "ncclFloat32";
    operation.count = 1024;
    operation.peer = 0;
    operation.entered_ago = ago;
    operation.launched = operation.started = true;
    return operation;
  }
  void EnterAndEnd(int32_t rank, uint64_t id = kWorld) {
    Enter(rank, id, Nanos::Seconds(100)).completed = true;
  }
  void AllEnterAndEnd() {
    for (int32_t r = 0; r < job_.world_size; ++r) EnterAndEnd(r);
  }
  HangRank& Rank(int32_t rank) { return job_.ranks[static_cast<size_t>(rank)]; }

  HangFinding Only() {
    const HangExplanation explained = ExplainHang(job_, kAfter);
    EXPECT_EQ(explained.verdict, Verdict::kHang);
    EXPECT_EQ(explained.findings.size(), 1u);
    return explained.findings.empty() ? HangFinding() : explained.findings.front();
  }

  HangJob job_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_HANG_HANG_FIXTURE_H_
