#include "scenario/scenario.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "fmt/format.h"

namespace lockstep::scenario {
namespace {

constexpr std::string_view kCollectiveNames[kCollectives] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "send_receive",
    "broadcast",  "scatter",    "reduce",         "gather",     "send",    "receive",
};

std::string Place(size_t rank, const Op& op) {
  return op.line == 0 ? fmt::format("rank {}", rank) : fmt::format("rank {}, line {}", rank, op.line);
}

absl::Status Invalid(size_t rank, const Op& op, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("scenario, {}: {}", Place(rank, op), what));
}

absl::Status CheckGroups(const Scenario& s) {
  for (size_t g = 0; g < s.groups.size(); ++g) {
    std::vector<uint32_t> members = s.groups[g].members;
    std::sort(members.begin(), members.end());
    const bool repeated = std::adjacent_find(members.begin(), members.end()) != members.end();
    if (members.empty() || repeated || members.back() >= s.ranks.size()) {
      return absl::InvalidArgumentError(fmt::format(
          "scenario, group {}: it needs at least one member, and members must be different ranks below {}", g,
          s.ranks.size()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCollective(const Scenario& s, size_t r, const Op& op) {
  if (op.group >= s.groups.size()) return Invalid(r, op, fmt::format("there is no group g{}", op.group));
  const std::vector<uint32_t>& members = s.groups[op.group].members;
  if (std::find(members.begin(), members.end(), r) == members.end()) {
    return Invalid(r, op, fmt::format("this rank is not a member of group g{}", op.group));
  }
  if (NeedsOf(op.collective) == Needs::kAll) return absl::OkStatus();
  if (op.peer < 0 || static_cast<size_t>(op.peer) >= members.size()) {
    return Invalid(r, op,
                   fmt::format("peer must be a rank of group g{}, 0 to {}", op.group, members.size() - 1));
  }
  if (NeedsOf(op.collective) == Needs::kPeer && members[op.peer] == r)
    return Invalid(r, op, "a rank cannot be its own peer");
  return absl::OkStatus();
}

absl::Status CheckOp(const Scenario& s, size_t r, const Op& op) {
  const Rank& rank = s.ranks[r];
  if (op.IsHost() ? op.thread >= rank.threads.size() : op.stream >= rank.streams.size()) {
    return Invalid(
        r, op,
        op.IsHost() ? "its thread is not declared in this rank" : "its stream is not declared in this rank");
  }
  const bool named = op.kind == OpKind::kKernel || op.kind == OpKind::kCollective || op.kind == OpKind::kPush;
  if (named && op.name >= s.names.size()) return Invalid(r, op, "its name is not declared");
  for (uint32_t stream : op.wait_streams) {
    if (stream >= rank.streams.size())
      return Invalid(r, op, "it waits for a stream that is not declared in this rank");
  }
  if (op.service_time < Nanos() && op.kind != OpKind::kCollective)
    return Invalid(r, op, "own= must not be negative");
  return op.kind == OpKind::kCollective ? CheckCollective(s, r, op) : absl::OkStatus();
}

// The (operation, root) of a group's collectives, in the order of one member.
using Sequence = std::vector<std::tuple<Collective, int32_t>>;
struct Pair {
  int64_t sends = 0;
  int64_t receives = 0;
};

absl::Status CheckPairing(const Scenario& s) {
  std::vector<std::map<uint32_t, Sequence>> sequences(s.groups.size());
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Pair> pairs;  // (group, from, to)
  for (uint32_t r = 0; r < s.ranks.size(); ++r) {
    for (const Op& op : s.ranks[r].program) {
      if (op.kind != OpKind::kCollective) continue;
      if (NeedsOf(op.collective) == Needs::kPeer) {
        const uint32_t other = s.groups[op.group].members[op.peer];
        if (op.collective == Collective::kSend)
          ++pairs[{op.group, r, other}].sends;
        else
          ++pairs[{op.group, other, r}].receives;
      } else {
        sequences[op.group][r].emplace_back(op.collective,
                                            NeedsOf(op.collective) == Needs::kAll ? -1 : op.peer);
      }
    }
  }
  for (size_t g = 0; g < s.groups.size(); ++g) {
    if (sequences[g].empty()) continue;
    for (uint32_t member : s.groups[g].members) {
      if (sequences[g][member] != sequences[g].begin()->second) {
        return absl::InvalidArgumentError(
            fmt::format("scenario, group g{}: ranks {} and {} do not run the same collectives in the same "
                        "order ({} and {} of them); they would deadlock",
                        g, sequences[g].begin()->first, member, sequences[g].begin()->second.size(),
                        sequences[g][member].size()));
      }
    }
  }
  for (const auto& [key, pair] : pairs) {
    if (pair.sends != pair.receives) {
      return absl::InvalidArgumentError(
          fmt::format("scenario, group g{}: rank {} sends {} times to rank {}, which receives {} times",
                      std::get<0>(key), std::get<1>(key), pair.sends, std::get<2>(key), pair.receives));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Needs NeedsOf(Collective op) {
  switch (op) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return Needs::kRoot;
    case Collective::kReduce:
    case Collective::kGather:
      return Needs::kRootNeedsAll;
    case Collective::kSend:
    case Collective::kReceive:
      return Needs::kPeer;
    default:
      return Needs::kAll;
  }
}

std::string_view CollectiveName(Collective op) { return kCollectiveNames[static_cast<int>(op)]; }

uint32_t Scenario::AddName(std::string_view text) {
  auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) it = names.insert(names.end(), std::string(text));
  return static_cast<uint32_t>(it - names.begin());
}

void Stretch(Scenario& s, uint32_t factor) {
  s.period = s.period * factor;
  for (Rank& rank : s.ranks) {
    for (Op& op : rank.program) {
      op.gap = op.gap * factor;
      op.service_time = op.service_time * factor;
      op.tail = op.tail * factor;
    }
  }
}

absl::Status Validate(const Scenario& s) {
  if (s.ranks.empty())
    return absl::InvalidArgumentError("the scenario has no ranks; add a line `rank host=… device=…`");
  if (s.pacing == Pacing::kLoop && s.period <= Nanos()) {
    return absl::InvalidArgumentError(
        "scenario: a loop needs a period above 0, as in `pacing loop 20000000`");
  }
  if (absl::Status status = CheckGroups(s); !status.ok()) return status;
  for (size_t r = 0; r < s.ranks.size(); ++r) {
    std::vector<int> depth(s.ranks[r].threads.size(), 0);
    bool host_op = false;
    for (const Op& op : s.ranks[r].program) {
      if (absl::Status status = CheckOp(s, r, op); !status.ok()) return status;
      host_op |= op.IsHost();
      if (op.kind == OpKind::kPush) ++depth[op.thread];
      if (op.kind == OpKind::kPop && --depth[op.thread] < 0)
        return Invalid(r, op, "a pop needs a push before it");
    }
    // Without a host op, nothing would tie an iteration to its time.
    if (!host_op)
      return absl::InvalidArgumentError(
          fmt::format("scenario, rank {}: its program has no call, push or pop", r));
  }
  return CheckPairing(s);
}

}  // namespace lockstep::scenario
