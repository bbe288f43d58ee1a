#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/gains/delay_cost.h"

namespace lockstep::analysis {
namespace {

// A rank that the delay reached belongs to the first hop with this share of its waiting. If it waits at so
// many hops that none has this share, it belongs to the hop with most of it.
constexpr double kHopShare = 0.1;
// A rank that waited less than this share of a step is not a victim.
constexpr double kVictimShare = 1e-3;

// `ns` is the waiting of one rank by hop, `all` its sum.
uint32_t FirstHop(const std::vector<double>& ns, double all) {
  const double enough = std::min(kHopShare * all, *std::max_element(ns.begin(), ns.end()));
  return static_cast<uint32_t>(std::find_if(ns.begin(), ns.end(), [&](double hop) { return hop >= enough; }) -
                               ns.begin());
}

}  // namespace

DelayPath FollowDelay(const DelayCost& cost, const Gains& gains, uint32_t causer) {
  DelayPath path;
  if (cost.waits.empty()) return path;
  const auto steps = static_cast<double>(gains.steps());
  // For each wait: the share that goes back to the causer, and the mean number of synchronisation points to
  // it.
  std::vector<double> share(cost.waits.size(), 0), hops(cost.waits.size(), 0);
  std::vector<std::vector<double>> by_rank(cost.suffered_ns.size());  // ns by hop
  std::vector<absl::flat_hash_map<uint32_t, double>> by_owner;        // ns, by hop
  for (uint32_t i = 0; i < cost.waits.size(); ++i) {
    const ExcessWait& w = cost.waits[i];
    if (w.own < 0) continue;
    const double direct = w.causer == causer ? w.own : 0;
    double passed = 0, distance = 0;
    if (w.inherited != capture::kNone) {
      const Inherited& from = cost.inherited[w.inherited];
      for (uint32_t j = from.first; j < from.last; ++j) {
        const uint32_t before = cost.waits_of[from.rank_index][j];
        if (!from.Has(cost.waits[before])) continue;
        const double part = share[before] * cost.waits[before].ns / from.ns;
        passed += part;
        distance += part * hops[before];
      }
      passed *= 1 - w.own;
      distance *= 1 - w.own;
    }
    share[i] = direct + passed;
    if (share[i] <= 0) continue;
    hops[i] = 1 + distance / share[i];
    const double ns = share[i] * w.ns / steps;
    path.waited_ns += ns;
    path.direct += direct * w.ns / steps;
    const auto hop = static_cast<uint32_t>(std::lround(hops[i]));
    if (by_rank[w.victim].size() < hop) by_rank[w.victim].resize(hop, 0);
    by_rank[w.victim][hop - 1] += ns;
    if (by_owner.size() < hop) by_owner.resize(hop);
    by_owner[hop - 1][w.owner] += ns;
  }
  if (path.waited_ns <= 0) return {};
  path.direct /= path.waited_ns;
  for (uint32_t r = 0; r < by_rank.size(); ++r) {
    double all = 0;
    for (double ns : by_rank[r]) all += ns;
    if (r == causer || all <= 0 || all < kVictimShare * gains.step_ns()) continue;
    ++path.victims;
    const uint32_t hop = FirstHop(by_rank[r], all);
    if (path.hops.size() <= hop) path.hops.resize(hop + 1);
    path.hops[hop].rank_indices.push_back(r);
    path.hops[hop].ns += by_rank[r][hop];
  }
  for (uint32_t hop = 0; hop < path.hops.size(); ++hop) {
    double most = 0;
    for (const auto& [owner, ns] : by_owner[hop]) {
      if (ns < most || (ns == most && owner > path.hops[hop].owner)) continue;
      most = ns;
      path.hops[hop].owner = owner;
    }
  }
  std::erase_if(path.hops, [](const DelayHop& h) { return h.rank_indices.empty(); });
  return path;
}

namespace {

// The kind of work with most of the rank's cost in the split. It causes the waiting.
std::string_view WorkOf(const RankCost& cost) {
  if (cost.head >= std::max({cost.kernels, cost.host, cost.copies})) return "late start";
  if (cost.host >= std::max(cost.kernels, cost.copies)) return "host";
  return cost.copies > cost.kernels ? "copies" : "kernels";
}

// Texts for the sets of ranks that the delay reached.
class PathWords {
 public:
  PathWords(const GraphInput& input, const Gains& gains, const Layout& layout, uint32_t causer)
      : in_(input), gains_(gains), layout_(layout), reached_(input.capture.ranks.size(), 0) {
    reached_[causer] = 1;
  }

  std::string Next(const DelayHop& hop) {
    for (uint32_t r : hop.rank_indices) reached_[r] = 1;
    if (std::find(reached_.begin(), reached_.end(), 0) == reached_.end()) return "all";
    if (std::string stages = StagesText(hop); !stages.empty()) return stages;
    const size_t count = hop.rank_indices.size();
    const std::string ranks = count == 1
                                  ? absl::StrCat("rank ", in_.capture.ranks[hop.rank_indices[0]].rank.value())
                                  : absl::StrCat(count, " ranks");
    return hop.owner == capture::kNone ? ranks : absl::StrCat(ranks, " through ", OwnerText(hop.owner));
  }

 private:
  // Text for whole stages, apart from ranks that were reached before; otherwise empty.
  std::string StagesText(const DelayHop& hop) const {
    if (layout_.stages == 0 || hop.rank_indices.size() < 2) return "";
    std::vector<uint8_t> touched(layout_.stages, 0);
    for (uint32_t r : hop.rank_indices) {
      if (layout_.stage_of[r] < 0) return "";
      touched[static_cast<size_t>(layout_.stage_of[r])] = 1;
    }
    std::vector<std::string> names;
    for (size_t r = 0; r < reached_.size(); ++r) {
      if (layout_.stage_of[r] >= 0 && touched[static_cast<size_t>(layout_.stage_of[r])] != 0 &&
          reached_[r] == 0)
        return "";
    }
    for (uint32_t s = 0; s < layout_.stages; ++s) {
      if (touched[s] != 0) names.push_back(std::to_string(s));
    }
    return absl::StrCat(names.size() == 1 ? "stage " : "stages ", absl::StrJoin(names, ", "));
  }

  std::string OwnerText(uint32_t o) const {
    const TransferOwner& owner = gains_.classes().owners[o];
    const capture::Group& group = in_.capture.groups[owner.group];
    return group.name.empty() ? "group " + group.key : group.name;
  }

  const GraphInput& in_;
  const Gains& gains_;
  const Layout& layout_;
  std::vector<uint8_t> reached_;  // by rank index
};

// Paths are reported for this many causers with the most waiting, if their share is notable.
constexpr size_t kCausers = 8;
constexpr double kNotable = 0.02;
// A path is reported for this many hops. Beyond them, the delay comes over so many ways that no rank stands
// out.
constexpr size_t kMostHops = 4;

}  // namespace

std::string PathText(const GraphInput& input, const Gains& gains, const Layout& layout, const DelayPath& path,
                     uint32_t causer) {
  if (path.hops.empty()) return "";
  PathWords words(input, gains, layout, causer);
  std::string text = absl::StrCat("rank ", input.capture.ranks[causer].rank.value(), "'s ",
                                  std::string(WorkOf(gains.rank_costs()[causer])));
  for (size_t i = 0; i < path.hops.size() && i < kMostHops; ++i) {
    DelayHop hop = path.hops[i];
    if (i + 1 == kMostHops) {
      for (size_t j = i + 1; j < path.hops.size(); ++j)
        hop.rank_indices.insert(hop.rank_indices.end(), path.hops[j].rank_indices.begin(),
                                path.hops[j].rank_indices.end());
    }
    absl::StrAppend(&text, " -> ", words.Next(hop));
  }
  return text;
}

Waiting SummarizeWaiting(const GraphInput& input, const Gains& gains, const Layout& layout,
                         const std::vector<uint32_t>& also) {
  DelayCost cost = CostDelays(input, gains);
  const auto total = [&](uint32_t r) { return cost.direct_ns[r] + cost.passed_on_ns[r]; };
  std::vector<uint32_t> order(cost.direct_ns.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return total(a) > total(b); });
  Waiting out;
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t r = order[i];
    const bool notable = i < kCausers && total(r) > kNotable * cost.waited_ns;
    if (total(r) <= 0 || (!notable && std::find(also.begin(), also.end(), r) == also.end())) continue;
    Waiting::Causer causer{r, FollowDelay(cost, gains, r), ""};
    causer.text = PathText(input, gains, layout, causer.path, r);
    out.causers.push_back(std::move(causer));
  }
  out.waited_ns = cost.waited_ns;
  out.unexplained_ns = cost.unexplained_ns;
  out.direct_ns = std::move(cost.direct_ns);
  out.passed_on_ns = std::move(cost.passed_on_ns);
  out.suffered_ns = std::move(cost.suffered_ns);
  out.by_host = cost.by_host;
  out.places = cost.places;
  out.matrix = std::move(cost.matrix);
  return out;
}

}  // namespace lockstep::analysis
