#include "capture/align/transfer_match.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/median.h"
#include "capture/align/message_fit.h"

namespace lockstep::capture {
namespace {

constexpr int kMostTransferShift = 12;
// A shift is judged by this many messages. They are few, so that a lost one is rarely among them.
constexpr size_t kJudged = 24;
constexpr size_t kWorstLeftOut = 8;  // the worst one in this many does not count
constexpr double kImpossibleNs = 1e10;
constexpr double kLengthWeight = 0.2;
constexpr double kStampRoundingNs = 2'000;
// Losses on both sides move the pairing by at most this much from its first shift.
constexpr int kMostLost = 48;
// Score of a message that takes much longer than usual. It pairs only if nothing fits better.
constexpr float kUnusual = 0.3f;
// A receiver that waited fits its send exactly. If receivers come late, their lag changes little from message
// to message. A lag that jumps by this share of the distance to the next message joins a send and a receive
// whose own partners were both lost.
constexpr double kJump = 0.5;
constexpr size_t kNeighbours = 3;
constexpr size_t kUsualOf = 12;
constexpr double kLagWeight = 1.4;
constexpr float kLeastScore = 0.05f;

using TransferSides = std::span<const TransferSide>;

// The time from the later start to the receive's end.
double TransferNs(const TransferSide& send, const TransferSide& receive) {
  return static_cast<double>((receive.end - std::max(send.start, receive.start)).ns());
}

double LagNs(const TransferSide& send, const TransferSide& receive) {
  return static_cast<double>((receive.start - send.start).ns());
}

struct Judgement {
  // The variation of the transfers without the worst ones, plus a part of their length. If the send is too
  // late, transfers are impossible, as far as the clocks' bound shows this. If it is too early, they contain
  // the receiver's waiting. So with the right shift, transfers vary least and are short.
  double score = INFINITY;
  double typical = 0;
  double middle_spread = 0;  // median distance from typical
  size_t pairs = 0;
};

// Judges the transfers under the assumption that receive j belongs to send j + shift.
Judgement Judge(TransferSides sends, TransferSides receives, int shift, double tolerance) {
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
  out.typical = UpperMedianInPlace(transfers);
  std::vector<double> distances;
  for (double t : transfers) distances.push_back(std::fabs(t - out.typical));
  out.middle_spread = UpperMedianInPlace(distances);
  std::sort(distances.begin(), distances.end());
  distances.resize(distances.size() - distances.size() / kWorstLeftOut);
  out.score = kLengthWeight * std::fabs(out.typical);
  for (double d : distances) out.score += d / static_cast<double>(distances.size());
  return out;
}

struct Begin {
  int shift = 0;
  Judgement judged;
};

Begin FindBegin(TransferSides sends, TransferSides receives, double tolerance) {
  const size_t whole = std::min({sends.size(), receives.size(), kJudged});
  Begin best;
  for (int magnitude = 0; magnitude <= kMostTransferShift; ++magnitude) {
    for (int s : {magnitude, -magnitude}) {
      const Judgement judged = Judge(sends, receives, s, tolerance);
      // A shift that leaves most messages without a partner proves nothing. A larger shift must be clearly
      // better.
      if (judged.pairs * 2 < whole || judged.pairs == 0) continue;
      if (judged.score < 0.8 * best.judged.score - 100 || best.judged.pairs == 0) best = {s, judged};
      if (magnitude == 0) break;
    }
  }
  return best;
}

// The pairing in order that has the most pairs with usual transfers, and no impossible ones.
class Alignment {
 public:
  Alignment(TransferSides sends, TransferSides receives, const Begin& begin, double tolerance)
      : sends_(sends),
        receives_(receives),
        low_(begin.shift - kMostLost),
        width_(2 * kMostLost + 1),
        typical_(begin.judged.typical),
        tolerance_(tolerance),
        allowed_(std::max({20 * begin.judged.middle_spread, 4 * std::fabs(begin.judged.typical), 2e5})) {}

  // `lags`: the usual lag of each receive. `apart`: the usual interval between messages. Without them, only
  // transfers count.
  void UseLags(std::vector<double> lags, double apart) {
    lags_ = std::move(lags);
    apart_ = apart;
  }

  std::vector<std::pair<uint32_t, uint32_t>> Run() {
    const auto n = receives_.size();
    std::vector<float> previous(static_cast<size_t>(width_) + 1, 0.0f),
        current(static_cast<size_t>(width_) + 1, 0.0f);
    step_.assign(n * static_cast<size_t>(width_), Step::kSkipReceive);
    for (size_t j = 0; j < n; ++j) {
      // Cell k is send j + low + k. In the previous row, the same send is cell k + 1.
      for (int k = 0; k < width_; ++k) {
        const auto cell = static_cast<size_t>(k);
        float best = previous[cell + 1];
        Step step = Step::kSkipReceive;
        if (k > 0 && current[cell - 1] > best) {
          best = current[cell - 1];
          step = Step::kSkipSend;
        }
        const float score = Score(static_cast<int64_t>(j) + low_ + k, j);
        if (score > 0 && previous[cell] + score > best) {
          best = previous[cell] + score;
          step = Step::kPair;
        }
        current[cell] = best;
        step_[j * static_cast<size_t>(width_) + cell] = step;
      }
      current[static_cast<size_t>(width_)] = current[static_cast<size_t>(width_) - 1];
      std::swap(previous, current);
    }
    return Trace();
  }

 private:
  enum class Step : uint8_t { kPair, kSkipReceive, kSkipSend };

  float Score(int64_t i, size_t j) const {
    if (i < 0 || i >= static_cast<int64_t>(sends_.size())) return -1;
    const double t = TransferNs(sends_[static_cast<size_t>(i)], receives_[j]);
    if (t < -tolerance_) return -1;
    const double off = std::fabs(t - typical_);
    const auto score = off > allowed_ ? kUnusual : static_cast<float>(1.5 - off / allowed_);
    const double lag = LagNs(sends_[static_cast<size_t>(i)], receives_[j]);
    // A receiver that waited fits one send only. A receiver that came late would fit every earlier send.
    if (lags_.empty() || lag <= 0) return score;
    const double jump = std::min(1.0, std::fabs(lag - lags_[j]) / apart_);
    return std::max(kLeastScore, score - static_cast<float>(kLagWeight * jump));
  }

  std::vector<std::pair<uint32_t, uint32_t>> Trace() const {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    auto j = static_cast<int64_t>(receives_.size()) - 1;
    int k = width_ - 1;
    while (j >= 0 && k >= 0) {
      switch (step_[static_cast<size_t>(j) * static_cast<size_t>(width_) + static_cast<size_t>(k)]) {
        case Step::kPair:
          pairs.emplace_back(static_cast<uint32_t>(j + low_ + k), static_cast<uint32_t>(j));
          --j;
          break;
        case Step::kSkipReceive:
          --j;
          k = std::min(k + 1, width_ - 1);
          break;
        case Step::kSkipSend:
          --k;
          break;
      }
    }
    std::reverse(pairs.begin(), pairs.end());
    return pairs;
  }

  TransferSides sends_;
  TransferSides receives_;
  int low_;
  int width_;
  double typical_;
  double tolerance_;
  double allowed_;
  std::vector<double> lags_;  // by receive
  double apart_ = 1;
  std::vector<Step> step_;
};

// Median lag of the pairs around each receive.
std::vector<double> UsualLags(TransferSides sends, TransferSides receives,
                              const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  std::vector<double> lags(receives.size(), 0);
  size_t p = 0;
  for (uint32_t j = 0; j < receives.size(); ++j) {
    while (p < pairs.size() && pairs[p].second < j) ++p;
    std::vector<double> around;
    for (size_t q = p > kUsualOf ? p - kUsualOf : 0; q < std::min(pairs.size(), p + kUsualOf); ++q)
      around.push_back(LagNs(sends[pairs[q].first], receives[pairs[q].second]));
    if (!around.empty()) lags[j] = UpperMedianInPlace(around);
  }
  return lags;
}

double UsualInterval(TransferSides sends) {
  std::vector<double> intervals;
  for (size_t i = 1; i < sends.size(); ++i)
    intervals.push_back(static_cast<double>((sends[i].start - sends[i - 1].start).ns()));
  return intervals.empty() ? 1 : std::max(1.0, UpperMedianInPlace(intervals));
}

// Drops wrong pairs: a send and a receive were paired only because the true partner of each was lost. Such a
// send ended before that receive began.
std::vector<std::pair<uint32_t, uint32_t>> WithoutJumps(
    TransferSides sends, TransferSides receives, const std::vector<std::pair<uint32_t, uint32_t>>& pairs) {
  std::vector<std::pair<uint32_t, uint32_t>> kept;
  for (size_t p = 0; p < pairs.size(); ++p) {
    std::vector<double> around;
    double to_next = INFINITY;
    for (size_t q = p > kNeighbours ? p - kNeighbours : 0; q < std::min(pairs.size(), p + kNeighbours + 1);
         ++q) {
      if (q == p) continue;
      around.push_back(LagNs(sends[pairs[q].first], receives[pairs[q].second]));
      to_next = std::min(
          to_next,
          std::fabs(static_cast<double>((sends[pairs[q].first].start - sends[pairs[p].first].start).ns())));
    }
    if (around.size() >= 2 * kNeighbours) {
      const double lag = LagNs(sends[pairs[p].first], receives[pairs[p].second]);
      const double middle = UpperMedianInPlace(around);
      std::vector<double> far;
      for (double a : around) far.push_back(std::fabs(a - middle));
      const double usual = *std::max_element(far.begin(), far.end());
      const bool apart = sends[pairs[p].first].end < receives[pairs[p].second].start;
      if (apart && lag - middle > std::max(kJump * to_next, 3 * usual)) continue;
    }
    kept.push_back(pairs[p]);
  }
  return kept;
}

bool Counted(TransferSides sides) {
  return std::all_of(sides.begin(), sides.end(), [](const TransferSide& s) { return s.place >= 0; });
}

std::vector<MessageSide> Placed(TransferSides sides, Places places) {
  std::vector<MessageSide> out;
  for (const TransferSide& s : sides) {
    const auto place = places == Places::kCounted ? s.place : static_cast<int64_t>(out.size());
    out.push_back({static_cast<double>((s.start - JobTime()).ns()),
                   static_cast<double>((s.end - JobTime()).ns()), place, s.among_others});
  }
  return out;
}

// Pairs all messages by one shift, which every message that waited confirms. Where records were lost, a
// stretch between two confirmed messages is left out if it contains a contradiction.
std::optional<std::vector<std::pair<uint32_t, uint32_t>>> PairByPlace(TransferSides sends,
                                                                      TransferSides receives,
                                                                      const TransferClocks& clocks) {
  const Places places = Counted(sends) && Counted(receives) ? Places::kCounted : Places::kSeen;
  const std::vector<MessageSide> from = Placed(sends, places), to = Placed(receives, places);
  const double apart = clocks.bound == Nanos::Max() ? INFINITY : static_cast<double>(clocks.bound.ns());
  const std::optional<MessageFit> fit = FitMessages(from, to, apart, clocks.sync_points, places);
  if (!fit) return std::nullopt;
  std::vector<std::pair<uint32_t, uint32_t>> kept, stretch;
  bool doubtful = false;
  uint32_t i = 0;
  for (uint32_t j = 0; j < to.size(); ++j) {
    while (i < from.size() && from[i].place < to[j].place + fit->shift) ++i;
    if (i == from.size() || from[i].place != to[j].place + fit->shift) continue;
    const Consistency consistency = fit->ConsistencyOf(from[i], to[j]);
    if (consistency == Consistency::kLeavesTogether) {
      if (!doubtful) kept.insert(kept.end(), stretch.begin(), stretch.end());
      stretch.clear();
      doubtful = false;
      kept.emplace_back(i, j);
      continue;
    }
    doubtful |= clocks.lost && consistency == Consistency::kContradicts;
    stretch.emplace_back(i, j);
  }
  if (!doubtful) kept.insert(kept.end(), stretch.begin(), stretch.end());
  return kept;
}

}  // namespace

std::vector<std::pair<uint32_t, uint32_t>> PairTransfers(TransferSides sends, TransferSides receives,
                                                         const TransferClocks& clocks) {
  if (sends.empty() || receives.empty()) return {};
  if (auto placed = PairByPlace(sends, receives, clocks)) return *std::move(placed);
  // If neither side waited, a shift does not show records that were lost on both sides.
  if (clocks.lost) return {};
  const double tolerance =
      kStampRoundingNs + (clocks.bound == Nanos::Max() ? INFINITY : static_cast<double>(clocks.bound.ns()));
  const Begin begin = FindBegin(sends, receives, tolerance);
  if (begin.judged.pairs == 0) return {};
  Alignment alignment(sends, receives, begin, tolerance);
  auto pairs = alignment.Run();
  if (sends.size() != receives.size() || pairs.size() != sends.size()) {
    // A record is missing at an unknown place. Receivers that come late do not show the place, but a change
    // of their usual lag does.
    alignment.UseLags(UsualLags(sends, receives, pairs), UsualInterval(sends));
    pairs = alignment.Run();
  }
  return WithoutJumps(sends, receives, pairs);
}

}  // namespace lockstep::capture
