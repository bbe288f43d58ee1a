#include "formats/scenario/scenario_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/fnv.h"

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
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) CountPerActivity(r);
    std::map<std::vector<uint32_t>, std::vector<const capture::Instance*>> channels;
    for (const capture::Instance& instance : matches_.instances) {
      if (!Usable(instance)) continue;
      std::vector<uint32_t> channel = {instance.group};
      for (const capture::Member& m : Ordered(instance)) channel.push_back(m.rank_index);
      channels[channel].push_back(&instance);
    }
    for (auto& [channel, instances] : channels) KeepCommonOrder(instances);
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

  static bool IsTransfer(const capture::Instance& instance, const capture::Capture& capture) {
    const capture::Member& m = instance.members[0];
    const CollectiveOp op = capture.ranks[m.rank_index].collectives[m.collective].op;
    return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  }

  // Returns the members; for a transfer, the sender comes first.
  std::vector<capture::Member> Ordered(const capture::Instance& instance) const {
    std::vector<capture::Member> members = instance.members;
    if (IsTransfer(instance, capture_)) {
      std::stable_sort(members.begin(), members.end(),
                       [&](const capture::Member& a, const capture::Member& b) {
                         return OpOf(a) == CollectiveOp::kSend && OpOf(b) != CollectiveOp::kSend;
                       });
    }
    return members;
  }

  CollectiveOp OpOf(const capture::Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective].op;
  }

  bool Usable(const capture::Instance& instance) const {
    if (!instance.complete || instance.members.size() < 2 || instance.group >= capture_.groups.size())
      return false;
    for (const capture::Member& m : instance.members) {
      const capture::Collective& c = capture_.ranks[m.rank_index].collectives[m.collective];
      if (c.activity == kNone || !ToScenario(c.op)) return false;
      // A kernel with several transfers cannot be divided.
      if (collectives_of_[m.rank_index].at(c.activity) != 1) return false;
    }
    if (!IsTransfer(instance, capture_)) return true;
    const std::vector<capture::Member> pair = Ordered(instance);
    return pair.size() == 2 && OpOf(pair[0]) == CollectiveOp::kSend &&
           OpOf(pair[1]) == CollectiveOp::kReceive;
  }

  // Keeps instances that run in the same order on every member. Any other is replayed as a plain kernel.
  void KeepCommonOrder(std::vector<const capture::Instance*>& instances) {
    const auto launch = [&](const capture::Instance* i, size_t k) { return Activity(Ordered(*i)[k]).start; };
    std::sort(
        instances.begin(), instances.end(),
        [&](const capture::Instance* a, const capture::Instance* b) { return launch(a, 0) < launch(b, 0); });
    std::vector<HostTime> last;
    for (const capture::Instance* instance : instances) {
      const size_t n = instance->members.size();
      bool follows = true;
      for (size_t k = 0; k < n && !last.empty(); ++k) follows &= launch(instance, k) > last[k];
      if (!follows) continue;
      last.resize(n);
      for (size_t k = 0; k < n; ++k) last[k] = launch(instance, k);
      Keep(*instance);
    }
  }

  void Keep(const capture::Instance& instance) {
    const std::vector<capture::Member> members = Ordered(instance);
    const std::vector<uint32_t> order = GroupOrder(instance, members);
    const uint32_t group = GroupFor(instance, order);
    const auto place = [&](uint32_t rank_index) {
      return static_cast<int32_t>(std::find(order.begin(), order.end(), rank_index) - order.begin());
    };
    JobTime all = JobTime::Min();
    for (const capture::Member& m : members) all = std::max(all, At(m.rank_index, Activity(m).start));
    const int32_t root =
        std::max(0, capture_.ranks[members[0].rank_index].collectives[members[0].collective].root);
    for (size_t k = 0; k < members.size(); ++k) {
      const capture::Member& m = members[k];
      const scenario::Collective op = *ToScenario(OpOf(m));
      CollectivePlan plan{group, op, -1, all};
      const JobTime own = At(m.rank_index, Activity(m).start);
      if (scenario::NeedsOf(op) == Needs::kPeer) {
        plan.peer = place(members[1 - k].rank_index);
        if (op == scenario::Collective::kSend && BytesOf(m) <= buffered_bytes_) plan.needed = own;
      } else if (scenario::NeedsOf(op) != Needs::kAll) {
        plan.peer = root;
        const bool is_root = place(m.rank_index) == root;
        if (scenario::NeedsOf(op) == Needs::kRoot)
          plan.needed = std::max(own, RootStart(members, order, root));
        else if (!is_root)
          plan.needed = own;
      }
      out_.by_rank[m.rank_index].emplace(capture_.ranks[m.rank_index].collectives[m.collective].activity,
                                         plan);
    }
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

  // Returns the entries of Capture::ranks in the order of their rank in the group. The group's own list is
  // used if it holds all members of the instance; for operations other than transfers, it must hold no other
  // ranks. Otherwise the members keep the order of their entries.
  std::vector<uint32_t> GroupOrder(const capture::Instance& instance,
                                   const std::vector<capture::Member>& members) const {
    std::vector<uint32_t> order;
    for (RankId id : capture_.groups[instance.group].members) {
      for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
        if (capture_.ranks[r].rank == id && (order.empty() || order.back() != r)) {
          order.push_back(r);
          break;
        }
      }
    }
    const bool covers = std::all_of(members.begin(), members.end(), [&](const capture::Member& m) {
      return std::find(order.begin(), order.end(), m.rank_index) != order.end();
    });
    if (covers && (IsTransfer(instance, capture_) || order.size() == members.size())) return order;
    order.clear();
    for (const capture::Member& m : members) order.push_back(m.rank_index);
    std::sort(order.begin(), order.end());
    return order;
  }

  uint32_t GroupFor(const capture::Instance& instance, const std::vector<uint32_t>& order) {
    const auto [it, added] =
        groups_.try_emplace({instance.group, order}, static_cast<uint32_t>(out_.groups.size()));
    if (added) {
      const capture::Group& g = capture_.groups[instance.group];
      // NCCL's profiler reports only communicators that the source identified, not those found by the order
      // of kernels.
      const uint64_t comm = instance.source == capture::MatchSource::kOrder ? 0 : CommunicatorId(g.key);
      out_.groups.push_back({comm, g.ShownName(), order});
    }
    return it->second;
  }

  const capture::Capture& capture_;
  const capture::Matches& matches_;
  const std::vector<Nanos>& shift_;
  const uint64_t buffered_bytes_;
  CollectivePlans out_;
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
