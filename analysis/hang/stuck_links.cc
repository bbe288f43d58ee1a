#include "analysis/hang/stuck_links.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::analysis {
namespace {

using Direction = HangTransfer::Direction;
using LinkWait = HangLink::Wait;

class LinkFinder {
 public:
  LinkFinder(const HangJob& job, const Group& group, const Wait& wait)
      : job_(job), group_(group), shortest_(wait.waited / 2) {}

  std::vector<HangLink> Find(LinkWait wanted) const {
    std::map<std::pair<int32_t, int32_t>, HangLink> by_members;
    for (const auto& [number, member] : group_.members) {
      for (const HangTransfer& transfer : job_.ranks[member.rank].transfers) {
        if (!IsOfWait(transfer, member) || transfer.direction != Direction::kSend) continue;
        if (transfer.moved_ago < shortest_ || !Waits(transfer, number, wanted)) continue;
        Add(transfer, by_members.try_emplace({number, transfer.peer}, NewLink(number, transfer.peer, wanted))
                          .first->second);
      }
    }
    std::vector<HangLink> links;
    for (auto& [members, link] : by_members) {
      std::sort(link.channels.begin(), link.channels.end());
      links.push_back(std::move(link));
    }
    std::stable_sort(links.begin(), links.end(),
                     [](const HangLink& a, const HangLink& b) { return a.still > b.still; });
    return links;
  }

 private:
  // With PXN, the position of another process's operation is not known.
  bool IsOfWait(const HangTransfer& transfer, const Member& member) const {
    return transfer.communicator == group_.id && member.pending != nullptr &&
           (transfer.position == 0 || transfer.position == member.pending->position);
  }

  bool Waits(const HangTransfer& send, int32_t sender, LinkWait wanted) const {
    if (wanted == LinkWait::kNetwork) return send.wait == HangTransfer::Wait::kNetwork;
    return send.wait == HangTransfer::Wait::kPeer && ReceiverHasNoData(send, sender);
  }

  bool ReceiverHasNoData(const HangTransfer& send, int32_t sender) const {
    const auto receiver = group_.members.find(send.peer);
    if (receiver == group_.members.end()) return true;
    for (const HangTransfer& receive : job_.ranks[receiver->second.rank].transfers) {
      if (IsOfWait(receive, receiver->second) && receive.direction == Direction::kReceive &&
          receive.peer == sender && receive.channel == send.channel)
        return receive.wait == HangTransfer::Wait::kNetwork;
    }
    return false;
  }

  std::optional<RankId> RankOf(int32_t number) const {
    const auto member = group_.members.find(number);
    if (member == group_.members.end()) return std::nullopt;
    return job_.ranks[member->second.rank].rank;
  }

  HangLink NewLink(int32_t from, int32_t to, LinkWait wait) const {
    HangLink link;
    link.from = from;
    link.to = to;
    link.from_rank = RankOf(from);
    link.to_rank = RankOf(to);
    link.wait = wait;
    link.still = Nanos::Max();
    return link;
  }

  static void Add(const HangTransfer& transfer, HangLink& link) {
    link.channels.push_back(transfer.channel);
    link.steps_done += transfer.steps_done;
    link.steps += transfer.steps;
    link.still = std::min(link.still, transfer.moved_ago);
  }

  const HangJob& job_;
  const Group& group_;
  const Nanos shortest_;
};

}  // namespace

std::vector<HangLink> FindStuckLinks(const HangJob& job, const Group& group, const Wait& wait) {
  const LinkFinder finder(job, group, wait);
  std::vector<HangLink> links = finder.Find(LinkWait::kNetwork);
  return links.empty() ? finder.Find(LinkWait::kBuffer) : links;
}

}  // namespace lockstep::analysis
