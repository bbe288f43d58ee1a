#include "formats/scenario/scenario_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fnv.h"
#include "formats/scenario/message_kernels.h"
#include "formats/scenario/program_order.h"

namespace lockstep::formats {
namespace {

using capture::CollectiveOp;
using capture::kNone;
using scenario::Needs;

std::optional<scenario::Collective> ToScenario(CollectiveOp op) {
  using scenario::Collective;
  switch (op) {
    case CollectiveOp::kAllReduce:
      return Collective::kAllReduce;
    case CollectiveOp::kAllGather:
      return Collective::kAllGather;
    case CollectiveOp::kReduceScatter:
      return Collective::kReduceScatter;
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
      return Collective::kAllToAll;
    case CollectiveOp::kBroadcast:
      return Collective::kBroadcast;
    case CollectiveOp::kReduce:
      return Collective::kReduce;
    case CollectiveOp::kGather:
      return Collective::kGather;
    case CollectiveOp::kScatter:
      return Collective::kScatter;
    case CollectiveOp::kSend:
      return Collective::kSend;
    case CollectiveOp::kReceive:
      return Collective::kReceive;
    case CollectiveOp::kSendReceive:
      return Collective::kSendReceive;
    case CollectiveOp::kBarrier:
      return Collective::kBarrier;
    default:
      return std::nullopt;
  }
}

// 0 would mean that NCCL does not know the group.
uint64_t CommunicatorId(std::string_view key) { return Fnv1a(key) | 1; }

class Planner {
 public:
  Planner(const capture::Capture& capture, const capture::Matches& matches, const std::vector<Nanos>& shift,
          uint64_t buffered_bytes)
      : capture_(capture), matches_(matches), shift_(shift), buffered_bytes_(buffered_bytes) {}

  // Plans the collectives in an order that all members share.
  CollectivePlans Run() {
    out_.by_rank.resize(capture_.ranks.size());
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
      CountPerActivity(r);
      program_order_.push_back(ProgramOrder(capture_.ranks[r]));
    }
    std::map<std::vector<uint32_t>, std::vector<const capture::Instance*>> channels;
    for (const capture::Instance& instance : matches_.instances) {
      if (!Usable(instance)) continue;
      std::vector<uint32_t> channel = {instance.group};
      for (const capture::Member& m : instance.members) channel.push_back(m.rank_index);
      channels[channel].push_back(&instance);
    }
    for (auto& [channel, instances] : channels) KeepCommonOrder(instances);
    KeepMessages();
    return std::move(out_);
  }

 private:
  JobTime At(uint32_t rank, HostTime t) const { return JobTime(t.ns()) + shift_[rank]; }

  const capture::DeviceActivity& Activity(const capture::Member& m) const {
    const capture::RankData& rank = capture_.ranks[m.rank_index];
    return rank.activities[rank.collectives[m.collective].activity];
  }

  void CountPerActivity(uint32_t r) {
    auto& counts = collectives_of_.emplace_back();
    for (const capture::Collective& c : capture_.ranks[r].collectives) ++counts[c.activity];
  }

  CollectiveOp OpOf(const capture::Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective].op;
  }

  static bool IsMessage(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kReceive; }

  // Returns whether it is a collective of several ranks that has its own kernel on each.
  bool Usable(const capture::Instance& instance) const {
    if (!instance.complete || instance.members.size() < 2 || instance.group >= capture_.groups.size())
      return false;
    return std::all_of(instance.members.begin(), instance.members.end(), [&](const capture::Member& m) {
      const capture::Collective& c = capture_.ranks[m.rank_index].collectives[m.collective];
      return c.activity != kNone && ToScenario(c.op) && !IsMessage(c.op) &&
             collectives_of_[m.rank_index].at(c.activity) == 1;
    });
  }

  uint32_t PlaceOf(const capture::Member& m) const {
    return program_order_[m.rank_index][capture_.ranks[m.rank_index].collectives[m.collective].activity];
  }

  // Keeps instances that run in the same order on every member. Any other is replayed as a plain kernel.
  void KeepCommonOrder(std::vector<const capture::Instance*>& instances) {
    std::sort(instances.begin(), instances.end(),
              [&](const capture::Instance* a, const capture::Instance* b) {
                return PlaceOf(a->members[0]) < PlaceOf(b->members[0]);
              });
    std::vector<uint32_t> last;
    for (const capture::Instance* instance : instances) {
      const size_t n = instance->members.size();
      bool follows = true;
      for (size_t k = 0; k < n && !last.empty(); ++k) follows &= PlaceOf(instance->members[k]) > last[k];
      if (!follows) continue;
      last.resize(n);
      for (size_t k = 0; k < n; ++k) last[k] = PlaceOf(instance->members[k]);
      Keep(*instance);
    }
  }

  void Keep(const capture::Instance& instance) {
    const std::vector<capture::Member>& members = instance.members;
    std::vector<uint32_t> ranks;
    for (const capture::Member& m : members) ranks.push_back(m.rank_index);
    const std::vector<uint32_t> order = GroupOrder(instance.group, ranks, Coverage::kExactly);
    const uint32_t group =
        GroupFor(instance.group, order,
                 instance.source == capture::MatchSource::kOrder ? Announced::kNo : Announced::kYes);
    JobTime all = JobTime::Min();
    for (const capture::Member& m : members) all = std::max(all, At(m.rank_index, Activity(m).start));
    const int32_t root =
        std::max(0, capture_.ranks[members[0].rank_index].collectives[members[0].collective].root);
    for (const capture::Member& m : members) {
      const scenario::Collective op = *ToScenario(OpOf(m));
      CollectivePlan plan{group, op, -1, all, {}};
      const JobTime own = At(m.rank_index, Activity(m).start);
      if (scenario::NeedsOf(op) != Needs::kAll) {
        plan.peer = root;
        const bool is_root = PlaceIn(order, m.rank_index) == root;
        if (scenario::NeedsOf(op) == Needs::kRoot)
          plan.needed = std::max(own, RootStart(members, order, root));
        else if (!is_root)
          plan.needed = own;
      }
      out_.by_rank[m.rank_index].emplace(capture_.ranks[m.rank_index].collectives[m.collective].activity,
                                         plan);
    }
  }

  static int32_t PlaceIn(const std::vector<uint32_t>& order, uint32_t rank_index) {
    return static_cast<int32_t>(std::find(order.begin(), order.end(), rank_index) - order.begin());
  }

  void KeepMessages() {
    const MessageKernels kernels = SelectMessageKernels(capture_, matches_, program_order_);
    std::map<uint32_t, std::vector<uint32_t>> ranks_of;  // by group, those with messages
    for (const auto& [place, kernel] : kernels) {
      std::vector<uint32_t>& ranks = ranks_of[kernel.group];
      if (ranks.empty() || ranks.back() != place.rank_index) ranks.push_back(place.rank_index);
    }
    for (const auto& [place, kernel] : kernels) {
      const std::vector<uint32_t> order =
          GroupOrder(kernel.group, ranks_of[kernel.group], Coverage::kAtLeast);
      out_.by_rank[place.rank_index].emplace(place.activity, PlanOf(place, kernel, order));
    }
  }

  CollectivePlan PlanOf(const KernelPlace& place, const MessageKernel& kernel,
                        const std::vector<uint32_t>& order) {
    const capture::RankData& rank = capture_.ranks[place.rank_index];
    const capture::Collective& first = rank.collectives[kernel.messages[0].collective];
    const bool stated = capture_.groups[kernel.group].origin == capture::GroupOrigin::kStated;
    CollectivePlan plan{GroupFor(kernel.group, order, stated ? Announced::kYes : Announced::kNo),
                        *ToScenario(first.op),
                        PlaceIn(order, kernel.messages[0].partner.rank_index),
                        At(place.rank_index, rank.activities[place.activity].start),
                        {}};
    for (const KernelMessage& m : kernel.messages) {
      const capture::Member own{place.rank_index, m.collective};
      // The two sides may state different sizes, and only one of them may know it. Both must judge the same
      // one.
      const scenario::Message message{*ToScenario(OpOf(own)), PlaceIn(order, m.partner.rank_index),
                                      std::max(BytesOf(own), BytesOf(m.partner))};
      if (message.collective == scenario::Collective::kReceive || message.bytes > buffered_bytes_)
        plan.needed = std::max(plan.needed, At(m.partner.rank_index, Activity(m.partner).start));
      plan.messages.push_back(message);
    }
    return plan;
  }

  uint64_t BytesOf(const capture::Member& m) const {
    return static_cast<uint64_t>(
        std::max<int64_t>(0, capture_.ranks[m.rank_index].collectives[m.collective].bytes));
  }

  JobTime RootStart(const std::vector<capture::Member>& members, const std::vector<uint32_t>& order,
                    int32_t root) const {
    for (const capture::Member& m : members) {
      if (static_cast<size_t>(root) < order.size() && m.rank_index == order[root])
        return At(m.rank_index, Activity(m).start);
    }
    return JobTime::Min();
  }

  // The group's list must name the given ranks and no others, or may name others too.
  enum class Coverage : uint8_t { kExactly, kAtLeast };

  // Returns the entries of Capture::ranks in the order of their rank in the group. The group's own list is
  // used if it covers `ranks`. Otherwise they keep the order of their entries.
  std::vector<uint32_t> GroupOrder(uint32_t group, const std::vector<uint32_t>& ranks,
                                   Coverage coverage) const {
    std::vector<uint32_t> order;
    for (RankId id : capture_.groups[group].members) {
      for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
        if (capture_.ranks[r].rank == id && (order.empty() || order.back() != r)) {
          order.push_back(r);
          break;
        }
      }
    }
    const bool covers = std::all_of(ranks.begin(), ranks.end(), [&](uint32_t r) {
      return std::find(order.begin(), order.end(), r) != order.end();
    });
    if (covers && (coverage == Coverage::kAtLeast || order.size() == ranks.size())) return order;
    order = ranks;
    std::sort(order.begin(), order.end());
    return order;
  }

  // NCCL's profiler reports only communicators that the source identified, not those found by the order of
  // kernels.
  enum class Announced : uint8_t { kNo, kYes };

  uint32_t GroupFor(uint32_t of_capture, const std::vector<uint32_t>& order, Announced announced) {
    const auto [it, added] =
        groups_.try_emplace({of_capture, order}, static_cast<uint32_t>(out_.groups.size()));
    if (added) {
      const capture::Group& g = capture_.groups[of_capture];
      out_.groups.push_back({announced == Announced::kYes ? CommunicatorId(g.key) : 0, g.ShownName(), order});
    }
    return it->second;
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const std::vector<Nanos>& shift_;
  const uint64_t buffered_bytes_;
  CollectivePlans out_;
  std::vector<std::vector<uint32_t>> program_order_;  // per rank
  std::vector<absl::flat_hash_map<uint32_t, uint32_t>>
      collectives_of_;  // per rank: collectives of an activity
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, uint32_t> groups_;
};

}  // namespace

CollectivePlans PlanCollectives(const capture::Capture& capture, const capture::Matches& matches,
                                const std::vector<Nanos>& shift, uint64_t buffered_bytes) {
  return Planner(capture, matches, shift, buffered_bytes).Run();
}

}  // namespace lockstep::formats
