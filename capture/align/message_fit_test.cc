// Fits of sends and receives in sequences whose truth is known.
#include "capture/align/message_fit.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "capture/align/call_places.h"
#include "capture/align/transfer_match.h"
#include "gtest/gtest.h"

namespace lockstep::capture {
namespace {

struct Job {
  std::vector<MessageSide> sends, receives;
  std::vector<SyncPoint> sync_points;
};

// Steps of eight messages. If `waits`, the receiver waits for the first message of each step.
Job Steps(int steps, bool waits, double ahead_ns, bool rendezvous = false) {
  Job job;
  std::mt19937_64 random(7);
  std::exponential_distribution<double> skew(1 / 2e3);
  std::uniform_real_distribution<double> unit(0, 1);
  int64_t place = 0;
  double now = 1e6;
  for (int step = 0; step < steps; ++step) {
    for (int m = 0; m < 8; ++m, ++place) {
      now += 800e3 + 400e3 * unit(random);
      const double asked = now + (waits && m == 0 ? -500e3 : 100e3 + 300e3 * unit(random)), transfer = 60e3;
      const double met = std::max(now, asked) + transfer;
      job.sends.push_back({now, (rendezvous ? met : now + transfer) + skew(random), place});
      job.receives.push_back({asked + ahead_ns, met + ahead_ns + skew(random), place});
    }
    now += 2e6;
    job.sync_points.push_back({now + skew(random), now + ahead_ns + skew(random)});
  }
  return job;
}

TEST(FitMessages, OneWaitPerStepGivesTheShiftForAnyWindowStart) {
  for (const size_t cut : {0, 1, 5}) {
    Job job = Steps(6, true, 0);
    job.sends.erase(job.sends.begin(), job.sends.begin() + static_cast<std::ptrdiff_t>(cut));
    int64_t place = 0;
    for (MessageSide& s : job.sends) s.place = place++;
    const auto fit = FitMessages(job.sends, job.receives, 20e3, {}, Places::kSeen);
    ASSERT_TRUE(fit.has_value());
    EXPECT_EQ(fit->shift, -static_cast<int64_t>(cut));
    EXPECT_FALSE(fit->rendezvous);
    EXPECT_EQ(fit->contradicting, 0u);
  }
}

TEST(FitMessages, DetectsRendezvousSenders) {
  const Job job = Steps(6, true, 0, true);
  const auto fit = FitMessages(job.sends, job.receives, 20e3, {}, Places::kSeen);
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->shift, 0);
  EXPECT_TRUE(fit->rendezvous);
}

// Every third kernel has another message, whose partner comes 2 ms later.
TEST(FitMessages, AKernelMayStayForItsOtherMessages) {
  for (const bool among_others : {true, false}) {
    Job job = Steps(6, true, 0, true);
    for (size_t m = 1; m < job.sends.size(); m += 3) {
      std::vector<MessageSide>& side = m % 2 == 0 ? job.sends : job.receives;
      side[m].end_ns += 2e6;
      side[m].among_others = among_others;
    }
    const auto fit = FitMessages(job.sends, job.receives, 20e3, {}, Places::kSeen);
    ASSERT_EQ(fit.has_value(), among_others);
    if (fit) {
      EXPECT_EQ(fit->shift, 0);
      EXPECT_TRUE(fit->rendezvous);
    }
  }
}

// Its other messages do not let a kernel end before the message was sent.
TEST(FitMessages, AKernelCannotEndBeforeItsMessage) {
  const MessageFit fit{.rendezvous = true};
  const MessageSide early{0, 100e3, 0, true}, late{500e3, 600e3, 0, true};
  EXPECT_EQ(fit.ConsistencyOf(early, late), Consistency::kContradicts);
  EXPECT_EQ(fit.ConsistencyOf(late, early), Consistency::kContradicts);
  EXPECT_EQ(fit.ConsistencyOf({0, 600e3, 0, false}, {0, 900e3, 0, true}), Consistency::kNothing);
  EXPECT_EQ(fit.ConsistencyOf({0, 600e3, 0, true}, {0, 900e3, 0, false}), Consistency::kContradicts);
}

TEST(FitMessages, WithoutWaitingOnlySynchronisationPointsGiveTheShift) {
  const Job job = Steps(6, false, 3e6);
  EXPECT_FALSE(FitMessages(job.sends, job.receives, 20e3, {}, Places::kSeen).has_value());
  const auto fit = FitMessages(job.sends, job.receives, 1e9, job.sync_points, Places::kSeen);
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->shift, 0);
  EXPECT_NEAR(fit->ahead_ns, 3e6, 20e3);
}

TEST(FitMessages, UnrelatedChannelsDoNotFit) {
  const Job one = Steps(6, true, 0);
  std::mt19937_64 random(8);
  std::uniform_real_distribution<double> at(0, 60e6);
  std::vector<MessageSide> other;
  for (size_t i = 0; i < one.sends.size(); ++i) other.push_back({at(random), 0, 0});
  std::sort(other.begin(), other.end(),
            [](const MessageSide& x, const MessageSide& y) { return x.start_ns < y.start_ns; });
  for (size_t i = 0; i < other.size(); ++i)
    other[i] = {other[i].start_ns, other[i].start_ns + 60e3, static_cast<int64_t>(i)};
  EXPECT_FALSE(FitMessages(one.sends, other, 20e3, {}, Places::kSeen).has_value());
  EXPECT_FALSE(FitMessages({}, other, 20e3, {}, Places::kSeen).has_value());
}

// Kernels of steps of forty calls: every fifth call is a message, and one call is another kernel.
capture::RankData Called(int steps, const std::vector<int>& lost) {
  capture::RankData rank;
  const auto launch = [&](int call, uint32_t name) {
    capture::DeviceActivity a;
    a.name = NameId(name);
    a.correlation = CorrelationId(static_cast<uint32_t>(call + 1));
    a.start = HostTime(call * 1000);
    rank.activities.push_back(a);
  };
  int message = 0;
  for (int step = 0; step < steps; ++step) {
    launch(40 * step, 1);
    for (int m = 0; m < 6; ++m, ++message) {
      if (std::find(lost.begin(), lost.end(), message) != lost.end()) continue;
      launch(40 * step + 5 + 5 * m, 2);
      rank.collectives.push_back({.activity = static_cast<uint32_t>(rank.activities.size() - 1)});
    }
  }
  return rank;
}

TEST(CallPlaces, LostRecordsLeaveTheirPlacesUnused) {
  const std::vector<int> lost = {3, 10, 11, 29};
  const capture::RankData rank = Called(6, lost);
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < rank.collectives.size(); ++i) all.push_back(i);
  const auto places = CallPlaces(rank).Of(rank, all);
  ASSERT_TRUE(places.has_value());
  size_t k = 0;
  for (int message = 0; message < 36; ++message) {
    if (std::find(lost.begin(), lost.end(), message) != lost.end()) continue;
    EXPECT_EQ((*places)[k] - (*places)[0], message);
    ++k;
  }
}

TEST(CallPlaces, ReturnsNothingWithoutCallNumbers) {
  capture::RankData rank = Called(6, {});
  for (auto& a : rank.activities) a.correlation = CorrelationId(0);
  EXPECT_FALSE(CallPlaces(rank).Of(rank, std::vector<uint32_t>{0, 1, 2}).has_value());
}

TEST(PairTransfers, LossesOnBothSidesDoNotShiftCountedPlaces) {
  const Job job = Steps(8, true, 0);
  std::mt19937_64 random(9);
  std::vector<TransferSide> sends, receives;
  for (size_t i = 0; i < job.sends.size(); ++i) {
    const auto side = [](const MessageSide& s) {
      return TransferSide{JobTime(static_cast<int64_t>(s.start_ns)), JobTime(static_cast<int64_t>(s.end_ns)),
                          s.place};
    };
    if (random() % 10 != 0) sends.push_back(side(job.sends[i]));
    if (random() % 10 != 0) receives.push_back(side(job.receives[i]));
  }
  const auto pairs =
      PairTransfers(sends, receives, {.bound = Nanos(20'000), .sync_points = {}, .lost = true});
  size_t both = 0;
  for (const TransferSide& s : sends) {
    both += std::any_of(receives.begin(), receives.end(),
                        [&](const TransferSide& r) { return r.place == s.place; })
                ? 1
                : 0;
  }
  EXPECT_EQ(pairs.size(), both);
  for (const auto& [i, j] : pairs) EXPECT_EQ(sends[i].place, receives[j].place);
}

}  // namespace
}  // namespace lockstep::capture
