#include "analysis/replay/shared_follows.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analysis/replay/device_streams.h"
#include "base/split_mix.h"

namespace lockstep::analysis {
namespace {

using capture::kNone;

// A dependency is not chance if it is seen this often, and in at least this share of its cases.
constexpr uint32_t kLeastSeen = 3;
constexpr double kLeastShare = 0.02;
// At most this share of the cases may contradict it. An operation that starts before the other one has ended
// does not wait for it.
constexpr double kMostAgainst = 0.01;
constexpr double kSlackNs = 10'000;
constexpr size_t kMostLater = 4;

class Sharer {
 public:
  Sharer(const capture::Capture& capture, Graph& graph) : capture_(capture), g_(graph) {}

  void Run(const std::vector<Follow>& follows) {
    FindPlaces();
    FindLaunches();
    Count(follows);
    if (rules_.empty()) return;
    ForEachCase([&](Rule& rule, uint32_t from, uint32_t unit) {
      ++rule.cases;
      rule.against += Fits(from, unit) ? 0 : 1;
    });
    for (auto& [place, rules] : rules_) {
      std::erase_if(rules, [](const Rule& r) {
        return r.seen < kLeastSeen || r.seen < kLeastShare * r.cases || r.against > kMostAgainst * r.cases;
      });
    }
    ForEachCase([&](const Rule&, uint32_t from, uint32_t unit) {
      const auto preds = g_.KnownStartPreds(unit);
      if (Fits(from, unit) && std::find(preds.begin(), preds.end(), EndOf(from)) == preds.end())
        added_.push_back({from, unit});
    });
    std::sort(added_.begin(), added_.end(), [](const Follow& a, const Follow& b) {
      return std::pair(a.unit, a.from) < std::pair(b.unit, b.from);
    });
    added_.erase(
        std::unique(added_.begin(), added_.end(),
                    [](const Follow& a, const Follow& b) { return a.unit == b.unit && a.from == b.from; }),
        added_.end());
    InsertFollows(added_, g_);
  }

 private:
  enum class Order : uint8_t { kLaunches, kStarts };

  // A unit at the rule's place follows an operation of `stream`: the one after which `later` more operations
  // had been launched there, or, if launches are not recorded, had started.
  struct Rule {
    uint32_t stream;
    uint32_t later;
    NameId name;
    Order order;
    uint32_t seen = 0;
    uint32_t cases = 0, against = 0;
  };

  bool Fits(uint32_t from, uint32_t unit) const { return g_.end[from] <= g_.start[unit] + kSlackNs; }

  // A rank has only a few streams, so they are searched one by one.
  struct Stream {
    uint32_t id;
    int32_t step = 0;
    uint64_t number = 0;          // units of the stream in that step so far
    std::vector<uint32_t> units;  // of the rank that was listed last, ordered by start
  };
  Stream& StreamOf(uint32_t id) {
    if (last_ < streams_.size() && streams_[last_].id == id) return streams_[last_];
    for (last_ = 0; last_ < streams_.size(); ++last_) {
      if (streams_[last_].id == id) return streams_[last_];
    }
    streams_.push_back({.id = id, .units = {}});
    return streams_.back();
  }

  // A place is the unit's stream, its index among the stream's units in the step, and its name.
  void FindPlaces() {
    place_.assign(g_.units.size(), 0);
    for (uint32_t r = 0; r + 1 < g_.rank_begin.size(); ++r) {
      for (Stream& s : streams_) s.step = kBeforeSteps;
      for (uint32_t u = g_.rank_begin[r]; u < g_.rank_begin[r + 1]; ++u) {
        const Unit& unit = g_.units[u];
        if (IsHostUnit(unit.kind) || unit.step < 0) continue;
        const capture::DeviceActivity& a = capture_.ranks[r].activities[unit.source];
        Stream& stream = StreamOf(a.stream.value());
        if (stream.step != unit.step) stream.number = 0;
        stream.step = unit.step;
        place_[u] = HashCombine(HashCombine(a.stream.value(), stream.number++), a.name.value()) | 1;
      }
    }
  }

  const capture::DeviceActivity& ActivityOf(uint32_t unit) const {
    return capture_.ranks[g_.units[unit].rank_index].activities[g_.units[unit].source];
  }

  // Lists one rank's device units by stream, ordered by start.
  void ListStreams(uint32_t rank) {
    for (Stream& s : streams_) s.units.clear();
    for (uint32_t u = g_.rank_begin[rank]; u < g_.rank_begin[rank + 1]; ++u) {
      if (!IsHostUnit(g_.units[u].kind)) StreamOf(ActivityOf(u).stream.value()).units.push_back(u);
    }
    listed_ = rank;
  }

  // The start of the call that launched each unit. A unit without a recorded launch has that of the unit
  // before it on its stream; kNever: none is recorded so far.
  void FindLaunches() {
    launched_.assign(g_.units.size(), kNever);
    for (uint32_t r = 0; r + 1 < g_.rank_begin.size(); ++r) {
      ListStreams(r);
      for (const Stream& stream : streams_) {
        double before = kNever;
        for (uint32_t u : stream.units) {
          for (NodeRef p : g_.KnownStartPreds(u)) {
            if (IsHostUnit(g_.units[UnitOf(p)].kind)) before = std::max(before, g_.start[UnitOf(p)]);
          }
          launched_[u] = before;
        }
      }
    }
    listed_ = kNone;
  }

  Order OrderFor(uint32_t unit) const {
    return launched_[unit] == kNever ? Order::kStarts : Order::kLaunches;
  }

  // Number of the stream's units that had been launched, or had started, before this one.
  size_t CountBefore(const std::vector<uint32_t>& stream, uint32_t unit, Order order) const {
    const std::vector<double>& moments = order == Order::kLaunches ? launched_ : g_.start;
    const auto after = std::partition_point(stream.begin(), stream.end(),
                                            [&](uint32_t u) { return moments[u] < moments[unit]; });
    return static_cast<size_t>(after - stream.begin());
  }

  // `follows` are ordered by rank.
  void Count(const std::vector<Follow>& follows) {
    for (const Follow& f : follows) {
      if (place_[f.unit] == 0) continue;
      if (listed_ != g_.units[f.unit].rank_index) ListStreams(g_.units[f.unit].rank_index);
      const capture::DeviceActivity& a = ActivityOf(f.from);
      const std::vector<uint32_t>& stream = StreamOf(a.stream.value()).units;
      const auto at =
          static_cast<size_t>(std::lower_bound(stream.begin(), stream.end(), f.from) - stream.begin());
      const Order order = OrderFor(f.unit);
      const size_t started = CountBefore(stream, f.unit, order);
      if (started <= at || started - at > kMostLater) continue;
      const auto later = static_cast<uint32_t>(started - at - 1);
      std::vector<Rule>& rules = rules_[place_[f.unit]];
      auto rule = std::find_if(rules.begin(), rules.end(), [&](const Rule& r) {
        return r.stream == a.stream.value() && r.later == later && r.name == a.name && r.order == order;
      });
      if (rule == rules.end())
        rule = rules.insert(rules.end(),
                            {.stream = a.stream.value(), .later = later, .name = a.name, .order = order});
      ++rule->seen;
    }
  }

  // A unit of one rank at the place of a rule, and the number of the stream's units before it.
  struct Seen {
    uint32_t unit;
    int64_t step;
    int64_t started;
  };

  // Calls use(rule, from, unit) for every unit with rules. `from` is the unit that it would follow.
  template <typename Use>
  void ForEachCase(const Use& use) {
    absl::flat_hash_map<Rule*, std::vector<Seen>> by_rule;
    std::vector<Rule*> rules_of_rank;
    for (uint32_t r = 0; r + 1 < g_.rank_begin.size(); ++r) {
      ListStreams(r);
      for (Rule* rule : rules_of_rank) by_rule[rule].clear();
      rules_of_rank.clear();
      for (uint32_t u = g_.rank_begin[r]; u < g_.rank_begin[r + 1]; ++u) {
        const auto rules = place_[u] == 0 ? rules_.end() : rules_.find(place_[u]);
        if (rules == rules_.end()) continue;
        for (Rule& rule : rules->second) {
          if (rule.order != OrderFor(u)) continue;
          std::vector<Seen>& seen = by_rule[&rule];
          if (seen.empty()) rules_of_rank.push_back(&rule);
          seen.push_back({u, g_.units[u].step,
                          static_cast<int64_t>(CountBefore(StreamOf(rule.stream).units, u, rule.order))});
        }
      }
      for (Rule* rule : rules_of_rank) UseOnRank(*rule, by_rule[rule], use);
    }
  }

  // The order of launches is that of the program. Starts are in order only if none is late. But every step
  // runs the same program, so the number of started units in the stream grows equally in each step.
  template <typename Use>
  void UseOnRank(Rule& rule, std::vector<Seen>& seen, const Use& use) {
    std::vector<int64_t> values;
    for (size_t i = 1; i < seen.size(); ++i) {
      if (seen[i].step == seen[i - 1].step + 1) values.push_back(seen[i].started - seen[i - 1].started);
    }
    const int64_t per_step = values.empty() ? 0 : MostFrequent(values);
    values.clear();
    for (const Seen& s : seen) values.push_back(s.started - per_step * s.step);
    const int64_t at_first = MostFrequent(values);
    const std::vector<uint32_t>& stream = StreamOf(rule.stream).units;
    for (const Seen& s : seen) {
      const bool as_seen = rule.order == Order::kLaunches || per_step == 0;
      const int64_t started = as_seen ? s.started : at_first + per_step * s.step;
      const int64_t from = started - 1 - rule.later;
      if (from < 0 || from >= static_cast<int64_t>(stream.size())) continue;
      const uint32_t unit = stream[static_cast<size_t>(from)];
      if (ActivityOf(unit).name == rule.name && g_.start[unit] < g_.start[s.unit]) use(rule, unit, s.unit);
    }
  }

  static int64_t MostFrequent(std::vector<int64_t>& values) {
    std::sort(values.begin(), values.end());
    size_t best = 0, best_count = 0;
    for (size_t i = 0; i < values.size();) {
      size_t j = i;
      while (j < values.size() && values[j] == values[i]) ++j;
      if (j - i > best_count) {
        best = i;
        best_count = j - i;
      }
      i = j;
    }
    return values[best];
  }

  const capture::Capture& capture_;
  Graph& g_;
  std::vector<uint64_t> place_;   // by unit; 0: none
  std::vector<double> launched_;  // by unit
  std::vector<Stream> streams_;
  size_t last_ = 0;
  uint32_t listed_ = kNone;
  absl::flat_hash_map<uint64_t, std::vector<Rule>> rules_;
  std::vector<Follow> added_;
};

}  // namespace

void InsertFollows(std::span<const Follow> added, Graph& graph) {
  if (added.empty()) return;
  std::vector<NodeRef> preds;
  preds.reserve(graph.start_preds.size() + added.size());
  size_t next = 0;
  for (uint32_t u = 0; u < graph.units.size(); ++u) {
    const uint64_t first = graph.start_begin[u];
    graph.start_begin[u] = preds.size();
    preds.insert(preds.end(), graph.start_preds.begin() + static_cast<ptrdiff_t>(first),
                 graph.start_preds.begin() + static_cast<ptrdiff_t>(graph.start_begin[u + 1]));
    for (; next < added.size() && added[next].unit == u; ++next) preds.push_back(EndOf(added[next].from));
  }
  graph.start_begin.back() = preds.size();
  graph.start_preds = std::move(preds);
}

void ShareFollows(const capture::Capture& capture, const std::vector<Follow>& follows, Graph& graph) {
  if (!follows.empty()) Sharer(capture, graph).Run(follows);
}

}  // namespace lockstep::analysis
