#include "aggregator/align/transfer_match.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep::align {
namespace {

constexpr int kMostShift = 12;
// The shift is judged by this many messages, few enough that a lost one seldom lies among them, and looked for anew after this
// many in a row that do not fit.
constexpr size_t kJudged = 24;
constexpr size_t kWorstLeftOut = 8;  // one in so many
constexpr double kImpossibleNs = 1e10;
constexpr int kLostTrack = 3;
constexpr double kRoundingNs = 2'000;

// From the later start to the receive's end.
double TransferNs(const TransferSide& send, const TransferSide& receive) {
  return static_cast<double>((receive.end - std::max(send.start, receive.start)).ns());
}

struct Judgement {
  // Mean transfer without the worst. Too late a send gives impossible transfers, too early a one adds the receiver's waiting,
  // so the right shift has the least.
  double score = INFINITY;
  double typical = 0;
  double middle_spread = 0;  // median distance from typical
  size_t pairs = 0;
};

double Middle(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

// How short transfers are when receive j answers send j + shift.
Judgement Judge(std::span<const TransferSide> sends, std::span<const TransferSide> receives, int shift, double tolerance) {
  std::vector<double> transfers;
  for (size_t j = 0; j < receives.size() && transfers.size() < kJudged; ++j) {
    const auto i = static_cast<int64_t>(j) + shift;
    if (i < 0 || i >= static_cast<int64_t>(sends.size())) continue;
    const double t = TransferNs(sends[static_cast<size_t>(i)], receives[j]);
    transfers.push_back(t < -tolerance ? kImpossibleNs : t);
  }
  Judgement out;
  out.pairs = transfers.size();
  if (transfers.empty()) return out;
  out.typical = Middle(transfers);
  std::vector<double> distances;
  for (double t : transfers) distances.push_back(std::fabs(t - out.typical));
  out.middle_spread = Middle(distances);
  std::sort(transfers.begin(), transfers.end());
  transfers.resize(transfers.size() - transfers.size() / kWorstLeftOut);
  out.score = 0;
  for (double t : transfers) out.score += t / static_cast<double>(transfers.size());
  return out;
}

}  // namespace

std::vector<std::pair<uint32_t, uint32_t>> PairTransfers(std::span<const TransferSide> sends,
                                                         std::span<const TransferSide> receives, Nanos bound) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  const double tolerance = kRoundingNs + (bound == Nanos::Max() ? INFINITY : static_cast<double>(bound.ns()));
  size_t send = 0, receive = 0;
  while (send < sends.size() && receive < receives.size()) {
    const auto left_sends = sends.subspan(send);
    const auto left_receives = receives.subspan(receive);
    const size_t whole = std::min({left_sends.size(), left_receives.size(), kJudged});
    int shift = 0;
    Judgement best;
    for (int magnitude = 0; magnitude <= kMostShift; ++magnitude) {
      for (int s : {magnitude, -magnitude}) {
        const Judgement judged = Judge(left_sends, left_receives, s, tolerance);
        // A shift that leaves most messages without a partner proves nothing; a larger one must be clearly better.
        if (judged.pairs * 2 < whole || judged.pairs == 0) continue;
        if (judged.score < 0.8 * best.score - 100 || best.pairs == 0) {
          best = judged;
          shift = s;
        }
        if (magnitude == 0) break;
      }
    }
    if (best.pairs == 0) return pairs;
    size_t i = send + static_cast<size_t>(std::max(0, shift));
    size_t j = receive + static_cast<size_t>(std::max(0, -shift));
    const double allowed = std::max({20 * best.middle_spread, 4 * std::fabs(best.typical), 2e5}) + (std::isfinite(tolerance) ? tolerance : 0);
    int misfits = 0;
    const size_t kept = pairs.size();
    for (; i < sends.size() && j < receives.size() && misfits < kLostTrack; ++i, ++j) {
      const double t = TransferNs(sends[i], receives[j]);
      misfits = t < -tolerance || std::fabs(t - best.typical) > allowed ? misfits + 1 : 0;
      pairs.emplace_back(static_cast<uint32_t>(i), static_cast<uint32_t>(j));
    }
    if (misfits < kLostTrack) return pairs;
    // The last few were taken on a wrong track.
    pairs.resize(pairs.size() - kLostTrack);
    i -= kLostTrack;
    j -= kLostTrack;
    if (pairs.size() == kept) {
      ++i;
      ++j;
    }
    send = i;
    receive = j;
  }
  return pairs;
}

}  // namespace lockstep::align
