// What was recorded, a row each, and kernels summed by name. Starts are on the job's clock, durations are the
// rank's own.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "views/tables/event_rows.h"
#include "views/tables/tables.h"

namespace lockstep::tables {
namespace {

using store::ActivityKind;
using store::RankData;

struct KernelSum {
  const RankData* rank;
  std::string_view name;
  bool communication = false;
  uint64_t count = 0;
  Nanos total, least = Nanos::Max(), most;
};

void EachKernelSum(const Input& in, RowSink<KernelSum>& out) {
  for (const RankData& rank : in.capture.ranks) {
    absl::flat_hash_map<NameId, KernelSum> sums;
    for (const store::DeviceActivity& a : rank.activities) {
      if (a.kind != ActivityKind::kKernel) continue;
      const Nanos duration = a.end - a.start;
      KernelSum& sum = sums[a.name];
      sum.communication = a.communication;
      ++sum.count;
      sum.total += duration;
      sum.least = std::min(sum.least, duration);
      sum.most = std::max(sum.most, duration);
    }
    std::vector<KernelSum> rows;
    for (auto& entry : sums) {
      entry.second.rank = &rank;
      entry.second.name = in.capture.Text(entry.first);
      rows.push_back(entry.second);
    }
    std::sort(rows.begin(), rows.end(), [](const KernelSum& a, const KernelSum& b) {
      return a.total != b.total ? a.total > b.total : a.name < b.name;
    });
    for (const KernelSum& row : rows) out.Add(row);
  }
}

std::unique_ptr<TableSource> Kernels() {
  using R = KernelSum;
  return std::make_unique<TableOf<R>>(
      TableTitle{"kernels", "Kernels of one name on one rank, summed; the most costly first."},
      CountOf<store::DeviceActivity, &RankData::activities>, EachKernelSum,
      WithRank<R>({
          Make<R>("name", "", "of the kernel; null: unknown",
                  [](const R& r) { return r.name.empty() ? std::nullopt : std::optional(r.name); }),
          Make<R>("communication", "", "metadata first, name second, the user's rule third",
                  [](const R& r) { return r.communication; }),
          Make<R>("count", "", "how often it ran", [](const R& r) { return r.count; }),
          Make<R>("total_ns", "ns", "sum of durations", [](const R& r) { return r.total; }),
          Make<R>(
              "mean_ns", "ns", "mean duration",
              [](const R& r) { return static_cast<double>(r.total.ns()) / static_cast<double>(r.count); }),
          Make<R>("min_ns", "ns", "shortest", [](const R& r) { return r.least; }),
          Make<R>("max_ns", "ns", "longest", [](const R& r) { return r.most; }),
      }));
}

using ActivityRow = Of<store::DeviceActivity>;

// Kernels have one, copies and sets have the other.
const store::KernelDetail* KernelOf(const ActivityRow& r) {
  const bool has = r.row->kind == ActivityKind::kKernel && r.row->detail < r.rank->kernel_details.size();
  return has ? &r.rank->kernel_details[r.row->detail] : nullptr;
}
const store::CopyDetail* CopyOf(const ActivityRow& r) {
  const bool has = r.row->kind != ActivityKind::kKernel && r.row->detail < r.rank->copy_details.size();
  return has ? &r.rank->copy_details[r.row->detail] : nullptr;
}

std::string_view KindName(ActivityKind kind) {
  constexpr std::string_view kNames[] = {"kernel", "memcpy", "memset"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<uint32_t> GraphOf(const ActivityRow& r) {
  const store::KernelDetail* kernel = KernelOf(r);
  const store::CopyDetail* copy = CopyOf(r);
  const uint32_t graph = kernel != nullptr ? kernel->graph : copy != nullptr ? copy->graph : 0;
  return graph == 0 ? std::nullopt : std::optional(graph);
}

std::optional<uint64_t> GraphNodeOf(const ActivityRow& r) {
  if (!GraphOf(r)) return std::nullopt;
  const store::KernelDetail* kernel = KernelOf(r);
  return kernel != nullptr ? kernel->graph_node : CopyOf(r)->graph_node;
}

std::optional<uint32_t> ContextOf(const ActivityRow& r) {
  const store::KernelDetail* kernel = KernelOf(r);
  const store::CopyDetail* copy = CopyOf(r);
  const uint32_t context = kernel != nullptr ? kernel->context.value()
                           : copy != nullptr ? copy->context.value()
                                             : 0;
  return context == 0 ? std::nullopt : std::optional(context);
}

// No kernel does without any: a source that did not tell left a 0.
std::optional<uint16_t> RegistersOf(const ActivityRow& r) {
  const store::KernelDetail* kernel = KernelOf(r);
  return kernel == nullptr || kernel->registers == 0 ? std::nullopt : std::optional(kernel->registers);
}

template <uint32_t axis>
std::optional<uint32_t> GridOf(const ActivityRow& r) {
  const store::KernelDetail* d = KernelOf(r);
  return d == nullptr ? std::nullopt : std::optional(d->grid[axis]);
}
template <uint32_t axis>
std::optional<uint16_t> BlockOf(const ActivityRow& r) {
  const store::KernelDetail* d = KernelOf(r);
  return d == nullptr ? std::nullopt : std::optional(d->block[axis]);
}
template <auto member>
auto KernelMember(const ActivityRow& r) {
  const store::KernelDetail* d = KernelOf(r);
  return d == nullptr ? std::nullopt : std::optional(d->*member);
}

std::unique_ptr<TableSource> DeviceActivities() {
  using R = ActivityRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"device_activities", "Everything the devices did: kernels, copies, sets."},
      CountOf<store::DeviceActivity, &RankData::activities>,
      EachOf<store::DeviceActivity, &RankData::activities>,
      WithRank<R>({
          Make<R>("stream", "", "CUPTI's number", [](const R& r) { return r.row->stream; }),
          Make<R>("kind", "", "kernel, memcpy, memset", [](const R& r) { return KindName(r.row->kind); }),
          Make<R>("name", "", "of the kernel; of a copy what it goes from and to",
                  [](const R& r) { return r.Text(r.row->name); }),
          Start<R>(),
          Duration<R>(),
          Make<R>("communication", "", "metadata first, name second, the user's rule third",
                  [](const R& r) { return r.row->communication; }),
          Make<R>("correlation", "", "the call in api_calls that started it",
                  [](const R& r) { return CorrelationOrNull(r.row->correlation); }),
          Make<R>("bytes", "bytes", "copied or set",
                  [](const R& r) {
                    return CopyOf(r) == nullptr ? std::nullopt : std::optional(CopyOf(r)->bytes);
                  }),
          Make<R>("context", "", "CUPTI's number", Named<ContextOf>()),
          Make<R>("graph", "", "CUDA graph it is of", Named<GraphOf>()),
          Make<R>("graph_node", "", "node of that", Named<GraphNodeOf>()),
          Make<R>("grid_x", "", "blocks", Named<GridOf<0>>()),
          Make<R>("grid_y", "", "blocks", Named<GridOf<1>>()),
          Make<R>("grid_z", "", "blocks", Named<GridOf<2>>()),
          Make<R>("block_x", "", "threads", Named<BlockOf<0>>()),
          Make<R>("block_y", "", "threads", Named<BlockOf<1>>()),
          Make<R>("block_z", "", "threads", Named<BlockOf<2>>()),
          Make<R>("registers", "", "per thread", Named<RegistersOf>()),
          Make<R>("static_shared_bytes", "bytes", "per block",
                  Named<KernelMember<&store::KernelDetail::static_shared_bytes>>()),
          Make<R>("dynamic_shared_bytes", "bytes", "per block",
                  Named<KernelMember<&store::KernelDetail::dynamic_shared_bytes>>()),
      }));
}

std::unique_ptr<TableSource> ApiCalls() {
  using R = Of<store::ApiCall>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"api_calls", "CUDA calls of host threads."}, CountOf<store::ApiCall, &RankData::api_calls>,
      EachOf<store::ApiCall, &RankData::api_calls>,
      WithRank<R>({
          Make<R>("thread", "", "the kernel's thread id, or the trace's own",
                  [](const R& r) { return r.row->thread; }),
          Make<R>("api", "", "runtime or driver",
                  [](const R& r) { return std::string_view(r.row->driver ? "driver" : "runtime"); }),
          Make<R>("name", "", "of the function", [](const R& r) { return r.Text(r.row->name); }),
          Start<R>(),
          Duration<R>(),
          Make<R>("correlation", "", "what device_activities name it by",
                  [](const R& r) { return CorrelationOrNull(r.row->correlation); }),
          Make<R>("cbid", "", "CUPTI's number of the function", [](const R& r) { return r.row->cbid; }),
      }));
}

std::string_view RangeKindName(store::RangeKind kind) {
  constexpr std::string_view kNames[] = {"user", "step", "operator"};
  return kNames[static_cast<size_t>(kind)];
}

std::unique_ptr<TableSource> Ranges() {
  using R = Of<store::HostRange>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"ranges", "Named stretches of host threads: NVTX ranges, annotations, steps."},
      CountOf<store::HostRange, &RankData::ranges>, EachOf<store::HostRange, &RankData::ranges>,
      WithRank<R>({
          Make<R>("thread", "", "the kernel's thread id, or the trace's own",
                  [](const R& r) { return r.row->thread; }),
          Make<R>("kind", "", "user, step, operator", [](const R& r) { return RangeKindName(r.row->kind); }),
          Make<R>("domain", "", "NVTX domain; null: the default one",
                  [](const R& r) { return r.Text(r.row->domain); }),
          Make<R>("name", "", "of the range", [](const R& r) { return r.Text(r.row->name); }),
          Start<R>(),
          Duration<R>(),
          Make<R>("depth", "", "ranges around it", [](const R& r) { return r.row->depth; }),
          Make<R>("start_unknown", "", "it began before the window",
                  [](const R& r) { return r.row->start_unknown; }),
          Make<R>("end_unknown", "", "it ended after the window",
                  [](const R& r) { return r.row->end_unknown; }),
      }));
}

std::string_view PoolName(store::MemoryPoolType type) {
  constexpr std::string_view kNames[] = {"none", "own", "imported"};
  return kNames[std::min<size_t>(static_cast<size_t>(type), std::size(kNames) - 1)];
}

template <auto member>
std::optional<uint64_t> OfOwnPool(const Of<store::MemoryOp>& r) {
  return r.row->pool == store::MemoryPoolType::kOwn ? std::optional(r.row->*member) : std::nullopt;
}

std::unique_ptr<TableSource> MemoryOperations() {
  using R = Of<store::MemoryOp>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"memory_operations", "cudaMalloc, cudaFree and their like, where a capture asked for them."},
      CountOf<store::MemoryOp, &RankData::memory_ops>, EachOf<store::MemoryOp, &RankData::memory_ops>,
      WithRank<R>({
          Make<R>("time_ns", "ns", "Unix time on the job's clock",
                  [](const R& r) { return r.At(r.row->time); }),
          Make<R>("release", "", "else an allocation", [](const R& r) { return r.row->release; }),
          Make<R>("address", "", "of the memory", [](const R& r) { return r.row->address; }),
          Make<R>("bytes", "bytes", "of the memory", [](const R& r) { return r.row->bytes; }),
          Make<R>("memory_kind", "", "CUPTI's number", [](const R& r) { return r.row->memory_kind; }),
          Make<R>("correlation", "", "the call in api_calls",
                  [](const R& r) { return CorrelationOrNull(r.row->correlation); }),
          Make<R>("stream", "", "null: not asynchronous",
                  [](const R& r) {
                    return r.row->stream.value() == store::kNone ? std::nullopt
                                                                 : std::optional(r.row->stream.value());
                  }),
          Make<R>("pool", "", "none, own, imported", [](const R& r) { return PoolName(r.row->pool); }),
          Make<R>("pool_bytes", "bytes", "of a pool of the process's own",
                  Named<OfOwnPool<&store::MemoryOp::pool_bytes>>()),
      }));
}

}  // namespace

void AddEventTables(Sources& out) {
  out.push_back(Kernels());
  out.push_back(DeviceActivities());
  out.push_back(ApiCalls());
  out.push_back(Ranges());
  out.push_back(MemoryOperations());
}

}  // namespace lockstep::tables
