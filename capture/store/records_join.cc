#include "capture/store/records_join.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"

namespace lockstep::capture {
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

// The kernels and copies of each launch serial in launch order, and those that belong to each row.
class Launches {
 public:
  Launches(const ProcessTables& tables, const StringTable& strings) : tables_(tables), strings_(strings) {
    absl::flat_hash_map<CorrelationId, uint64_t> serial_of;
    for (const auto& [serial, correlation] : tables.launches) {
      first_ = std::min(first_, serial);
      last_ = std::max(last_, serial);
      serial_of[correlation] = serial;
      kernels_.try_emplace(serial);
    }
    const auto& activities = tables.data.activities;
    for (uint32_t i = 0; i < activities.size(); ++i) {
      if (activities[i].kind == ActivityKind::kMemset || activities[i].correlation == CorrelationId())
        continue;
      const auto it = serial_of.find(activities[i].correlation);
      if (it == serial_of.end()) continue;
      (activities[i].kind == ActivityKind::kKernel ? kernels_ : copies_)[it->second].push_back(i);
    }
    for (auto& [serial, kernels] : kernels_) {
      std::sort(kernels.begin(), kernels.end(), [&](uint32_t a, uint32_t b) {
        return activities[a].correlation < activities[b].correlation;
      });
    }
    for (const NcclRow& row : tables.nccl) {
      if (row.from_nvtx && row.launch != 0) calls_[row.launch].push_back(&row);
    }
  }

  bool Knows(uint64_t serial) const { return kernels_.contains(serial); }
  // Serials increase, so a serial outside the seen ones was launched outside the window.
  bool Outside(uint64_t serial) const { return serial != 0 && (serial <= first_ || serial >= last_); }

  // kNone: the kernel is not in the capture, or several kernels fit (*ambiguous).
  uint32_t KernelOf(const NcclRow& row, bool* ambiguous) const {
    const std::vector<uint32_t>& all = kernels_.at(row.launch);
    std::vector<uint32_t> kernels;
    for (const uint32_t i : all) {
      if (Class(i).communication) kernels.push_back(i);
    }
    if (kernels.empty()) return all.size() == 1 ? all[0] : kNone;
    // The plugin's serial is pushed around a single launch.
    if (kernels.size() == 1 || !row.from_nvtx) return kernels[0];
    return OfCall(row, kernels, ambiguous);
  }

  // Returns the copies that ran the row's operation on the copy engines. Empty: a kernel ran it, or the
  // launch is that of several operations.
  std::vector<uint32_t> CopiesOf(const NcclRow& row) const {
    const auto copies = copies_.find(row.launch);
    if (copies == copies_.end() || !kernels_.at(row.launch).empty()) return {};
    if (row.from_nvtx && calls_.at(row.launch).size() != 1) return {};
    return copies->second;
  }

 private:
  NameClass Class(uint32_t activity) const {
    return ClassifyKernelName(strings_.Text(tables_.data.activities[activity].name));
  }

  // The serial of an NVTX range is pushed around a call. This call may be the end of a group of many
  // operations in many kernels. NCCL launches different operations in its own order, so order identifies only
  // operations that are alike.
  uint32_t OfCall(const NcclRow& row, std::vector<uint32_t> kernels, bool* ambiguous) const {
    const CollectiveOp family = KernelFamily(row.op);
    std::erase_if(kernels, [&](uint32_t i) { return KernelFamily(Class(i).op) != family; });
    if (kernels.size() == 1) return kernels[0];
    size_t calls = 0;
    size_t place = 0;
    bool alike = true;
    for (const NcclRow* call : calls_.at(row.launch)) {
      if (KernelFamily(call->op) != family) continue;
      if (call == &row) place = calls;
      alike = alike && call->bytes == row.bytes && call->comm == row.comm;
      ++calls;
    }
    if (alike && calls == kernels.size() && !kernels.empty()) return kernels[place];
    *ambiguous = true;
    return kNone;
  }

  const ProcessTables& tables_;
  const StringTable& strings_;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> kernels_;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> copies_;
  absl::flat_hash_map<uint64_t, std::vector<const NcclRow*>> calls_;
  uint64_t first_ = std::numeric_limits<uint64_t>::max();
  uint64_t last_ = 0;
};

// Marks the copies of one operation as communication, and returns the longest one.
uint32_t MarkCopies(const std::vector<uint32_t>& copies, RankData& data) {
  uint32_t longest = copies[0];
  for (const uint32_t i : copies) {
    const DeviceActivity& copy = data.activities[i];
    const DeviceActivity& other = data.activities[longest];
    if (copy.end - copy.start > other.end - other.start) longest = i;
    data.activities[i].communication = true;
  }
  return longest;
}

int64_t BytesOf(const NcclRow& row, const StringTable& strings) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (row.from_nvtx) return row.bytes <= kMost ? static_cast<int64_t>(row.bytes) : -1;
  const auto element = static_cast<uint64_t>(ElementBytes(strings.Text(row.datatype)));
  return element > 0 && row.count <= kMost / element ? static_cast<int64_t>(row.count * element) : -1;
}

}  // namespace

GroupIndex MakeGroups(const std::vector<ProcessTables>& processes, const std::vector<RankId>& ranks,
                      Capture& capture) {
  GroupIndex index;
  // Indexed by rank in the group. A sparse map, so a large claimed size costs no memory.
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
    for (const NcclRow& row : processes[p].nccl) {
      if (row.comm != 0) GroupOf(row.comm, index, capture);
    }
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
  const Launches launches(tables, strings);
  uint64_t unjoined = 0;
  for (const NcclRow& row : tables.nccl) {
    if (row.launch == 0 || !launches.Knows(row.launch)) {
      if (!launches.Outside(row.launch)) ++unjoined;
      continue;
    }
    const auto group = row.comm != 0 ? groups.find(row.comm) : groups.end();
    bool ambiguous = false;
    uint32_t activity = launches.KernelOf(row, &ambiguous);
    if (ambiguous) ++unjoined;
    Collective c;
    c.source = row.local_sequence ? MatchSource::kOrder : MatchSource::kNcclSequence;
    c.sequence = row.local_sequence ? -1 : row.sequence;
    if (activity == kNone && !ambiguous) {
      const std::vector<uint32_t> copies = launches.CopiesOf(row);
      if (!copies.empty()) activity = MarkCopies(copies, data);
      c.source = MatchSource::kCopyEngine;
      c.sequence = -1;
    }
    if (activity == kNone) continue;
    c.activity = activity;
    c.group = group != groups.end() ? group->second : kNone;
    c.op = row.op;
    c.bytes = BytesOf(row, strings);
    c.root = row.root;
    c.peer = row.peer;
    c.datatype = row.datatype;
    c.reduction = row.reduction;
    c.operation = row.operation;
    DeviceActivity& a = data.activities[activity];
    a.communication = true;
    if (a.collective == kNone) a.collective = static_cast<uint32_t>(data.collectives.size());
    data.collectives.push_back(c);
  }
  return unjoined;
}

}  // namespace lockstep::capture
