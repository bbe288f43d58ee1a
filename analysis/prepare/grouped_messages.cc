#include "analysis/prepare/grouped_messages.h"

#include <algorithm>

#include "analysis/prepare/member_rows.h"

namespace lockstep::analysis {

using capture::CollectiveOp;
using capture::Instance;
using capture::kNone;
using capture::Member;

GroupedMessages::GroupedMessages(const capture::Capture& capture, const capture::Matches& matches,
                                 const capture::ClockModel& clock)
    : capture_(capture), matches_(matches), clock_(clock), kernel_of_(capture.ranks.size()) {
  for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
    const auto& rows = capture_.ranks[r].collectives;
    for (uint32_t first = 0, end = 0; first < rows.size(); first = end) {
      bool messages = true;
      for (; end < rows.size() && rows[end].activity == rows[first].activity; ++end)
        messages &= rows[end].op == CollectiveOp::kSend || rows[end].op == CollectiveOp::kReceive;
      if (end - first > 1 && messages) AddKernel({.rank_index = r, .first = first, .end = end});
    }
  }
}

// The other side of the message. nullptr: unknown.
const Member* GroupedMessages::Partner(const Member& m) const {
  const uint32_t n = matches_.instance_of[m.rank_index][m.collective];
  if (n == kNone) return nullptr;
  const Instance& instance = matches_.instances[n];
  if (!instance.usable || instance.members.size() != 2 || !IsTransfer(capture_, instance)) return nullptr;
  const Member& first = instance.members[0];
  const bool is_first = first.rank_index == m.rank_index && first.collective == m.collective;
  return &instance.members[is_first ? 1 : 0];
}

bool GroupedMessages::ToItself(const Member& m) const {
  const capture::Collective& c = At(capture_, m);
  if (c.group >= capture_.groups.size() || c.peer < 0) return false;
  const auto& members = capture_.groups[c.group].members;
  const auto peer = static_cast<size_t>(c.peer);
  return peer < members.size() && members[peer] == RankOf(capture_, m).rank;
}

void GroupedMessages::AddKernel(Kernel kernel) {
  auto& kernel_of = kernel_of_[kernel.rank_index];
  kernel_of.resize(capture_.ranks[kernel.rank_index].collectives.size(), kNone);
  for (uint32_t row = kernel.first; row < kernel.end; ++row) {
    kernel_of[row] = static_cast<uint32_t>(kernels_.size());
    const Member* partner = Partner({kernel.rank_index, row});
    if (partner == nullptr) {
      kernel.partners_known &= ToItself({kernel.rank_index, row});
      continue;
    }
    const JobTime start = StartOfMember(capture_, clock_, *partner);
    if (kernel.latest_row == kNone || start > kernel.latest) {
      kernel.second = kernel.latest;
      kernel.latest = start;
      kernel.latest_row = row;
    } else {
      kernel.second = std::max(kernel.second, start);
    }
  }
  kernels_.push_back(kernel);
}

const GroupedMessages::Kernel* GroupedMessages::KernelOf(const Member& m) const {
  const auto& kernel_of = kernel_of_[m.rank_index];
  if (kernel_of.empty() || kernel_of[m.collective] == kNone) return nullptr;
  return &kernels_[kernel_of[m.collective]];
}

bool GroupedMessages::OthersCameBefore(const Member& m, JobTime partner_start) const {
  const Kernel* kernel = KernelOf(m);
  if (kernel == nullptr) return true;
  if (!kernel->partners_known) return false;
  return (kernel->latest_row == m.collective ? kernel->second : kernel->latest) < partner_start;
}

void GroupedMessages::Time(const std::function<bool(const Instance& message)>& is_rendezvous,
                           std::vector<std::vector<Part>>& parts) {
  for (Kernel& kernel : kernels_) {
    const Nanos duration = DurationOf(capture_, {kernel.rank_index, kernel.first});
    bool split = kernel.partners_known;
    Nanos wait;
    for (uint32_t row = kernel.first; row < kernel.end; ++row) {
      const Member m{kernel.rank_index, row};
      const Member* partner = Partner(m);
      if (partner == nullptr) continue;
      const Instance& message = matches_.instances[matches_.instance_of[m.rank_index][row]];
      if (At(capture_, m).op == CollectiveOp::kSend && !is_rendezvous(message)) continue;
      if (PairBound(clock_, RankOf(capture_, m).host, RankOf(capture_, *partner).host) > duration) {
        split = false;
        continue;
      }
      const Nanos own = std::clamp(
          StartOfMember(capture_, clock_, *partner) - StartOfMember(capture_, clock_, m), Nanos(), duration);
      if (own > wait) {
        wait = own;
        kernel.awaited_row = row;
      }
    }
    for (uint32_t row = kernel.first; row < kernel.end; ++row)
      parts[kernel.rank_index][row] = {.wait = wait, .wait_by_clock = Nanos(), .split = split};
  }
}

}  // namespace lockstep::analysis
