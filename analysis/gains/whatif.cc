#include "analysis/gains/whatif.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <regex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/gains/gains.h"
#include "analysis/prepare/stages.h"
#include "base/number_runs.h"

namespace lockstep::analysis {
namespace {

using capture::kNone;

// If less than this share of the communication is matched, the replay misses waiting between ranks.
constexpr double kMatchedForTrust = 0.9;
// A list in a message has at most this many names.
constexpr size_t kNamed = 8;
// Longer names are matched by their beginning only, because the matcher of regular expressions recurses.
constexpr size_t kMatchedLength = 1024;

std::string Listed(std::vector<std::string> names) {
  const size_t all = names.size();
  if (all > kNamed) names.resize(kNamed);
  std::string out = absl::StrJoin(names, ", ");
  if (all > kNamed) absl::StrAppend(&out, " and ", all - kNamed, " more");
  return out;
}

class WhatIfSolver {
 public:
  WhatIfSolver(const Prepared& prepared, const WhatIfRequest& request)
      : p_(prepared),
        capture_(prepared.capture),
        request_(request),
        input_(prepared.input()),
        gains_(input_) {}

  absl::StatusOr<WhatIfResult> Run() {
    if (gains_.empty()) {
      return absl::FailedPreconditionError(
          "no step with device work was recorded completely on every rank: there is nothing to replay");
    }
    out_.steps = gains_.steps();
    out_.step_ns = gains_.step_ns();
    for (const Unit& u : gains_.graph().units) out_.units += u.step >= 0 ? 1 : 0;
    changed_ = ObservedTiming(gains_.graph());
    for (const FixTarget& target : request_.targets) {
      absl::StatusOr<WhatIfPart> part = Select(target);
      if (!part.ok()) return part.status();
      out_.parts.push_back(*std::move(part));
    }
    if (!request_.scale) MakeRestTypical();
    Answer();
    return std::move(out_);
  }

 private:
  const Graph& graph() const { return gains_.graph(); }
  const Classes& classes() const { return gains_.classes(); }

  absl::StatusOr<WhatIfPart> Select(const FixTarget& target) {
    switch (target.kind) {
      case FixKind::kRank:
        return SelectRanks(target);
      case FixKind::kHost:
        return SelectHost(target);
      case FixKind::kStage:
        return SelectStage(target);
      case FixKind::kLink:
        return SelectLinks(target);
      case FixKind::kGroup:
        return SelectGroup(target);
      case FixKind::kOperation:
        return SelectOperations(target);
    }
    return absl::InternalError("unknown kind of target");
  }

  // ---- ranks and hosts

  // Rank indices of the ranks that a target numbers.
  absl::StatusOr<std::vector<uint32_t>> NumberedRanks(const FixTarget& target) const {
    const auto range = ParseRange(target.value);
    if (!range) {
      return absl::InvalidArgumentError(absl::StrCat("--fix ", std::string(FixKindName(target.kind)), "=",
                                                     target.value,
                                                     ": a rank is a number or a range such as 4-7"));
    }
    std::vector<uint32_t> chosen;
    std::vector<int32_t> all;
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const int32_t rank = capture_.ranks[r].rank.value();
      all.push_back(rank);
      if (rank >= range->first && rank <= range->second) chosen.push_back(r);
    }
    if (chosen.empty())
      return absl::InvalidArgumentError(
          absl::StrCat("no rank ", target.value, " in this capture; there are ", NumberRuns(all, 2)));
    return chosen;
  }

  // Example: "rank 5 (GPU 5 of node0)"
  std::string NameOfRanks(const FixTarget& target, const std::vector<uint32_t>& chosen) const {
    if (chosen.size() != 1) return absl::StrCat("ranks ", target.value);
    return absl::StrCat("rank ", capture_.ranks[chosen[0]].rank.value(), " (GPU ",
                        capture_.ranks[chosen[0]].device.value(), " of ",
                        HostName(capture_.ranks[chosen[0]].host), ")");
  }

  absl::StatusOr<WhatIfPart> SelectRanks(const FixTarget& target) {
    absl::StatusOr<std::vector<uint32_t>> chosen = NumberedRanks(target);
    if (!chosen.ok()) return chosen.status();
    return TakeRanks(target, *chosen, NameOfRanks(target, *chosen));
  }

  std::string HostName(uint32_t host) const {
    if (host >= capture_.hosts.size()) return "an unknown host";
    return capture_.hosts[host].ShownName();
  }

  absl::StatusOr<WhatIfPart> SelectHost(const FixTarget& target) {
    std::vector<uint32_t> chosen;
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      const uint32_t host = capture_.ranks[r].host;
      if (host < capture_.hosts.size() &&
          (capture_.hosts[host].name == target.value || capture_.hosts[host].id == target.value))
        chosen.push_back(r);
    }
    if (!chosen.empty())
      return TakeRanks(target, chosen,
                       absl::StrCat("host ", target.value, " (", chosen.size(),
                                    chosen.size() == 1 ? " rank)" : " ranks)"));
    std::vector<std::string> names;
    for (uint32_t h = 0; h < capture_.hosts.size(); ++h) names.push_back(HostName(h));
    return absl::InvalidArgumentError(
        absl::StrCat("no host '", target.value, "' in this capture; there are ", Listed(names)));
  }

  WhatIfPart TakeRanks(const FixTarget& target, const std::vector<uint32_t>& chosen, std::string what) {
    WhatIfPart part{.target = target, .what = std::move(what)};
    for (uint32_t r : chosen) {
      part.ranks.push_back(capture_.ranks[r].rank);
      for (uint32_t u = graph().rank_begin[r]; u < graph().rank_begin[r + 1]; ++u) {
        if (graph().units[u].step < 0 || graph().units[u].kind == UnitKind::kTransfer) continue;
        ++part.units;
        if (request_.scale) ScaleOwn(u);
      }
    }
    fix_.rank_indices.insert(fix_.rank_indices.end(), chosen.begin(), chosen.end());
    return part;
  }

  // A host also works between its calls. Its idle time before a step is not its own.
  void ScaleOwn(uint32_t u) {
    changed_.work[u] = graph().work[u] * *request_.scale;
    const UnitKind kind = graph().units[u].kind;
    const bool host = kind == UnitKind::kHostCall || kind == UnitKind::kHostWait;
    if (host && graph().lag[u] > 0 && !graph().units[u].is_head && !gains_.typical().OpensStep(u))
      changed_.lag[u] = graph().lag[u] * *request_.scale;
  }

  // ---- stages

  absl::StatusOr<WhatIfPart> SelectStage(const FixTarget& target) {
    const Layout& layout = gains_.layout();
    if (layout.stages == 0) {
      return absl::InvalidArgumentError(
          "no pipeline stages were found in this capture: its ranks exchange no messages whose partners are "
          "recorded; name ranks instead");
    }
    const auto range = ParseRange(target.value);
    if (!range || range->first != range->second || range->first < 0 ||
        range->first >= static_cast<int32_t>(layout.stages)) {
      return absl::InvalidArgumentError(
          absl::StrCat("no stage ", target.value, " in this capture; there are stages 0-", layout.stages - 1,
                       " (stage 0: ranks ", RanksText(layout.RanksOf(0)), ")"));
    }
    const std::vector<uint32_t> chosen = layout.RanksOf(range->first);
    std::string what = absl::StrCat("stage ", target.value, " (ranks ", RanksText(chosen), ")");
    if (!layout.first_known)
      out_.notes.push_back("the direction of the pipeline is not recorded: stage 0 has the lowest rank");
    if (request_.scale) return TakeRanks(target, chosen, std::move(what));
    return BalanceStage(target, layout, range->first, std::move(what));
  }

  std::string RanksText(const std::vector<uint32_t>& chosen) const {
    std::vector<int32_t> numbers;
    for (uint32_t r : chosen) numbers.push_back(capture_.ranks[r].rank.value());
    return NumberRuns(numbers, 2);
  }

  // A stage's layers have no peers in other stages. So a stage is typical if its kernels together take as
  // long as those of the median other stage.
  WhatIfPart BalanceStage(const FixTarget& target, const Layout& layout, int32_t stage, std::string what) {
    WhatIfPart part{.target = target, .what = std::move(what)};
    std::vector<double> others;
    for (int32_t s = 0; s < static_cast<int32_t>(layout.stages); ++s) {
      if (s != stage) others.push_back(KernelTime(layout.RanksOf(s)));
    }
    const std::vector<uint32_t> chosen = layout.RanksOf(stage);
    const double own = KernelTime(chosen), typical = Median(others);
    const double ratio = own > 0 ? std::min(1.0, 1 + request_.strength * (typical / own - 1)) : 1;
    out_.notes.push_back(
        absl::StrFormat("stage %d: its kernels take %.3fx as long as those of the median other stage%s",
                        stage, typical > 0 ? own / typical : 1,
                        ratio < 1 ? "" : "; it is not slower than the others, so it is unchanged"));
    for (uint32_t r : chosen) {
      part.ranks.push_back(capture_.ranks[r].rank);
      for (uint32_t u = graph().rank_begin[r]; u < graph().rank_begin[r + 1]; ++u) {
        if (graph().units[u].step < 0 || graph().units[u].kind != UnitKind::kKernel) continue;
        ++part.units;
        changed_.work[u] = graph().work[u] * ratio;
      }
    }
    return part;
  }

  // Mean over the ranks of their kernel time in the used steps.
  double KernelTime(const std::vector<uint32_t>& ranks) const {
    double sum = 0;
    for (uint32_t r : ranks) {
      for (uint32_t u = graph().rank_begin[r]; u < graph().rank_begin[r + 1]; ++u) {
        if (graph().units[u].step >= 0 && graph().units[u].kind == UnitKind::kKernel) sum += graph().work[u];
      }
    }
    return ranks.empty() ? 0 : sum / static_cast<double>(ranks.size());
  }

  // ---- groups

  absl::StatusOr<WhatIfPart> SelectGroup(const FixTarget& target) {
    std::vector<uint32_t> chosen;
    for (uint32_t o = 0; o < classes().owners.size(); ++o) {
      const capture::Group& group = capture_.groups[classes().owners[o].group];
      if (group.name == target.value || group.key == target.value) chosen.push_back(o);
    }
    if (chosen.empty()) return UnknownGroup(target);
    return TakeTransfers(target, chosen, absl::StrCat("the transfers of group ", target.value));
  }

  // Selects all transfers over the ranks' links.
  absl::StatusOr<WhatIfPart> SelectLinks(const FixTarget& target) {
    absl::StatusOr<std::vector<uint32_t>> ranks = NumberedRanks(target);
    if (!ranks.ok()) return ranks.status();
    std::vector<uint32_t> chosen;
    for (uint32_t o = 0; o < classes().owners.size(); ++o) {
      const std::vector<uint32_t>& members = classes().owners[o].rank_indices;
      if (std::find_first_of(ranks->begin(), ranks->end(), members.begin(), members.end()) != ranks->end())
        chosen.push_back(o);
    }
    if (chosen.empty())
      return absl::InvalidArgumentError(absl::StrCat("no transfer of ", NameOfRanks(target, *ranks),
                                                     " was matched across ranks, so none can be changed"));
    return TakeTransfers(
        target, chosen,
        absl::StrCat("the transfers of all groups and pairs of ", NameOfRanks(target, *ranks)));
  }

  WhatIfPart TakeTransfers(const FixTarget& target, const std::vector<uint32_t>& chosen, std::string what) {
    WhatIfPart part{.target = target, .what = std::move(what)};
    std::vector<uint8_t> is_chosen(classes().owners.size(), 0);
    std::vector<uint32_t> members;
    for (uint32_t o : chosen) {
      is_chosen[o] = 1;
      fix_.owners.push_back(o);
      members.insert(members.end(), classes().owners[o].rank_indices.begin(),
                     classes().owners[o].rank_indices.end());
    }
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    for (uint32_t r : members) part.ranks.push_back(capture_.ranks[r].rank);
    for (uint32_t u = 0; u < graph().units.size(); ++u) {
      const Unit& unit = graph().units[u];
      if (unit.step < 0 || unit.kind != UnitKind::kTransfer || unit.instance == kNone) continue;
      if (const uint32_t owner = classes().owner_of_instance[unit.instance];
          owner == kNone || is_chosen[owner] == 0)
        continue;
      ++part.units;
      if (request_.scale) changed_.work[u] = graph().work[u] * *request_.scale;
    }
    if (target.kind == FixKind::kGroup) absl::StrAppend(&part.what, " (ranks ", RanksText(members), ")");
    return part;
  }

  absl::Status UnknownGroup(const FixTarget& target) const {
    std::vector<std::string> names;
    for (const TransferOwner& owner : classes().owners) {
      const capture::Group& group = capture_.groups[owner.group];
      names.push_back(group.ShownName());
    }
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (names.empty())
      return absl::InvalidArgumentError(
          "no collective of this capture could be matched across ranks, so no group's transfers can be "
          "changed");
    return absl::InvalidArgumentError(absl::StrCat(
        "no group '", target.value, "' with matched collectives in this capture; there are ", Listed(names)));
  }

  // ---- operations

  std::string_view NameOf(const Unit& unit) const {
    const capture::RankData& rank = capture_.ranks[unit.rank_index];
    const bool host = unit.kind == UnitKind::kHostCall || unit.kind == UnitKind::kHostWait;
    return capture_.Text(host ? rank.api_calls[unit.source].name : rank.activities[unit.source].name);
  }

  absl::StatusOr<WhatIfPart> SelectOperations(const FixTarget& target) {
    std::vector<int8_t> matches(capture_.strings.size(), 0);
    try {
      const std::regex pattern(target.value);
      for (uint32_t i = 0; i < matches.size(); ++i) {
        matches[i] =
            std::regex_search(std::string(capture_.Text(NameId(i)).substr(0, kMatchedLength)), pattern) ? 1
                                                                                                        : 0;
      }
    } catch (const std::regex_error&) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--fix op=", target.value,
          ": not a valid regular expression; use ECMAScript syntax, which is like that of grep -E"));
    }
    WhatIfPart part{.target = target, .what = absl::StrCat("operations that match '", target.value, "'")};
    std::vector<uint8_t> on_rank(capture_.ranks.size(), 0);
    std::vector<uint8_t> chosen(graph().units.size(), 0);
    for (uint32_t u = 0; u < graph().units.size(); ++u) {
      const Unit& unit = graph().units[u];
      if (unit.step < 0 || matches[NameIndex(unit)] == 0) continue;
      ++part.units;
      chosen[u] = on_rank[unit.rank_index] = 1;
      if (request_.scale) changed_.work[u] = graph().work[u] * *request_.scale;
    }
    if (part.units == 0) return NothingNamed(target);
    if (!request_.scale) gains_.typical().MakeUnitsTypical(chosen, request_.strength, changed_);
    for (size_t r = 0; r < on_rank.size(); ++r) {
      if (on_rank[r] != 0) part.ranks.push_back(capture_.ranks[r].rank);
    }
    return part;
  }

  uint32_t NameIndex(const Unit& unit) const {
    const capture::RankData& rank = capture_.ranks[unit.rank_index];
    const bool host = unit.kind == UnitKind::kHostCall || unit.kind == UnitKind::kHostWait;
    return (host ? rank.api_calls[unit.source].name : rank.activities[unit.source].name).value();
  }

  absl::Status NothingNamed(const FixTarget& target) const {
    std::map<uint32_t, double> cost;
    for (uint32_t u = 0; u < graph().units.size(); ++u) {
      const Unit& unit = graph().units[u];
      if (unit.step >= 0 && unit.kind != UnitKind::kHostWait)
        cost[NameIndex(unit)] += graph().end[u] - graph().start[u];
    }
    std::vector<std::pair<double, uint32_t>> order;
    for (const auto& [name, ns] : cost) order.emplace_back(-ns, name);
    std::sort(order.begin(), order.end());
    std::vector<std::string> names;
    for (size_t i = 0; i < order.size() && i < kNamed; ++i)
      names.push_back(std::string(capture_.Text(NameId(order[i].second)).substr(0, 60)));
    return absl::InvalidArgumentError(absl::StrCat("no operation in the used steps matches '", target.value,
                                                   "'; the most expensive operations are ",
                                                   absl::StrJoin(names, "; ")));
  }

  // ---- the replay

  // Ranks and groups are compared with those outside of all targets, so they come last. A unit that two
  // targets change takes the shorter value.
  void MakeRestTypical() {
    fix_.strength = request_.strength;
    Timing typical = ObservedTiming(graph());
    gains_.typical().MakeTypical(fix_, typical);
    for (uint32_t u = 0; u < graph().units.size(); ++u) {
      changed_.work[u] =
          changed_.work[u] == graph().work[u] ? typical.work[u] : std::min(changed_.work[u], typical.work[u]);
      changed_.lag[u] =
          changed_.lag[u] == graph().lag[u] ? typical.lag[u] : std::min(changed_.lag[u], typical.lag[u]);
    }
  }

  void Answer() {
    for (uint32_t u = 0; u < graph().units.size(); ++u) {
      if (changed_.work[u] != graph().work[u] || changed_.lag[u] != graph().lag[u]) ++out_.units_changed;
    }
    out_.gain_per_step = gains_.OfTiming([&](Timing& timing) { timing = changed_; });
    out_.gain_ns = std::accumulate(out_.gain_per_step.begin(), out_.gain_per_step.end(), 0.0) /
                   static_cast<double>(out_.steps);
    out_.new_step_ns = out_.step_ns - out_.gain_ns;
    if (out_.steps >= kLeastSteps) out_.gain_interval = BootstrapMean(out_.gain_per_step);
    if (out_.units_changed == 0) {
      out_.notes.push_back(
          request_.scale
              ? "nothing changed: the units have no duration of their own"
              : "nothing changed: no other rank or group does the same work, so there is no typical value; "
                "--scale changes durations without peers");
    }
    if (out_.steps < kLeastSteps) {
      out_.notes.push_back(absl::StrCat("only ", out_.steps, out_.steps == 1 ? " whole step" : " whole steps",
                                        ": an interval needs at least ", kLeastSteps));
    }
    if (const double matched = p_.matches.MatchedFraction().value_or(1); matched < kMatchedForTrust) {
      out_.notes.push_back(
          absl::StrFormat("only %.0f%% of the communication was matched across ranks: gains of other "
                          "ranks are unknown, so the gain is too small",
                          100 * matched));
    }
    if (graph().cut_edges * 1000 > graph().edges) {
      out_.notes.push_back(absl::StrCat("the replay left out ", graph().cut_edges, " of ", graph().edges,
                                        " dependencies that the records contradict"));
    }
  }

  const Prepared& p_;
  const capture::Capture& capture_;
  const WhatIfRequest& request_;
  GraphInput input_;
  Gains gains_;
  Fix fix_;  // ranks and groups that are made typical
  Timing changed_;
  WhatIfResult out_;
};

}  // namespace

absl::StatusOr<WhatIfResult> WhatIf(const Prepared& prepared, const WhatIfRequest& request) {
  if (request.targets.empty())
    return absl::InvalidArgumentError(absl::StrCat("nothing to fix is given; use ", kFixGrammar));
  if (request.scale && !(*request.scale > 0 && *request.scale <= 1000)) {
    return absl::InvalidArgumentError("--scale must be above 0; 0.9 shortens durations by a tenth");
  }
  if (!(request.strength > 0 && request.strength <= 1)) {
    return absl::InvalidArgumentError(
        "--strength must be above 0 and at most 1: it is the part of the way to typical values");
  }
  return WhatIfSolver(prepared, request).Run();
}

}  // namespace lockstep::analysis
