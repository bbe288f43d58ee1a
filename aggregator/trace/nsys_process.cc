// TakeNsysRows(): the rows of a process as entries of a capture.
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aggregator/trace/deal_calls.h"
#include "aggregator/trace/nest_ranges.h"
#include "aggregator/trace/nsys_capture.h"

namespace lockstep::trace {
namespace {

using store::RankData;

constexpr char kWholeGraphs[] =
    "CUDA graphs recorded as wholes, without their kernels; record with --cuda-graph-trace=node";

// The file's names in the capture's table, each moved once.
class Names {
 public:
  Names(const store::StringTable& from, store::StringTable& to) : from_(from), to_(to) {}
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
  const store::StringTable& from_;
  store::StringTable& to_;
  absl::flat_hash_map<NameId, NameId> known_;
};

}  // namespace

std::vector<RankData> TakeNsysRows(const store::StringTable& from, NsysProcess& process, store::StringTable& strings) {
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
    if (device.graphs > 0) entry.losses.push_back({"import", "kernel", device.graphs, kWholeGraphs, entry.window.start, entry.window.end});
  }
  if (entries.empty()) return entries;
  names.Move(process.api_calls);
  names.Move(process.ranges);
  names.Move(process.thread_names);
  for (store::HostRange& range : process.ranges) range.domain = names.Of(range.domain);
  NestRanges(process.ranges);
  DealApiCalls(std::move(process.api_calls), entries);
  const store::HostUnions unions{process.operators.Take(), process.data_loader.Take()};
  for (RankData& entry : entries) {
    entry.unions = unions;
    entry.thread_names = process.thread_names;
    if (&entry != &entries.back()) entry.ranges = process.ranges;
  }
  entries.back().ranges = std::move(process.ranges);
  return entries;
}

}  // namespace lockstep::trace
