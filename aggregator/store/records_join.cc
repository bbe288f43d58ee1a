#include "aggregator/store/records_join.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"

namespace lockstep::store {
namespace {

uint32_t GroupOf(uint64_t comm, GroupIndex& index, Capture& capture) {
  const auto [it, made] = index.emplace(comm, static_cast<uint32_t>(capture.groups.size()));
  if (made) {
    Group group;
    group.key = absl::StrFormat("%016x", comm);
    capture.groups.push_back(std::move(group));
  }
  return it->second;
}

// The kernel of a launch: the communication kernel under that correlation, or the only kernel there is.
uint32_t KernelOf(const std::vector<uint32_t>& kernels, const ProcessTables& tables,
                  const StringTable& strings) {
  uint32_t found = kNone;
  for (const uint32_t i : kernels) {
    if (ClassifyKernelName(strings.Text(tables.data.activities[i].name)).communication) return i;
    found = i;
  }
  return kernels.size() == 1 ? found : kNone;
}

}  // namespace

GroupIndex MakeGroups(const std::vector<ProcessTables>& processes, const std::vector<RankId>& ranks,
                      Capture& capture) {
  GroupIndex index;
  // By rank in the group. Sparse: a claimed size costs no memory.
  std::vector<absl::flat_hash_map<int32_t, RankId>> members;
  for (size_t p = 0; p < processes.size(); ++p) {
    for (const CommunicatorRow& row : processes[p].communicators) {
      if (row.ranks < 1 || row.rank < 0 || row.rank >= row.ranks) continue;
      const uint32_t g = GroupOf(row.comm, index, capture);
      Group& group = capture.groups[g];
      if (group.name.empty()) group.name = std::string(capture.Text(row.name));
      group.size = std::max(group.size, row.ranks);
      if (members.size() < capture.groups.size()) members.resize(capture.groups.size());
      members[g][row.rank] = ranks[p];
    }
    for (const NcclRow& row : processes[p].nccl) GroupOf(row.comm, index, capture);
  }
  for (size_t g = 0; g < members.size(); ++g) {
    Group& group = capture.groups[g];
    if (members[g].size() != static_cast<size_t>(group.size)) continue;
    group.members.resize(members[g].size());
    for (const auto& [rank, world] : members[g]) group.members[static_cast<size_t>(rank)] = world;
  }
  return index;
}

uint64_t JoinCollectives(const GroupIndex& groups, const StringTable& strings, ProcessTables& tables) {
  RankData& data = tables.data;
  absl::flat_hash_map<CorrelationId, std::vector<uint32_t>> launched;  // only what a launch serial points to
  absl::flat_hash_map<uint64_t, CorrelationId> correlation_of;
  uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;
  for (const auto& [serial, correlation] : tables.launches) {
    first = std::min(first, serial);
    last = std::max(last, serial);
    correlation_of[serial] = correlation;
    launched.try_emplace(correlation);
  }
  for (uint32_t i = 0; i < data.activities.size(); ++i) {
    const DeviceActivity& a = data.activities[i];
    if (a.kind != ActivityKind::kKernel || a.correlation == CorrelationId()) continue;
    if (auto it = launched.find(a.correlation); it != launched.end()) it->second.push_back(i);
  }
  uint64_t unjoined = 0;
  for (const NcclRow& row : tables.nccl) {
    const auto correlation = row.launch != 0 ? correlation_of.find(row.launch) : correlation_of.end();
    if (correlation == correlation_of.end()) {
      // Serials count up: what lies outside those seen was launched outside the window.
      if (row.launch == 0 || (row.launch > first && row.launch < last)) ++unjoined;
      continue;
    }
    const uint32_t activity = KernelOf(launched[correlation->second], tables, strings);
    if (activity == kNone) continue;
    Collective c;
    c.activity = activity;
    const auto group = groups.find(row.comm);
    c.group = group != groups.end() ? group->second : kNone;
    c.op = row.op;
    c.source = MatchSource::kNcclSequence;
    c.sequence = row.sequence;
    const auto element = static_cast<uint64_t>(ElementBytes(strings.Text(row.datatype)));
    if (element > 0 && row.count <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / element) {
      c.bytes = static_cast<int64_t>(row.count * element);
    }
    c.root = row.root;
    c.peer = row.peer;
    c.datatype = row.datatype;
    DeviceActivity& kernel = data.activities[activity];
    kernel.communication = true;
    if (kernel.collective == kNone) kernel.collective = static_cast<uint32_t>(data.collectives.size());
    data.collectives.push_back(c);
  }
  return unjoined;
}

}  // namespace lockstep::store
