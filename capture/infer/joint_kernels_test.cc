#include "capture/infer/joint_kernels.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kUs = 1e3;

// Each communicator runs `per_step` short operations at its own times, and then one with all others.
std::vector<std::vector<KernelInterval>> Sequences(size_t communicators, int per_step, int steps,
                                                   bool joint) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<std::vector<KernelInterval>> out(communicators);
  for (int step = 0; step < steps; ++step) {
    std::vector<double> came;
    for (auto& sequence : out) {
      double at = step * 40'000 * kUs;
      for (int i = 0; i < per_step; ++i) {
        at += (900 + 300 * unit(random)) * kUs;
        sequence.push_back({at, at + 45 * kUs});
      }
      came.push_back(at + 2'000 * kUs * unit(random));
    }
    if (!joint) continue;
    const double last = *std::max_element(came.begin(), came.end());
    for (size_t c = 0; c < communicators; ++c) out[c].push_back({came[c], last + (30 + unit(random)) * kUs});
  }
  return out;
}

std::vector<uint32_t> Find(const std::vector<std::vector<KernelInterval>>& sequences) {
  std::vector<std::span<const KernelInterval>> spans(sequences.begin(), sequences.end());
  return FindJointKernels(spans);
}

TEST(JointKernels, FindsTheOperationOfAllRanksInEachStep) {
  for (const size_t communicators : {2u, 4u, 16u})
    EXPECT_THAT(Find(Sequences(communicators, 9, 6, true)), ElementsAre(9, 19, 29, 39, 49, 59));
}

TEST(JointKernels, UnrelatedOperationsAreNotJoint) {
  for (const size_t communicators : {2u, 4u, 16u})
    EXPECT_THAT(Find(Sequences(communicators, 32, 40, false)), IsEmpty());
}

// These are one communicator, which other rules join.
TEST(JointKernels, SequencesThatAreAllJointAreLeftAlone) {
  EXPECT_THAT(Find(Sequences(4, 0, 12, true)), IsEmpty());
}

TEST(JointKernels, FindsTheNearestEnd) {
  const std::vector<KernelInterval> sequence = {
      {0, 100 * kUs}, {100 * kUs, 106 * kUs}, {200 * kUs, 300 * kUs}};
  EXPECT_EQ(EndsAt(sequence, 104 * kUs), 1u);
  EXPECT_EQ(EndsAt(sequence, 101 * kUs), 0u);
  EXPECT_EQ(EndsAt(sequence, 302 * kUs), 2u);
  EXPECT_EQ(EndsAt(sequence, 200 * kUs), UINT32_MAX);
}

}  // namespace
}  // namespace lockstep::capture
