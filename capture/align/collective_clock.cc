#include "capture/align/collective_clock.h"

#include <algorithm>
#include <limits>

namespace lockstep::capture {
namespace {

using capture::CollectiveOp;

// Two clocks may each drift by 100 ppm, plus a margin.
constexpr double kMaxDrift = 2.2e-4;
// A member that stayed this many times longer than the shortest one waited for it, so their ends belong
// together.
constexpr int64_t kClearlyWaited = 3;
// Time stamps of old traces are whole microseconds. A start rounded up and an end rounded down are 1 µs
// closer than they were.
constexpr Nanos kStampRounding = Nanos(1000);

// Summary of an instance's members on one host.
struct HostSide {
  uint32_t host;
  HostTime latest_start = HostTime::Min();
  HostTime earliest_end = HostTime::Max();
  HostTime latest_end = HostTime::Min();
  uint32_t members = 0;
  Nanos shortest = Nanos::Max();
  bool has_root = false;
  bool sends = false;
  bool receives = false;
};

// The largest distance between the ends of two members of the host.
Nanos ExitSkew(const HostSide& side) { return side.latest_end - side.earliest_end; }

struct HostSides {
  std::vector<HostSide> hosts;
  bool exchange = false;
  Nanos exit_skew = Nanos::Max();  // between members of one host; Max() if no host has two
};

const capture::Collective& At(const capture::Capture& capture, const Member& m) {
  return capture.ranks[m.rank_index].collectives[m.collective];
}

HostSides SidesOf(const capture::Capture& capture, const Instance& instance) {
  HostSides sides;
  for (const Member& m : instance.members) {
    const capture::RankData& rank = capture.ranks[m.rank_index];
    const capture::Collective& c = At(capture, m);
    const capture::DeviceActivity& a = rank.activities[c.activity];
    auto it = std::find_if(sides.hosts.begin(), sides.hosts.end(),
                           [&](const HostSide& s) { return s.host == rank.host; });
    if (it == sides.hosts.end()) it = sides.hosts.insert(it, HostSide{.host = rank.host});
    it->latest_start = std::max(it->latest_start, a.start);
    it->earliest_end = std::min(it->earliest_end, a.end);
    it->latest_end = std::max(it->latest_end, a.end);
    ++it->members;
    // A clock that was set back makes an end earlier than its start.
    it->shortest = std::min(it->shortest, std::max(Nanos(), a.end - a.start));
    const auto& members = capture.groups[instance.group].members;
    if (c.root >= 0 && static_cast<size_t>(c.root) < members.size() &&
        members[static_cast<size_t>(c.root)] == rank.rank) {
      it->has_root = true;
    }
    it->sends |= c.op == CollectiveOp::kSend;
    it->receives |= c.op == CollectiveOp::kReceive;
    sides.exchange |= c.op == CollectiveOp::kSendReceive;
  }
  for (const HostSide& side : sides.hosts) {
    if (side.members < 2) continue;
    sides.exit_skew =
        sides.exit_skew == Nanos::Max() ? ExitSkew(side) : std::max(sides.exit_skew, ExitSkew(side));
  }
  return sides;
}

// True if `to` needs data from `from`.
bool Flows(CollectiveOp op, const HostSide& from, const HostSide& to, Nanos shortest) {
  if (capture::IsSymmetric(op)) return true;
  switch (op) {
    case CollectiveOp::kSendReceive:
      // A message goes one way: a sender whose message is buffered leaves before its receiver has come.
      return from.sends || from.receives || to.sends || to.receives ? from.sends && to.receives : true;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      // If no root is named, the root is the host that clearly did not wait.
      return from.has_root ||
             (!to.has_root && from.shortest == shortest && to.shortest.ns() > kClearlyWaited * shortest.ns());
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      return to.has_root;
    default:
      return false;
  }
}

Nanos Lead(HostTime of_b, HostTime of_a) { return Nanos(of_b.ns() - of_a.ns()); }

void AddLimits(CollectiveOp op, const HostSides& sides, const HostSide& a, const HostSide& b,
               HostPairEvidence& out) {
  const Nanos shortest = std::min(a.shortest, b.shortest);
  const HostTime at = a.earliest_end;
  if (Flows(op, a, b, shortest))
    out.uppers.push_back({at, Lead(b.earliest_end, a.latest_start) + kStampRounding, sides.exchange});
  if (Flows(op, b, a, shortest))
    out.lowers.push_back({at, Lead(b.latest_start, a.earliest_end) - kStampRounding, sides.exchange});
}

void AddSample(CollectiveOp op, const HostSides& sides, const HostSide& a, const HostSide& b,
               HostPairEvidence& out) {
  const Nanos shortest = std::min(a.shortest, b.shortest);
  const bool to_b = Flows(op, a, b, shortest);
  const bool to_a = Flows(op, b, a, shortest);
  const bool b_waited = to_b && b.shortest.ns() > kClearlyWaited * a.shortest.ns();
  const bool a_waited = to_a && a.shortest.ns() > kClearlyWaited * b.shortest.ns();
  LeadSample sample{a.earliest_end, Lead(b.earliest_end, a.earliest_end), shortest};
  if (capture::IsSymmetric(op) && !sides.exchange) {
    // The transfer is as long as the stay of the last member, on whichever host.
    for (const HostSide& side : sides.hosts) sample.uncertainty = std::min(sample.uncertainty, side.shortest);
    const Nanos of_both = std::max(ExitSkew(a), ExitSkew(b));
    sample.exit_skew = a.members > 1 || b.members > 1 ? of_both : sides.exit_skew;
  }
  if (to_a && to_b) {
    out.samples.push_back(sample);
  } else if (b_waited || a_waited) {
    (to_b ? out.to_second : out.to_first).push_back(sample);
  }
}

enum class Use : uint8_t { kLimits, kEverything };

void AddPair(CollectiveOp op, const HostSides& sides, const HostSide& one, const HostSide& other, Use use,
             PairEvidence& evidence) {
  if (one.host == other.host || one.host == capture::kNone || other.host == capture::kNone) return;
  const HostSide& a = one.host < other.host ? one : other;
  const HostSide& b = one.host < other.host ? other : one;
  HostPairEvidence& out = evidence[{a.host, b.host}];
  AddLimits(op, sides, a, b, out);
  if (use == Use::kLimits) return;
  out.limits_only = false;
  AddSample(op, sides, a, b, out);
}

// A sender may leave before its receiver, always by about the same time. This time shifts samples of the two
// directions by opposite amounts, so the mean of one sample of each direction cancels it.
std::vector<LeadSample> BothWays(const HostPairEvidence& evidence) {
  std::vector<LeadSample> samples = evidence.samples;
  const bool more_first = evidence.to_first.size() > evidence.to_second.size();
  std::vector<LeadSample> many = more_first ? evidence.to_first : evidence.to_second;
  const std::vector<LeadSample>& few = more_first ? evidence.to_second : evidence.to_first;
  if (few.empty()) {
    samples.insert(samples.end(), many.begin(), many.end());
    return samples;
  }
  std::sort(many.begin(), many.end(), [](const LeadSample& x, const LeadSample& y) { return x.at < y.at; });
  for (const LeadSample& s : few) {
    auto other = std::lower_bound(many.begin(), many.end(), s.at,
                                  [](const LeadSample& x, HostTime at) { return x.at < at; });
    if (other == many.end() || (other != many.begin() && s.at - (other - 1)->at < other->at - s.at)) --other;
    const Nanos differ(std::llabs((other->lead - s.lead).ns()) / 2);
    samples.push_back({s.at + (other->at - s.at) / 2, (s.lead + other->lead) / 2,
                       std::min(std::max(s.uncertainty, other->uncertainty), differ + kStampRounding)});
  }
  return samples;
}

PairFit Fit(const HostPairEvidence& evidence, HostInterval window, bool with_exchanges) {
  PairFit out{{}, OffsetRegion(window.start + (window.end - window.start) / 2, kMaxDrift)};
  for (const auto& limit : evidence.uppers) {
    if (with_exchanges || !limit.exchange) out.region.AddUpper(limit.at, limit.lead);
  }
  for (const auto& limit : evidence.lowers) {
    if (with_exchanges || !limit.exchange) out.region.AddLower(limit.at, limit.lead);
  }
  if (with_exchanges && !out.region.Solve()) return Fit(evidence, window, false);
  out.fit = FitLead(BothWays(evidence), out.region, window);
  return out;
}

}  // namespace

PairEvidence CollectEvidence(const capture::Capture& capture, const Matches& matches, uint32_t reference) {
  PairEvidence evidence;
  for (const Instance& instance : matches.instances) {
    if (instance.members.size() < 2 || instance.group >= capture.groups.size()) continue;
    if (capture::IsSymmetric(instance.op) && !instance.usable) continue;
    const HostSides sides = SidesOf(capture, instance);
    if (sides.hosts.size() < 2) continue;
    const auto centre = std::find_if(sides.hosts.begin(), sides.hosts.end(),
                                     [&](const HostSide& s) { return s.host == reference; });
    const HostSide& first = centre == sides.hosts.end() ? sides.hosts.front() : *centre;
    const HostSide& last =
        *std::min_element(sides.hosts.begin(), sides.hosts.end(),
                          [](const HostSide& a, const HostSide& b) { return a.shortest < b.shortest; });
    for (const HostSide& other : sides.hosts) {
      AddPair(instance.op, sides, first, other, Use::kEverything, evidence);
      if (last.host != first.host && other.host != first.host)
        AddPair(instance.op, sides, last, other, Use::kLimits, evidence);
    }
  }
  return evidence;
}

PairFit FitPair(const HostPairEvidence& evidence, HostInterval window) { return Fit(evidence, window, true); }

}  // namespace lockstep::capture
