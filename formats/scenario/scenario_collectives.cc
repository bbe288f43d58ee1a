#include "formats/scenario/scenario_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace lockstep::trace {
namespace {

using scenario::Needs;
using store::CollectiveOp;
using store::kNone;

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

uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001B3ull;
  return hash | 1;  // 0 would say that NCCL does not know the group
}

class Planner {
 public:
  Planner(const store::Capture& capture, const align::Matches& matches, const std::vector<Nanos>& shift,
          uint64_t buffered_bytes)
      : capture_(capture), matches_(matches), shift_(shift), buffered_bytes_(buffered_bytes) {}

  // In an order that all members share.
  CollectivePlans Run() {
    out_.by_rank.resize(capture_.ranks.size());
    for (uint32_t r = 0; r < capture_.ranks.size(); ++r) CountPerActivity(r);
    std::map<std::vector<uint32_t>, std::vector<const align::Instance*>> channels;
    for (const align::Instance& instance : matches_.instances) {
      if (!Usable(instance)) continue;
      std::vector<uint32_t> channel = {instance.group};
      for (const align::Member& m : Ordered(instance)) channel.push_back(m.rank_index);
      channels[channel].push_back(&instance);
    }
    for (auto& [channel, instances] : channels) KeepCommonOrder(instances);
    return std::move(out_);
  }

 private:
  JobTime At(uint32_t rank, HostTime t) const { return JobTime(t.ns()) + shift_[rank]; }

  const store::DeviceActivity& Activity(const align::Member& m) const {
    const store::RankData& rank = capture_.ranks[m.rank_index];
    return rank.activities[rank.collectives[m.collective].activity];
  }

  void CountPerActivity(uint32_t r) {
    auto& counts = collectives_of_.emplace_back();
    for (const store::Collective& c : capture_.ranks[r].collectives) ++counts[c.activity];
  }

  static bool IsTransfer(const align::Instance& instance, const store::Capture& capture) {
    const align::Member& m = instance.members[0];
    const CollectiveOp op = capture.ranks[m.rank_index].collectives[m.collective].op;
    return op == CollectiveOp::kSend || op == CollectiveOp::kReceive;
  }

  // Transfers: sender first.
  std::vector<align::Member> Ordered(const align::Instance& instance) const {
    std::vector<align::Member> members = instance.members;
    if (IsTransfer(instance, capture_)) {
      std::stable_sort(members.begin(), members.end(), [&](const align::Member& a, const align::Member& b) {
        return OpOf(a) == CollectiveOp::kSend && OpOf(b) != CollectiveOp::kSend;
      });
    }
    return members;
  }

  CollectiveOp OpOf(const align::Member& m) const {
    return capture_.ranks[m.rank_index].collectives[m.collective].op;
  }

  bool Usable(const align::Instance& instance) const {
    if (!instance.complete || instance.members.size() < 2 || instance.group >= capture_.groups.size())
      return false;
    for (const align::Member& m : instance.members) {
      const store::Collective& c = capture_.ranks[m.rank_index].collectives[m.collective];
      if (c.activity == kNone || !ToScenario(c.op)) return false;
      // One kernel with several transfers cannot be cut apart.
      if (collectives_of_[m.rank_index].at(c.activity) != 1) return false;
    }
    if (!IsTransfer(instance, capture_)) return true;
    const std::vector<align::Member> pair = Ordered(instance);
    return pair.size() == 2 && OpOf(pair[0]) == CollectiveOp::kSend &&
           OpOf(pair[1]) == CollectiveOp::kReceive;
  }

  // Instances that follow each other on every member; a stray one is replayed as a plain kernel.
  void KeepCommonOrder(std::vector<const align::Instance*>& instances) {
    const auto launch = [&](const align::Instance* i, size_t k) { return Activity(Ordered(*i)[k]).start; };
    std::sort(instances.begin(), instances.end(), [&](const align::Instance* a, const align::Instance* b) {
      return launch(a, 0) < launch(b, 0);
    });
    std::vector<HostTime> last;
    for (const align::Instance* instance : instances) {
      const size_t n = instance->members.size();
      bool follows = true;
      for (size_t k = 0; k < n && !last.empty(); ++k) follows &= launch(instance, k) > last[k];
      if (!follows) continue;
      last.resize(n);
      for (size_t k = 0; k < n; ++k) last[k] = launch(instance, k);
      Keep(*instance);
    }
  }

  void Keep(const align::Instance& instance) {
    const std::vector<align::Member> members = Ordered(instance);
    const std::vector<uint32_t> order = GroupOrder(instance, members);
    const uint32_t group = GroupFor(instance, order);
    const auto place = [&](uint32_t rank_index) {
      return static_cast<int32_t>(std::find(order.begin(), order.end(), rank_index) - order.begin());
    };
    JobTime all = JobTime::Min();
    for (const align::Member& m : members) all = std::max(all, At(m.rank_index, Activity(m).start));
    const int32_t root =
        std::max(0, capture_.ranks[members[0].rank_index].collectives[members[0].collective].root);
    for (size_t k = 0; k < members.size(); ++k) {
      const align::Member& m = members[k];
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

  uint64_t BytesOf(const align::Member& m) const {
    return static_cast<uint64_t>(
        std::max<int64_t>(0, capture_.ranks[m.rank_index].collectives[m.collective].bytes));
  }

  JobTime RootStart(const std::vector<align::Member>& members, const std::vector<uint32_t>& order,
                    int32_t root) const {
    for (const align::Member& m : members) {
      if (static_cast<size_t>(root) < order.size() && m.rank_index == order[root])
        return At(m.rank_index, Activity(m).start);
    }
    return JobTime::Min();
  }

  // Entries of Capture::ranks in the order of their rank in the group: its own list where it is known. A
  // transfer names two of a group's members and stands for the whole group only when the others are there
  // too.
  std::vector<uint32_t> GroupOrder(const align::Instance& instance,
                                   const std::vector<align::Member>& members) const {
    std::vector<uint32_t> order;
    for (RankId id : capture_.groups[instance.group].members) {
      for (uint32_t r = 0; r < capture_.ranks.size(); ++r) {
        if (capture_.ranks[r].rank == id && (order.empty() || order.back() != r)) {
          order.push_back(r);
          break;
        }
      }
    }
    const bool covers = std::all_of(members.begin(), members.end(), [&](const align::Member& m) {
      return std::find(order.begin(), order.end(), m.rank_index) != order.end();
    });
    if (covers && (IsTransfer(instance, capture_) || order.size() == members.size())) return order;
    order.clear();
    for (const align::Member& m : members) order.push_back(m.rank_index);
    std::sort(order.begin(), order.end());
    return order;
  }

  uint32_t GroupFor(const align::Instance& instance, const std::vector<uint32_t>& order) {
    const auto [it, added] =
        groups_.try_emplace({instance.group, order}, static_cast<uint32_t>(out_.groups.size()));
    if (added) {
      const store::Group& g = capture_.groups[instance.group];
      // NCCL is only told of communicators that the source knew by more than the order of kernels.
      const uint64_t comm = instance.source == store::MatchSource::kOrder ? 0 : HashText(g.key);
      out_.groups.push_back({comm, g.ShownName(), order});
    }
    return it->second;
  }

  const store::Capture& capture_;
  const align::Matches& matches_;
  const std::vector<Nanos>& shift_;
  const uint64_t buffered_bytes_;
  CollectivePlans out_;
  std::vector<absl::flat_hash_map<uint32_t, uint32_t>>
      collectives_of_;  // per rank: collectives of an activity
  std::map<std::pair<uint32_t, std::vector<uint32_t>>, uint32_t> groups_;
};

}  // namespace

CollectivePlans PlanCollectives(const store::Capture& capture, const align::Matches& matches,
                                const std::vector<Nanos>& shift, uint64_t buffered_bytes) {
  return Planner(capture, matches, shift, buffered_bytes).Run();
}

}  // namespace lockstep::trace
