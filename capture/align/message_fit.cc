#include "capture/align/message_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/median.h"

namespace lockstep::capture {
namespace {

// Ends of one message lie at most this far apart.
constexpr double kTogetherNs = 15e3;
// Ends of two different messages rarely lie closer than this.
constexpr double kElsewhereNs = 60e3;
// If the starts lie further apart than this, the earlier side waited.
constexpr double kWaitedNs = 25e3;
// Without waiting, both sides of a message take about equally long. Durations outside these limits contradict
// the shift.
constexpr double kLongerThan = 1.5;
constexpr double kLongerByNs = 100e3;
constexpr double kShorterThan = 0.75;
constexpr size_t kShiftsTried = 6;
// If the clocks' difference is unknown, windows that opened together differ by at most this many messages.
constexpr int64_t kMostShift = 12;
constexpr uint32_t kLeastTogether = 3;
// Channels with fewer messages than this need only one message that confirms the shift.
constexpr uint32_t kFewMessages = 8;
constexpr double kContradictingOneIn = 50;
// The best shift needs this many times as many confirmations as any other shift.
constexpr double kClearlyMore = 2;
// Ends of unrelated messages may lie up to this far apart by chance.
constexpr double kChanceNs = 400e3;
constexpr double kStampNs = 300;
// At least this many synchronisation points show the lead of the clocks, to within kSyncPointNs.
constexpr size_t kLeastSyncPoints = 2;
constexpr double kSyncPointNs = 30e3;
// At least this share of the synchronisation points must agree on one shift. The second share applies if lost
// records are not counted, because each lost record changes the shift from there on.
constexpr double kMostSyncPoints = 0.6;
constexpr double kNearlyAllSyncPoints = 0.9;

using MessageSides = std::span<const MessageSide>;

struct Pair {
  const MessageSide* send;
  const MessageSide* receive;
};

std::vector<Pair> PairsOf(MessageSides sends, MessageSides receives, int64_t shift) {
  std::vector<Pair> pairs;
  size_t i = 0;
  for (const MessageSide& r : receives) {
    while (i < sends.size() && sends[i].place < r.place + shift) ++i;
    if (i < sends.size() && sends[i].place == r.place + shift) pairs.push_back({&sends[i], &r});
  }
  return pairs;
}

// The lead of the receiver's clock, with its uncertainty.
struct Clocks {
  double ahead_ns = 0;
  double give_or_take_ns = 0;
};

// The distance that the ends of most pairs keep. nullopt: the clocks allow none of the distances.
std::optional<double> SharedDistance(const std::vector<Pair>& pairs, const Clocks& clocks) {
  std::vector<double> apart;
  for (const Pair& p : pairs) {
    const double d = p.receive->end_ns - p.send->end_ns;
    if (std::fabs(d - clocks.ahead_ns) <= clocks.give_or_take_ns + kTogetherNs) apart.push_back(d);
  }
  if (apart.empty()) return std::nullopt;
  std::sort(apart.begin(), apart.end());
  size_t best_first = 0, best_last = 0, first = 0;
  for (size_t last = 0; last < apart.size(); ++last) {
    while (apart[last] - apart[first] > kTogetherNs) ++first;
    if (last - first > best_last - best_first) {
      best_first = first;
      best_last = last;
    }
  }
  return apart[(best_first + best_last) / 2];
}

MessageFit Judged(const std::vector<Pair>& pairs, int64_t shift, double ahead, bool rendezvous) {
  MessageFit fit{.shift = shift,
                 .ahead_ns = ahead,
                 .rendezvous = rendezvous,
                 .messages = static_cast<uint32_t>(pairs.size())};
  std::vector<double> apart;
  for (const Pair& p : pairs) {
    switch (fit.ConsistencyOf(*p.send, *p.receive)) {
      case Consistency::kLeavesTogether:
        ++fit.together;
        apart.push_back(std::fabs(p.receive->end_ns - ahead - p.send->end_ns));
        break;
      case Consistency::kContradicts:
        ++fit.contradicting;
        break;
      case Consistency::kNothing:
        break;
    }
  }
  if (!apart.empty()) fit.spread_ns = UpperMedianInPlace(apart);
  return fit;
}

// Shifts at which ends coincide, the most frequent first. If the clocks' difference is unlimited, all small
// shifts.
std::vector<int64_t> ShiftsToTry(MessageSides sends, MessageSides receives, const Clocks& clocks) {
  std::vector<int64_t> shifts;
  const double most = clocks.give_or_take_ns + kTogetherNs;
  if (!std::isfinite(most)) {
    for (int64_t s = -kMostShift; s <= kMostShift; ++s)
      shifts.push_back(sends.front().place - receives.front().place + s);
    return shifts;
  }
  std::vector<int64_t> votes;
  size_t low = 0;
  for (const MessageSide& s : sends) {
    const double end = s.end_ns + clocks.ahead_ns;
    while (low < receives.size() && receives[low].end_ns < end - most) ++low;
    for (size_t j = low; j < receives.size() && receives[j].end_ns <= end + most; ++j)
      votes.push_back(s.place - receives[j].place);
  }
  std::sort(votes.begin(), votes.end());
  std::vector<std::pair<int64_t, int64_t>> counts;  // negative count, shift
  for (size_t i = 0; i < votes.size();) {
    size_t j = i;
    while (j < votes.size() && votes[j] == votes[i]) ++j;
    counts.emplace_back(-static_cast<int64_t>(j - i), votes[i]);
    i = j;
  }
  std::sort(counts.begin(), counts.end());
  for (size_t i = 0; i < std::min(kShiftsTried, counts.size()); ++i) shifts.push_back(counts[i].second);
  return shifts;
}

bool Convincing(const MessageFit& fit, size_t fewer) {
  if (fit.messages * 2 < fewer) return false;
  if (fit.together < (fewer < kFewMessages ? 1 : kLeastTogether)) return false;
  return fit.contradicting * kContradictingOneIn <= fit.messages ||
         (fit.contradicting == 1 && fit.together > kFewMessages);
}

Clocks ClocksBy(std::span<const SyncPoint> sync_points, double apart_ns) {
  if (sync_points.size() < kLeastSyncPoints) return {0, apart_ns};
  std::vector<double> ahead;
  for (const SyncPoint& m : sync_points) ahead.push_back(m.receiver_ns - m.sender_ns);
  return {UpperMedianInPlace(ahead), std::min(apart_ns, kSyncPointNs)};
}

// A message that was sent before a synchronisation point was also received before it.
std::optional<MessageFit> FitBySyncPoints(MessageSides sends, MessageSides receives, const Clocks& clocks,
                                          std::span<const SyncPoint> sync_points, Places places) {
  std::map<int64_t, size_t> votes;
  size_t counted = 0;
  for (const SyncPoint& m : sync_points) {
    const auto before = [](double at) { return [at](const MessageSide& s) { return s.start_ns < at; }; };
    const auto send = std::partition_point(sends.begin(), sends.end(), before(m.sender_ns));
    const auto receive = std::partition_point(receives.begin(), receives.end(), before(m.receiver_ns));
    if (send == sends.begin() || receive == receives.begin()) continue;
    ++counted;
    ++votes[(send - 1)->place - (receive - 1)->place];
  }
  if (counted < kLeastSyncPoints) return std::nullopt;
  const double share = places == Places::kCounted ? kMostSyncPoints : kNearlyAllSyncPoints;
  const auto most = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& x, const auto& y) { return x.second < y.second; });
  if (most->second < kLeastSyncPoints ||
      static_cast<double>(most->second) < share * static_cast<double>(counted))
    return std::nullopt;
  const MessageFit fit = Judged(PairsOf(sends, receives, most->first), most->first, clocks.ahead_ns, false);
  if (fit.messages * 2 < std::min(sends.size(), receives.size()) ||
      fit.contradicting * kContradictingOneIn > fit.messages)
    return std::nullopt;
  return fit;
}

}  // namespace

Consistency MessageFit::ConsistencyOf(const MessageSide& send, const MessageSide& receive) const {
  const double receive_start = receive.start_ns - ahead_ns, receive_end = receive.end_ns - ahead_ns;
  const double late = receive_start - send.start_ns;
  const double apart = std::fabs(receive_end - send.end_ns);
  if (rendezvous || late < -kWaitedNs) {
    if (apart > kElsewhereNs) {
      const bool possible = receive_end + kTogetherNs > send.start_ns &&
                            (!rendezvous || send.end_ns + kTogetherNs > receive_start);
      const bool stayed = receive_end > send.end_ns ? receive.among_others : send.among_others;
      return possible && stayed ? Consistency::kNothing : Consistency::kContradicts;
    }
    return std::fabs(late) > kWaitedNs && apart <= kTogetherNs ? Consistency::kLeavesTogether
                                                               : Consistency::kNothing;
  }
  // A receiver that came late found the message under way or complete, so it takes about as long as its
  // sender.
  const double sent = send.end_ns - send.start_ns, received = receive_end - receive_start;
  const bool too_long = received > kLongerThan * sent + kLongerByNs && !receive.among_others;
  const bool too_short = received < kShorterThan * sent - kElsewhereNs && !send.among_others;
  if (late > kWaitedNs && (too_long || too_short)) return Consistency::kContradicts;
  return Consistency::kNothing;
}

double MessageFit::Evidence() const { return together * std::log(kChanceNs / (spread_ns + kStampNs)); }

std::optional<MessageFit> FitMessages(MessageSides sends, MessageSides receives, double apart_ns,
                                      std::span<const SyncPoint> sync_points, Places places) {
  if (sends.empty() || receives.empty()) return std::nullopt;
  const Clocks clocks = ClocksBy(sync_points, apart_ns);
  const size_t fewer = std::min(sends.size(), receives.size());
  std::optional<MessageFit> best;
  double second = 0;
  for (const int64_t shift : ShiftsToTry(sends, receives, clocks)) {
    const std::vector<Pair> pairs = PairsOf(sends, receives, shift);
    const std::optional<double> ahead = SharedDistance(pairs, clocks);
    if (!ahead) continue;
    const MessageFit buffered = Judged(pairs, shift, *ahead, false),
                     both = Judged(pairs, shift, *ahead, true);
    // If the waiting does not decide, take the simpler assumption, that senders do not wait.
    const bool senders_wait =
        both.contradicting < buffered.contradicting
            ? both.together > buffered.together
            : both.contradicting == buffered.contradicting && both.together > buffered.together + 1;
    const MessageFit& fit = senders_wait ? both : buffered;
    if (!Convincing(fit, fewer)) continue;
    if (!best || fit.together > best->together) {
      second = best ? best->together : 0;
      best = fit;
    } else {
      second = std::max<double>(second, fit.together);
    }
  }
  if (best && best->together >= kClearlyMore * second) return best;
  return FitBySyncPoints(sends, receives, clocks, sync_points, places);
}

}  // namespace lockstep::capture
