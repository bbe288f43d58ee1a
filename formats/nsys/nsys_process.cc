// TakeNsysRows(): converts the rows of a process into entries of a capture.
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "capture/model/compact.h"
#include "formats/common/assign_api_calls.h"
#include "formats/common/nest_ranges.h"
#include "formats/common/nvtx_frames.h"
#include "formats/nsys/nsys_capture.h"

namespace lockstep::formats {
namespace {

using capture::RankData;

constexpr char kWholeGraphs[] =
    "CUDA graphs recorded as wholes, without their kernels; record with --cuda-graph-trace=node";

// Moves the file's names into the capture's table, each once.
class Names {
 public:
  Names(const capture::StringTable& from, capture::StringTable& to) : from_(from), to_(to) {}
  NameId Of(NameId id) {
    const auto [it, fresh] = known_.try_emplace(id, kNoName);
    if (fresh) it->second = to_.Intern(from_.Text(id));
    return it->second;
  }
  template <typename Row>
  void Move(std::vector<Row>& rows) {
    for (Row& row : rows) row.name = Of(row.name);
  }

 private:
  const capture::StringTable& from_;
  capture::StringTable& to_;
  absl::flat_hash_map<NameId, NameId> known_;
};

// Calls use(table) for each large table of the process.
template <typename Use>
void ForEachTable(NsysProcess& process, const Use& use) {
  for (NsysDevice& device : process.devices) {
    use(device.activities);
    use(device.kernel_details);
    use(device.copy_details);
    use(device.syncs);
    use(device.event_records);
  }
  use(process.api_calls);
  use(process.ranges);
  use(process.operator_ranges);
}

// Null: the reader kept no operators. The other ranges become frames around them.
std::shared_ptr<const capture::HostFrames> TakeFrames(Names& names, NsysProcess& process,
                                                      capture::StringTable& strings) {
  if (process.operator_ranges.empty()) return nullptr;
  names.Move(process.operator_ranges);
  std::vector<capture::HostRange> all = std::move(process.operator_ranges);
  all.insert(all.end(), process.ranges.begin(), process.ranges.end());
  return std::make_shared<const capture::HostFrames>(FramesOfRanges(all, strings));
}

}  // namespace

void MoveRows(NsysProcess& process, capture::RowOverflow& overflow) {
  uint64_t rows = process.api_calls.size(), bytes = 0;
  for (const NsysDevice& device : process.devices) rows += device.activities.size();
  ForEachTable(process, [&](const auto& table) { bytes += table.size() * sizeof(table[0]); });
  if (!overflow.Add(rows, bytes)) return;
  for (NsysDevice& device : process.devices) capture::ShareDetails(device.activities, device.kernel_details);
  ForEachTable(process, [&](auto& table) { overflow.Move(table); });
}

std::vector<RankData> TakeNsysRows(const capture::StringTable& from, NsysProcess& process,
                                   capture::StringTable& strings) {
  Names names(from, strings);
  std::vector<RankData> entries;
  for (NsysDevice& device : process.devices) {
    RankData& entry = entries.emplace_back();
    entry.device = device.device;
    entry.window = process.window;
    entry.activities = std::move(device.activities);
    entry.kernel_details = std::move(device.kernel_details);
    entry.copy_details = std::move(device.copy_details);
    entry.syncs = std::move(device.syncs);
    entry.event_records = std::move(device.event_records);
    names.Move(entry.activities);
    entry.unseen_graph_launches = device.graphs;
    if (device.graphs > 0)
      entry.losses.push_back(
          {"import", "kernel", device.graphs, kWholeGraphs, entry.window.start, entry.window.end});
  }
  if (entries.empty()) return entries;
  names.Move(process.api_calls);
  names.Move(process.ranges);
  names.Move(process.thread_names);
  for (capture::HostRange& range : process.ranges) range.domain = names.Of(range.domain);
  NestRanges(process.ranges);
  const std::shared_ptr<const capture::HostFrames> frames = TakeFrames(names, process, strings);
  AssignApiCallsToDevices(std::move(process.api_calls), entries);
  const capture::HostUnions unions{process.operators.Take(), process.data_loader.Take()};
  for (RankData& entry : entries) {
    entry.unions = unions;
    entry.frames = frames;
    entry.thread_names = process.thread_names;
    if (&entry != &entries.back()) entry.ranges = process.ranges;
  }
  entries.back().ranges = std::move(process.ranges);
  return entries;
}

}  // namespace lockstep::formats
