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
  const Needs needs = NeedsOf(op.collective);
  if (!op.more.empty() && needs != Needs::kPeer) {
    return Invalid(
        r, op,
        fmt::format("more= is for send and receive; remove it from {}", CollectiveName(op.collective)));
  }
  if (needs == Needs::kAll) return absl::OkStatus();
  const auto check_peer = [&](int32_t peer) {
    if (peer < 0 || static_cast<size_t>(peer) >= members.size()) {
      return Invalid(r, op,
                     fmt::format("peer must be a rank of group g{}, 0 to {}", op.group, members.size() - 1));
    }
    if (needs == Needs::kPeer && members[peer] == r)
      return Invalid(r, op, "a rank cannot be its own peer; remove that message");
    return absl::OkStatus();
  };
  if (absl::Status status = check_peer(op.peer); !status.ok()) return status;
  for (const Message& m : op.more) {
    if (NeedsOf(m.collective) != Needs::kPeer) return Invalid(r, op, "more= may hold only send and receive");
    if (absl::Status status = check_peer(m.peer); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckOp(const Scenario& s, size_t r, const Op& op) {
  const Rank& rank = s.ranks[r];
  if (op.IsHost() ? op.thread >= rank.threads.size() : op.stream >= rank.streams.size()) {
    return Invalid(
        r, op,
        op.IsHost() ? "its thread is not declared in this rank" : "its stream is not declared in this rank");
  }
  if (op.IsHost() && op.follows != kNoIndex && op.follows >= rank.threads.size())
    return Invalid(r, op, "follows= names a thread that is not declared in this rank");
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
// A message with its place in the file.
struct PlacedMessage {
  uint64_t bytes = 0;
  const Op* op = nullptr;
};
// The messages from one rank to another in a group, in their order.
struct Pair {
  std::vector<PlacedMessage> sends;
  std::vector<PlacedMessage> receives;
};
using Pairs = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Pair>;  // by (group, from, to)

absl::Status CheckPairs(const Scenario& s, const Pairs& pairs) {
  for (const auto& [key, pair] : pairs) {
    const auto [group, from, to] = key;
    if (pair.sends.size() != pair.receives.size()) {
      const bool unanswered = pair.sends.size() > pair.receives.size();
      const PlacedMessage& odd =
          unanswered ? pair.sends[pair.receives.size()] : pair.receives[pair.sends.size()];
      return Invalid(
          unanswered ? from : to, *odd.op,
          fmt::format(
              "in group g{}, rank {} sends {} times to rank {}, which receives {} times; add the missing "
              "{} or remove this one",
              group, from, pair.sends.size(), to, pair.receives.size(), unanswered ? "receive" : "send"));
    }
    for (size_t k = 0; k < pair.sends.size(); ++k) {
      const uint64_t sent = pair.sends[k].bytes, received = pair.receives[k].bytes;
      if ((sent > s.buffered_bytes) == (received > s.buffered_bytes)) continue;
      return Invalid(to, *pair.receives[k].op,
                     fmt::format("it receives {} bytes, but rank {} sends {}; give both the same bytes=",
                                 received, from, sent));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPairing(const Scenario& s) {
  std::vector<std::map<uint32_t, Sequence>> sequences(s.groups.size());
  Pairs pairs;
  for (uint32_t r = 0; r < s.ranks.size(); ++r) {
    for (const Op& op : s.ranks[r].program) {
      if (op.kind != OpKind::kCollective) continue;
      if (NeedsOf(op.collective) == Needs::kPeer) {
        for (const Message& m : MessagesOf(op)) {
          const uint32_t other = s.groups[op.group].members[m.peer];
          if (m.collective == Collective::kSend)
            pairs[{op.group, r, other}].sends.push_back({m.bytes, &op});
          else
            pairs[{op.group, other, r}].receives.push_back({m.bytes, &op});
        }
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
  return CheckPairs(s, pairs);
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

std::vector<Message> MessagesOf(const Op& op) {
  if (op.kind != OpKind::kCollective || NeedsOf(op.collective) != Needs::kPeer) return {};
  std::vector<Message> messages = {{op.collective, op.peer, op.bytes}};
  messages.insert(messages.end(), op.more.begin(), op.more.end());
  return messages;
}

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
