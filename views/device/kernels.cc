#include "views/device/kernels.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "analysis/time/occupancy.h"
#include "analysis/time/utilization.h"
#include "views/host/host_tree.h"
#include "views/host/operators.h"

namespace lockstep::views {
namespace {

using capture::ActivityKind;
using capture::kNone;

struct Key {
  RankId rank;
  NameId name;
  NameId launched_by;
  // Holds grid, block, registers and shared memory.
  std::array<uint32_t, 9> launch{};

  friend bool operator==(const Key&, const Key&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Key& k) {
    return H::combine(std::move(h), k.rank, k.name, k.launched_by, k.launch);
  }
};

std::array<uint32_t, 9> LaunchOf(const capture::KernelDetail& d) {
  return {d.grid[0],
          d.grid[1],
          d.grid[2],
          d.block[0],
          d.block[1],
          d.block[2],
          d.registers,
          d.static_shared_bytes,
          d.dynamic_shared_bytes};
}

// A mean over calls, weighted by their duration.
class WeightedMean {
 public:
  void Add(std::optional<double> value, Nanos weight) {
    if (!value) return;
    sum_ += *value * static_cast<double>(weight.ns());
    weight_ += static_cast<double>(weight.ns());
  }
  std::optional<double> Take() const { return weight_ > 0 ? std::optional(sum_ / weight_) : std::nullopt; }

 private:
  double sum_ = 0, weight_ = 0;
};

class KernelTable {
 public:
  KernelTable(const capture::Capture& capture, const KernelGrouping& grouping)
      : capture_(capture), grouping_(grouping) {}

  void Add(const Process& process) {
    // By entry: the operator around the launch of each activity.
    absl::flat_hash_map<uint32_t, std::vector<NameId>> operators;
    if (grouping_.by_launch && process.frames != nullptr) operators = OperatorsAround(process);
    for (const uint32_t entry : process.entries) {
      const capture::RankData& rank = capture_.ranks[entry];
      const auto around = operators.find(entry);
      for (uint32_t i = 0; i < rank.activities.size(); ++i) {
        if (rank.activities[i].kind != ActivityKind::kKernel) continue;
        Add(rank, rank.activities[i], around == operators.end() ? kNoName : around->second[i]);
      }
    }
  }

  std::vector<KernelRow> Take() {
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].blocks_per_sm = means_[i].blocks.Take();
      rows_[i].occupancy = means_[i].occupancy.Take();
      if (all_ > Nanos())
        rows_[i].fraction = static_cast<double>(rows_[i].total.ns()) / static_cast<double>(all_.ns());
    }
    std::stable_sort(rows_.begin(), rows_.end(), [](const KernelRow& a, const KernelRow& b) {
      return std::tie(b.total, a.name, a.rank, a.launched_by) <
             std::tie(a.total, b.name, b.rank, b.launched_by);
    });
    return std::move(rows_);
  }

 private:
  struct Means {
    WeightedMean blocks, occupancy;
  };

  absl::flat_hash_map<uint32_t, std::vector<NameId>> OperatorsAround(const Process& process) const {
    const HostTree tree = BuildHostTree(capture_, process, FrameKinds{capture::FrameKind::kOperator});
    absl::flat_hash_map<uint32_t, std::vector<NameId>> around;
    for (const uint32_t entry : process.entries)
      around[entry].resize(capture_.ranks[entry].activities.size());
    for (const Launch& launch : tree.launches) {
      if (launch.node == kNone) continue;
      around[launch.activity.entry][launch.activity.activity] =
          process.frames->frames[tree.nodes[launch.node].frame].name;
    }
    return around;
  }

  void Add(const capture::RankData& rank, const capture::DeviceActivity& a, NameId launched_by) {
    const capture::KernelDetail* detail =
        a.detail < rank.kernel_details.size() ? &rank.kernel_details[a.detail] : nullptr;
    Key key{.rank = grouping_.by_rank ? rank.rank : kNoRank, .name = a.name, .launched_by = launched_by};
    if (grouping_.by_launch && detail != nullptr) key.launch = LaunchOf(*detail);
    const auto [it, fresh] = places_.try_emplace(key, rows_.size());
    if (fresh) {
      KernelRow& row = rows_.emplace_back(
          KernelRow{.rank = key.rank, .name = capture_.Text(a.name), .communication = a.communication});
      row.tensor_cores = analysis::NamesTensorCores(row.name);
      row.launched_by = capture_.Text(launched_by);
      row.tensor_core_eligible = IsTensorCoreEligible(row.launched_by);
      if (grouping_.by_launch && detail != nullptr) row.launch = *detail;
      means_.emplace_back();
    }
    KernelRow& row = rows_[it->second];
    const Nanos length = a.end - a.start;
    row.least = row.calls == 0 ? length : std::min(row.least, length);
    row.most = std::max(row.most, length);
    row.total += length;
    ++row.calls;
    all_ += length;
    if (detail == nullptr) return;
    means_[it->second].blocks.Add(analysis::BlocksPerSm(*detail, rank.properties.sms), length);
    means_[it->second].occupancy.Add(analysis::EstimatedOccupancy(*detail, rank.properties), length);
  }

  const capture::Capture& capture_;
  const KernelGrouping grouping_;
  std::vector<KernelRow> rows_;
  std::vector<Means> means_;
  absl::flat_hash_map<Key, size_t> places_;
  Nanos all_;
};

}  // namespace

std::vector<KernelRow> KernelsOf(const capture::Capture& capture, const KernelGrouping& grouping) {
  KernelTable table(capture, grouping);
  for (const Process& process : ProcessesOf(capture)) table.Add(process);
  return table.Take();
}

}  // namespace lockstep::views
