// Tests of communicators inferred from kernel names and times alone, in jobs whose truth is known.
#include "capture/infer/infer_groups.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

using capture::CollectiveOp;
using capture::GroupOrigin;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kTrials = 2;
#else
constexpr int kTrials = 12;
#endif

// A job of tensor x data x pipeline ranks that run collectives. Times are in microseconds.
struct JobShape {
  int tensor = 2, data = 2, pipeline = 1;
  int steps = 8, layers = 6, microbatches = 4;
  double compute_us = 1500, noise = 0.01, exit_skew_us = 2;
  double loss = 0;      // share of the communication records that is missing
  double clock_ms = 0;  // every rank's clock is off by up to this
  double drift_ppm = 0;
  int ranks_per_host = 8;
  int slow_rank = -1;  // its work takes a tenth longer; -1: none
  bool unequal_windows = false;
  int ranks() const { return tensor * data * pipeline; }
};

// Records the kernels of a simulated job. The correlation of each kernel is its true instance.
class SmallJob {
 public:
  SmallJob(const JobShape& shape, uint64_t seed)
      : shape_(shape), random_(seed), now_(static_cast<size_t>(shape.ranks()), 0.0) {
    std::uniform_real_distribution<double> unit(-1, 1);
    const int hosts = (shape.ranks() + shape.ranks_per_host - 1) / shape.ranks_per_host;
    for (int h = 0; h < hosts; ++h)
      clocks_.push_back({unit(random_) * shape.clock_ms * 1000, unit(random_) * shape.drift_ppm * 1e-6});
    for (int h = 0; h < hosts; ++h)
      capture_.hosts.push_back({.id = "host" + std::to_string(h), .name = "host" + std::to_string(h)});
    capture_.ranks.resize(now_.size());
    for (int r = 0; r < shape.ranks(); ++r) {
      capture_.ranks[static_cast<size_t>(r)].rank = RankId(r);
      capture_.ranks[static_cast<size_t>(r)].host = static_cast<uint32_t>(r / shape.ranks_per_host);
    }
    for (int s = 0; s < shape.steps; ++s) Step();
  }

  // Returns the finished capture without groups. The correlations hold the truth.
  capture::Capture Take() {
    if (shape_.unequal_windows) {
      for (capture::RankData& rank : capture_.ranks) {
        std::sort(rank.activities.begin(), rank.activities.end(),
                  [](const auto& a, const auto& b) { return a.start < b.start; });
        const auto front = static_cast<std::ptrdiff_t>(random_() % 3),
                   back = static_cast<std::ptrdiff_t>(random_() % 3);
        rank.activities.erase(rank.activities.end() - back, rank.activities.end());
        rank.activities.erase(rank.activities.begin(), rank.activities.begin() + front);
      }
    }
    capture::Finish(capture_);
    return std::move(capture_);
  }

 private:
  struct Clock {
    double offset_us;
    double drift;
  };
  enum Stream : uint32_t { kTensor = 20, kData = 24, kReceive = 28, kSend = 29, kWorld = 32 };

  int At(int stage, int replica, int shard) const {
    return (stage * shape_.data + replica) * shape_.tensor + shard;
  }

  double Noisy(double us) {
    std::normal_distribution<double> normal(1, shape_.noise);
    return us * std::max(0.2, normal(random_));
  }

  void Compute(int r, double us) {
    now_[static_cast<size_t>(r)] += Noisy(us) * (r == shape_.slow_rank ? 1.1 : 1.0);
  }

  void Record(int r, const char* name, uint32_t grid, Stream stream, double start, double end,
              uint32_t instance) {
    std::bernoulli_distribution lost(shape_.loss);
    if (lost(random_)) return;
    capture::RankData& rank = capture_.ranks[static_cast<size_t>(r)];
    const Clock& clock = clocks_[rank.host];
    const auto local = [&](double us) {
      return HostTime(1'700'000'000'000'000'000 +
                      static_cast<int64_t>((us + clock.offset_us + clock.drift * us) * 1000));
    };
    capture::DeviceActivity a;
    a.start = local(start);
    a.end = local(end);
    a.name = capture_.strings.Intern(name);
    a.stream = StreamId(stream);
    a.correlation = CorrelationId(instance);
    a.detail = static_cast<uint32_t>(rank.kernel_details.size());
    rank.kernel_details.push_back({.grid = {grid, 1, 1}});
    rank.activities.push_back(a);
  }

  void Meet(const std::vector<int>& members, const char* name, uint32_t grid, Stream stream,
            double transfer_us) {
    std::exponential_distribution<double> one(1);
    double last = 0;
    for (int r : members) last = std::max(last, now_[static_cast<size_t>(r)]);
    const double end = last + Noisy(transfer_us);
    ++instance_;
    for (int r : members) {
      const double out = end + shape_.exit_skew_us * one(random_);
      Record(r, name, grid, stream, now_[static_cast<size_t>(r)], out, instance_);
      now_[static_cast<size_t>(r)] = out + 3;
    }
  }

  // The sender continues at once; the receiver waits.
  void Message(int from, int to) {
    const double transfer = Noisy(150);
    const double sent = now_[static_cast<size_t>(from)], asked = now_[static_cast<size_t>(to)];
    ++instance_;
    Record(from, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 2, kSend, sent, sent + transfer,
           instance_);
    const double got = std::max(sent, asked) + transfer;
    Record(to, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 2, kReceive, asked, got,
           instance_);
    now_[static_cast<size_t>(from)] += 5;
    now_[static_cast<size_t>(to)] = got + 3;
  }

  void Layers(int stage) {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (int d = 0; d < shape_.data; ++d) {
        std::vector<int> group;
        for (int t = 0; t < shape_.tensor; ++t) {
          group.push_back(At(stage, d, t));
          Compute(group.back(), shape_.compute_us);
        }
        if (shape_.tensor > 1)
          Meet(group, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 24,
               kTensor, 180);
      }
    }
  }

  void Step() {
    for (int m = 0; m < shape_.microbatches; ++m) {
      for (int stage = 0; stage < shape_.pipeline; ++stage) {
        Layers(stage);
        if (stage + 1 == shape_.pipeline) continue;
        for (int d = 0; d < shape_.data; ++d) {
          for (int t = 0; t < shape_.tensor; ++t) Message(At(stage, d, t), At(stage + 1, d, t));
        }
      }
    }
    if (shape_.data > 1) {
      for (const char* name :
           {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "ncclDevKernel_AllGather_RING_LL(x)"}) {
        for (int stage = 0; stage < shape_.pipeline; ++stage) {
          for (int t = 0; t < shape_.tensor; ++t) {
            std::vector<int> group;
            for (int d = 0; d < shape_.data; ++d) {
              group.push_back(At(stage, d, t));
              Compute(group.back(), 200);
            }
            Meet(group, name, 24, kData, 1700);
          }
        }
      }
    }
    std::vector<int> all;
    for (int r = 0; r < shape_.ranks(); ++r) {
      all.push_back(r);
      Compute(r, 100);
    }
    Meet(all, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1, kWorld, 38);
  }

  JobShape shape_;
  std::mt19937_64 random_;
  std::vector<double> now_;  // by rank
  std::vector<Clock> clocks_;
  capture::Capture capture_;
  uint32_t instance_ = 0;
};

struct Score {
  uint64_t kernels = 0;        // kernels whose partners were recorded too
  uint64_t right = 0;          // of these, kernels in an instance with all their partners
  uint64_t wrong_members = 0;  // members of an instance that carry another mark than its first
  double rate() const { return kernels == 0 ? 1 : static_cast<double>(right) / static_cast<double>(kernels); }
};

Score Judge(const capture::Capture& capture, const Matches& matches) {
  std::map<uint32_t, uint32_t> recorded;  // members by true instance
  const auto mark = [&](const Member& m) {
    const capture::RankData& rank = capture.ranks[m.rank_index];
    return rank.activities[rank.collectives[m.collective].activity].correlation.value();
  };
  for (uint32_t r = 0; r < capture.ranks.size(); ++r) {
    for (uint32_t i = 0; i < capture.ranks[r].collectives.size(); ++i) ++recorded[mark({r, i})];
  }
  Score score;
  for (const auto& [instance, members] : recorded) score.kernels += members > 1 ? members : 0;
  for (const Instance& instance : matches.instances) {
    if (!instance.usable) continue;
    const uint32_t first = mark(instance.members[0]);
    uint32_t wrong = 0;
    for (const Member& m : instance.members) wrong += mark(m) == first ? 0 : 1;
    score.wrong_members += wrong;
    if (wrong == 0 && instance.members.size() == recorded[first]) score.right += instance.members.size();
  }
  return score;
}

std::set<std::vector<int>> InferredGroups(const capture::Capture& capture) {
  std::set<std::vector<int>> groups;
  for (const capture::Group& g : capture.groups) {
    if (g.origin != GroupOrigin::kInferred) continue;
    std::vector<int> members;
    for (RankId m : g.members) members.push_back(m.value());
    groups.insert(members);
  }
  return groups;
}

Score Found(const JobShape& shape, uint64_t seed) {
  capture::Capture capture = SmallJob(shape, seed).Take();
  InferGroups(capture);
  return Judge(capture, Match(capture));
}

TEST(InferGroups, DistinguishesTensorDataAndWorldGroupsWithOneKernelName) {
  capture::Capture capture = SmallJob({.tensor = 2, .data = 2, .pipeline = 1}, 1).Take();
  InferGroups(capture);
  EXPECT_THAT(InferredGroups(capture),
              testing::ElementsAre(std::vector{0, 1}, std::vector{0, 1, 2, 3}, std::vector{0, 2},
                                   std::vector{1, 3}, std::vector{2, 3}));
  const Matches m = Match(capture);
  EXPECT_EQ(m.MatchedFraction(), 1.0);
  EXPECT_EQ(m.by_inferred, m.instances.size());
  EXPECT_EQ(Judge(capture, m).wrong_members, 0u);
  ASSERT_FALSE(capture.notes.empty());
  EXPECT_THAT(capture.notes.back(), testing::HasSubstr("5 were inferred from kernels that end together"));
}

// Eight ranks of one host that run all-reduces. Even ranks leave `habit_us` before odd ones, in whatever
// order they came.
capture::Capture HabitualExits(double habit_us, uint64_t seed) {
  std::mt19937_64 random(seed);
  capture::Capture capture;
  capture.hosts.push_back({.id = "h", .name = "h"});
  capture.ranks.resize(8);
  for (int i = 0; i < 60; ++i) {
    std::vector<double> starts;
    for (int r = 0; r < 8; ++r) starts.push_back(20'000.0 * i + static_cast<double>(random() % 900));
    const double end = *std::max_element(starts.begin(), starts.end()) + 60;
    for (size_t r = 0; r < 8; ++r) {
      capture::RankData& rank = capture.ranks[r];
      rank.rank = RankId(static_cast<int32_t>(r));
      rank.host = 0;
      const double leaves = end + (r % 2 == 0 ? 0 : habit_us);
      rank.activities.push_back({.start = HostTime(static_cast<int64_t>(starts[r] * 1e3)),
                                 .end = HostTime(static_cast<int64_t>(leaves * 1e3)),
                                 .name = capture.strings.Intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
                                 .stream = StreamId(7),
                                 .communication = true});
    }
  }
  capture::Finish(capture);
  return capture;
}

TEST(InferGroups, ConstantExitDifferencesDoNotSplitAGroup) {
  for (const double habit_us : {0.0, 1.5, 6.0, 20.0}) {
    capture::Capture capture = HabitualExits(habit_us, 11);
    InferGroups(capture);
    const Matches m = Match(capture);
    ASSERT_EQ(m.instances.size(), 60u) << habit_us;
    EXPECT_EQ(m.instances[0].members.size(), 8u) << habit_us;
  }
}

// Even and odd ranks of one host that reduce at the same moments, apart from the noise of computing.
TEST(InferGroups, DoesNotMergeGroupsThatOnlyRunInStep) {
  std::mt19937_64 random(7);
  capture::Capture capture;
  capture.hosts.push_back({.id = "h", .name = "h"});
  capture.ranks.resize(8);
  std::exponential_distribution<double> exit(1 / 2.0);
  std::normal_distribution<double> apart(0, 6);
  for (int i = 0; i < 60; ++i) {
    const double ends[] = {1000.0 * i + 500 + apart(random), 1000.0 * i + 500 + apart(random)};
    for (size_t r = 0; r < 8; ++r) {
      capture::RankData& rank = capture.ranks[r];
      rank.rank = RankId(static_cast<int32_t>(r));
      rank.host = 0;
      const double start = ends[r % 2] - 100 - static_cast<double>(random() % 40),
                   leaves = ends[r % 2] + exit(random);
      rank.activities.push_back({.start = HostTime(static_cast<int64_t>(start * 1e3)),
                                 .end = HostTime(static_cast<int64_t>(leaves * 1e3)),
                                 .name = capture.strings.Intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
                                 .stream = StreamId(7),
                                 .communication = true});
    }
  }
  capture::Finish(capture);
  InferGroups(capture);
  EXPECT_THAT(InferredGroups(capture),
              testing::ElementsAre(std::vector{0, 2, 4, 6}, std::vector{1, 3, 5, 7}));
}

TEST(InferGroups, FindsEveryLayoutWithItsMessages) {
  std::mt19937_64 random(3);
  for (const auto& [tensor, data, pipeline] :
       {std::tuple(4, 2, 1), std::tuple(2, 2, 2), std::tuple(1, 8, 1), std::tuple(2, 1, 4),
        std::tuple(8, 1, 1), std::tuple(2, 4, 2), std::tuple(1, 2, 2)}) {
    JobShape shape{.tensor = tensor, .data = data, .pipeline = pipeline};
    const Score score = Found(shape, random());
    EXPECT_GE(score.rate(), 0.99) << tensor << "x" << data << "x" << pipeline;
    EXPECT_EQ(score.wrong_members, 0u) << tensor << "x" << data << "x" << pipeline;
  }
}

TEST(InferGroups, ToleratesClockOffsetsLostRecordsAndASlowRank) {
  std::mt19937_64 random(5);
  uint64_t kernels = 0, right = 0, wrong = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    JobShape shape{.tensor = 2, .data = 2, .pipeline = trial % 2 == 0 ? 2 : 1};
    shape.loss = 0.02;
    shape.clock_ms = trial % 3 == 0 ? 50 : 1;
    shape.drift_ppm = 50;
    shape.ranks_per_host = trial % 4 < 2 ? 1 : 4;
    shape.slow_rank = trial % 3 == 1 ? static_cast<int>(random() % 4) : -1;
    shape.unequal_windows = trial % 2 == 1;
    const Score score = Found(shape, random());
    EXPECT_GE(score.rate(), 0.97) << "trial " << trial;
    kernels += score.kernels;
    right += score.right;
    wrong += score.wrong_members;
  }
  const double rate = static_cast<double>(right) / static_cast<double>(kernels);
  std::cout << "matched " << rate << " of " << kernels << " kernels, " << wrong << " wrong\n";
  EXPECT_GE(rate, 0.99);
  EXPECT_LE(static_cast<double>(wrong), 1e-5 * static_cast<double>(kernels));
}

TEST(InferGroups, InfersGroupsOfSixtyFourRanks) {
  const Score score =
      Found({.tensor = 4, .data = 4, .pipeline = 4, .steps = 4, .layers = 3, .microbatches = 4}, 77);
  EXPECT_GE(score.rate(), 0.99);
  EXPECT_EQ(score.wrong_members, 0u);
}

TEST(InferGroups, KernelsWithoutPartnersStayUngrouped) {
  // Ranks 0 and 1 share all-reduces. Rank 2 runs equally many kernels of the same name at unrelated times.
  std::mt19937_64 random(9);
  capture::Capture capture;
  capture.hosts.push_back({.id = "h", .name = "h"});
  capture.ranks.resize(3);
  const NameId name = capture.strings.Intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)");
  int64_t now = 0;
  for (int i = 0; i < 40; ++i) {
    now += 1'000'000 + static_cast<int64_t>(random() % 200'000);
    for (int r = 0; r < 3; ++r) {
      const int64_t early = static_cast<int64_t>(random() % 90'000),
                    off = r == 2 ? static_cast<int64_t>(random() % 700'000) : 0;
      capture::DeviceActivity a;
      a.start = HostTime(now + off - early);
      a.end = HostTime(now + off + 40'000);
      a.name = name;
      a.stream = StreamId(7);
      capture.ranks[static_cast<size_t>(r)].activities.push_back(a);
    }
  }
  for (int r = 0; r < 3; ++r)
    capture.ranks[static_cast<size_t>(r)].rank = RankId(r), capture.ranks[static_cast<size_t>(r)].host = 0;
  capture::Finish(capture);
  InferGroups(capture);
  EXPECT_THAT(InferredGroups(capture), testing::ElementsAre(std::vector{0, 1}));
  const Matches m = Match(capture);
  EXPECT_EQ(m.by_inferred, 40u);
  EXPECT_EQ(m.unmatched + m.partner_lost + m.cut_by_window, 40u);
}

TEST(InferGroups, AKernelWithoutDescriptionGetsItsStreamsCommunicatorAndTheFreeNumber) {
  capture::Capture capture;
  capture.hosts.push_back({.id = "h", .name = "h"});
  capture.ranks.resize(2);
  capture.groups.push_back({.key = "tp", .name = "tp", .members = {RankId(0), RankId(1)}, .size = 2});
  const NameId name = capture.strings.Intern("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)");
  for (uint32_t r = 0; r < 2; ++r) {
    capture::RankData& rank = capture.ranks[r];
    rank.rank = RankId(static_cast<int32_t>(r));
    rank.host = 0;
    for (uint32_t i = 0; i < 10; ++i) {
      capture::DeviceActivity a;
      a.start = HostTime(1000 * i + 100 * r);
      a.end = HostTime(1000 * i + 300);
      a.name = name;
      a.stream = StreamId(20);
      a.correlation = CorrelationId(100 + i);
      rank.activities.push_back(a);
      // Rank 1 lost the description of the fifth kernel. Both windows opened after the launch of the first
      // one.
      if (i == 0 || (r == 1 && i == 5)) continue;
      rank.collectives.push_back({.activity = i,
                                  .group = 0,
                                  .op = CollectiveOp::kAllReduce,
                                  .source = capture::MatchSource::kNcclSequence,
                                  .sequence = 40 + i,
                                  .bytes = 64});
    }
    for (uint32_t i = 1; i < 10; ++i)
      rank.api_calls.push_back({.start = HostTime(1000 * i - 500),
                                .end = HostTime(1000 * i - 400),
                                .correlation = CorrelationId(100 + i)});
  }
  capture::Finish(capture);
  InferGroups(capture);
  const Matches m = Match(capture);
  EXPECT_EQ(m.by_nccl_sequence, 9u);
  EXPECT_EQ(m.by_order, 1u) << "kernels before the first number of both pair by order";
  EXPECT_EQ(m.MatchedFraction(), 1.0);
}

TEST(InferGroups, ResultIsDeterministic) {
  for (int run = 0; run < 2; ++run) {
    capture::Capture a = SmallJob({.tensor = 2, .data = 4, .loss = 0.02, .clock_ms = 5}, 11).Take();
    capture::Capture b = SmallJob({.tensor = 2, .data = 4, .loss = 0.02, .clock_ms = 5}, 11).Take();
    InferGroups(a);
    InferGroups(b);
    ASSERT_EQ(a.groups.size(), b.groups.size());
    for (size_t g = 0; g < a.groups.size(); ++g) EXPECT_EQ(a.groups[g].members, b.groups[g].members);
    EXPECT_EQ(a.notes, b.notes);
  }
}

TEST(InferGroups, AcceptsEmptyAndInvalidCaptures) {
  capture::Capture empty;
  InferGroups(empty);
  capture::Capture capture = SmallJob({.tensor = 2, .data = 1, .steps = 2}, 13).Take();
  std::mt19937_64 random(1);
  for (capture::RankData& rank : capture.ranks) {
    for (capture::DeviceActivity& a : rank.activities) {
      if (random() % 3 == 0) std::swap(a.start, a.end);  // reversed records
      if (random() % 5 == 0) a.end = HostTime(static_cast<int64_t>(random() >> 2));
    }
  }
  InferGroups(capture);
  Match(capture);
}

}  // namespace
}  // namespace lockstep::capture
