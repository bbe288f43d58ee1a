#include "formats/scenario/message_kernels.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "capture/align/group_members.h"

namespace lockstep::formats {
namespace {

using capture::Collective;
using capture::CollectiveOp;
using capture::Instance;
using capture::kNone;
using capture::Member;

class MessageSelector {
 public:
  MessageSelector(const capture::Capture& capture, const capture::Matches& matches,
                  const std::vector<std::vector<uint32_t>>& program_order)
      : capture_(capture), matches_(matches), program_order_(program_order), members_(capture) {}

  MessageKernels Run() {
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) FindKernels(r);
    DropPartners();
    DropWithoutCommonOrder();
    // The messages that remain keep their order, so that one round is enough.
    DropPartners();
    return std::move(kernels_);
  }

 private:
  const Collective& At(const Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective];
  }
  KernelPlace KernelOf(const Member& m) const { return {m.rank_index, At(m).activity}; }

  static bool IsMessage(const Collective& c) {
    return c.op == CollectiveOp::kSend || c.op == CollectiveOp::kReceive;
  }

  bool GoesToItself(uint32_t r, const Collective& c) const {
    return c.group < capture_.groups.size() && c.peer >= 0 && members_.Place(c.group, r) == c.peer;
  }

  void FindKernels(uint32_t r) {
    const std::vector<Collective>& collectives = capture_.ranks[r].collectives;
    std::set<uint32_t> others;  // activities with operations of other kinds
    for (uint32_t i = 0; i < collectives.size(); ++i) {
      const Collective& c = collectives[i];
      if (c.activity == kNone) continue;
      if (!IsMessage(c)) {
        others.insert(c.activity);
        continue;
      }
      MessageKernel& kernel = kernels_[{r, c.activity}];
      if (GoesToItself(r, c)) continue;
      const std::optional<Member> partner = PartnerOf({r, i});
      if (!partner) {
        Drop({r, c.activity});
        continue;
      }
      if (kernel.messages.empty()) kernel.group = c.group;
      if (kernel.group != c.group) Drop({r, c.activity});
      kernel.messages.push_back({i, *partner});
    }
    for (uint32_t activity : others) {
      if (kernels_.contains({r, activity})) Drop({r, activity});
    }
    for (auto it = kernels_.lower_bound({r, 0}); it != kernels_.end(); ++it) {
      if (it->second.messages.empty()) Drop(it->first);
    }
  }

  std::optional<Member> PartnerOf(const Member& m) const {
    const uint32_t index = matches_.instance_of[m.rank_index][m.collective];
    if (index == kNone) return std::nullopt;
    const Instance& instance = matches_.instances[index];
    if (!instance.complete || instance.members.size() != 2 || instance.group >= capture_.groups.size())
      return std::nullopt;
    const Member& first = instance.members[0];
    const bool is_first = first.rank_index == m.rank_index && first.collective == m.collective;
    const Member& partner = instance.members[is_first ? 1 : 0];
    const bool opposite = IsMessage(At(partner)) && At(partner).op != At(m).op;
    if (!opposite || partner.rank_index == m.rank_index || At(partner).activity == kNone) return std::nullopt;
    return partner;
  }

  void Drop(const KernelPlace& kernel) { dropped_.push_back(kernel); }

  // Removes the dropped kernels, and those that have a message with a removed one.
  void DropPartners() {
    while (!dropped_.empty()) {
      const auto kernel = kernels_.find(dropped_.back());
      dropped_.pop_back();
      if (kernel == kernels_.end()) continue;
      for (const KernelMessage& m : kernel->second.messages) dropped_.push_back(KernelOf(m.partner));
      kernels_.erase(kernel);
    }
  }

  // The place of a message among those of its rank.
  std::pair<uint32_t, uint32_t> PlaceOf(const Member& m) const {
    return {program_order_[m.rank_index][At(m).activity], m.collective};
  }

  void DropWithoutCommonOrder() {
    struct SentMessage {
      Member send, receive;
    };
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::vector<SentMessage>> channels;  // group, from, to
    for (const auto& [place, kernel] : kernels_) {
      for (const KernelMessage& m : kernel.messages) {
        const Member send{place.rank_index, m.collective};
        if (At(send).op == CollectiveOp::kSend)
          channels[{kernel.group, place.rank_index, m.partner.rank_index}].push_back({send, m.partner});
      }
    }
    for (auto& [channel, messages] : channels) {
      std::sort(messages.begin(), messages.end(), [&](const SentMessage& a, const SentMessage& b) {
        return PlaceOf(a.send) < PlaceOf(b.send);
      });
      std::optional<std::pair<uint32_t, uint32_t>> last;
      for (const SentMessage& m : messages) {
        const std::pair<uint32_t, uint32_t> received = PlaceOf(m.receive);
        if (last && received < *last) {
          Drop(KernelOf(m.send));
        } else {
          last = received;
        }
      }
    }
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const std::vector<std::vector<uint32_t>>& program_order_;
  const capture::GroupMembers members_;
  MessageKernels kernels_;
  std::vector<KernelPlace> dropped_;  // still in kernels_
};

}  // namespace

MessageKernels SelectMessageKernels(const capture::Capture& capture, const capture::Matches& matches,
                                    const std::vector<std::vector<uint32_t>>& program_order) {
  return MessageSelector(capture, matches, program_order).Run();
}

}  // namespace lockstep::formats
