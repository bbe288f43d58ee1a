// The tables of recorded rows, and of kernels summed by name. Starts are on the job's clock; durations are on
// the rank's own clock.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "views/tables/event_rows.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

using capture::ActivityKind;
using capture::RankData;

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
    for (const capture::DeviceActivity& a : rank.activities) {
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
      CountOf<capture::DeviceActivity, &RankData::activities>, EachKernelSum,
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

using ActivityRow = Of<capture::DeviceActivity>;

// Kernels have a KernelDetail; copies and sets have a CopyDetail.
const capture::KernelDetail* KernelOf(const ActivityRow& r) {
  const bool has = r.row->kind == ActivityKind::kKernel && r.row->detail < r.rank->kernel_details.size();
  return has ? &r.rank->kernel_details[r.row->detail] : nullptr;
}
const capture::CopyDetail* CopyOf(const ActivityRow& r) {
  const bool has = r.row->kind != ActivityKind::kKernel && r.row->detail < r.rank->copy_details.size();
  return has ? &r.rank->copy_details[r.row->detail] : nullptr;
}

std::string_view KindName(ActivityKind kind) {
  constexpr std::string_view kNames[] = {"kernel", "memcpy", "memset"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<uint32_t> GraphOf(const ActivityRow& r) {
  const capture::KernelDetail* kernel = KernelOf(r);
  const capture::CopyDetail* copy = CopyOf(r);
  const uint32_t graph = kernel != nullptr ? kernel->graph : copy != nullptr ? copy->graph : 0;
  return graph == 0 ? std::nullopt : std::optional(graph);
}

std::optional<uint64_t> GraphNodeOf(const ActivityRow& r) {
  if (!GraphOf(r)) return std::nullopt;
  const capture::KernelDetail* kernel = KernelOf(r);
  return kernel != nullptr ? kernel->graph_node : CopyOf(r)->graph_node;
}

std::optional<uint32_t> ContextOf(const ActivityRow& r) {
  const capture::KernelDetail* kernel = KernelOf(r);
  const capture::CopyDetail* copy = CopyOf(r);
  const uint32_t context = kernel != nullptr ? kernel->context.value()
                           : copy != nullptr ? copy->context.value()
                                             : 0;
  return context == 0 ? std::nullopt : std::optional(context);
}

template <uint32_t axis>
std::optional<uint32_t> GridOf(const ActivityRow& r) {
  const capture::KernelDetail* d = KernelOf(r);
  return d == nullptr ? std::nullopt : std::optional(d->grid[axis]);
}
template <uint32_t axis>
std::optional<uint16_t> BlockOf(const ActivityRow& r) {
  const capture::KernelDetail* d = KernelOf(r);
  return d == nullptr ? std::nullopt : std::optional(d->block[axis]);
}
// For the columns of KEPT fields (wire/fields/records.def).
enum class Zero { kZeroIsValue, kZeroIsUnknown };
template <Zero zero, typename Value>
auto KeptValue(Value value) {
  if constexpr (zero == Zero::kZeroIsUnknown) {
    return value == 0 ? std::nullopt : std::optional(value);
  } else {
    return value;
  }
}

template <Zero zero, auto member>
auto KernelValue(const ActivityRow& r) {
  const capture::KernelDetail* d = KernelOf(r);
  using Value = std::remove_cvref_t<decltype(d->*member)>;
  return d == nullptr ? std::nullopt : std::optional<Value>(KeptValue<zero>(d->*member));
}

std::vector<ColumnOf<ActivityRow>> KernelColumns() {
  return {
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) \
  Make<ActivityRow>(#member, unit, meaning, Named<KernelValue<Zero::zero, &capture::KernelDetail::member>>()),
#include "wire/fields/kernel.def"
  };
}

std::vector<ColumnOf<Of<capture::ApiCall>>> ApiColumns() {
  using R = Of<capture::ApiCall>;
  return {
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) \
  Make<R>(#member, unit, meaning, [](const R& r) { return KeptValue<Zero::zero>(r.row->member); }),
#include "wire/fields/api.def"
  };
}

std::vector<ColumnOf<Of<capture::MemoryOp>>> MemoryColumns() {
  using R = Of<capture::MemoryOp>;
  return {
#define KEPT(type, member, column, text, index, encoding, zero, unit, meaning) \
  Make<R>(#member, unit, meaning, [](const R& r) { return KeptValue<Zero::zero>(r.row->member); }),
#include "wire/fields/memory_op.def"
  };
}

// The columns of all lists, in their order.
template <typename R>
std::vector<ColumnOf<R>> Joined(std::initializer_list<std::vector<ColumnOf<R>>> lists) {
  std::vector<ColumnOf<R>> columns;
  for (const std::vector<ColumnOf<R>>& list : lists) columns.insert(columns.end(), list.begin(), list.end());
  return columns;
}

std::unique_ptr<TableSource> DeviceActivities() {
  using R = ActivityRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"device_activities", "Everything the devices did: kernels, copies, sets."},
      CountOf<capture::DeviceActivity, &RankData::activities>,
      EachOf<capture::DeviceActivity, &RankData::activities>,
      WithRank<R>(Joined<R>(
          {{
               Make<R>("stream", "", "CUPTI's number", [](const R& r) { return r.row->stream; }),
               Make<R>("kind", "", "kernel, memcpy, memset",
                       [](const R& r) { return KindName(r.row->kind); }),
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
           },
           KernelColumns()})));
}

std::unique_ptr<TableSource> ApiCalls() {
  using R = Of<capture::ApiCall>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"api_calls", "CUDA calls of host threads."}, CountOf<capture::ApiCall, &RankData::api_calls>,
      EachOf<capture::ApiCall, &RankData::api_calls>,
      WithRank<R>(Joined<R>(
          {{
               Make<R>("thread", "", "the kernel's thread id, or the trace's own",
                       [](const R& r) { return r.row->thread; }),
               Make<R>("api", "", "runtime or driver",
                       [](const R& r) { return std::string_view(r.row->driver ? "driver" : "runtime"); }),
               Make<R>("name", "", "of the function", [](const R& r) { return r.Text(r.row->name); }),
               Start<R>(),
               Duration<R>(),
               Make<R>("correlation", "", "what device_activities name it by",
                       [](const R& r) { return CorrelationOrNull(r.row->correlation); }),
           },
           ApiColumns()})));
}

std::string_view RangeKindName(capture::RangeKind kind) {
  constexpr std::string_view kNames[] = {"user", "step", "operator"};
  return kNames[static_cast<size_t>(kind)];
}

std::unique_ptr<TableSource> Ranges() {
  using R = Of<capture::HostRange>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"ranges", "Named stretches of host threads: NVTX ranges, annotations, steps."},
      CountOf<capture::HostRange, &RankData::ranges>, EachOf<capture::HostRange, &RankData::ranges>,
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

std::string_view PoolName(capture::MemoryPoolType type) {
  constexpr std::string_view kNames[] = {"none", "own", "imported"};
  return kNames[std::min<size_t>(static_cast<size_t>(type), std::size(kNames) - 1)];
}

template <auto member>
std::optional<uint64_t> OfOwnPool(const Of<capture::MemoryOp>& r) {
  return r.row->pool == capture::MemoryPoolType::kOwn ? std::optional(r.row->*member) : std::nullopt;
}

std::unique_ptr<TableSource> MemoryOperations() {
  using R = Of<capture::MemoryOp>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"memory_operations", "cudaMalloc, cudaFree and their like, where a capture asked for them."},
      CountOf<capture::MemoryOp, &RankData::memory_ops>, EachOf<capture::MemoryOp, &RankData::memory_ops>,
      WithRank<R>(Joined<R>(
          {{
               Make<R>("time_ns", "ns", "Unix time on the job's clock",
                       [](const R& r) { return r.At(r.row->time); }),
               Make<R>("release", "", "else an allocation", [](const R& r) { return r.row->release; }),
           },
           MemoryColumns(),
           {
               Make<R>("correlation", "", "the call in api_calls",
                       [](const R& r) { return CorrelationOrNull(r.row->correlation); }),
               Make<R>("stream", "", "null: not asynchronous",
                       [](const R& r) {
                         return r.row->stream.value() == capture::kNone
                                    ? std::nullopt
                                    : std::optional(r.row->stream.value());
                       }),
               Make<R>("pool", "", "none, own, imported", [](const R& r) { return PoolName(r.row->pool); }),
               Make<R>("pool_bytes", "bytes", "of a pool of the process's own",
                       Named<OfOwnPool<&capture::MemoryOp::pool_bytes>>()),
           }})));
}

}  // namespace

void AddEventTables(Sources& out) {
  out.push_back(Kernels());
  out.push_back(DeviceActivities());
  out.push_back(ApiCalls());
  out.push_back(Ranges());
  out.push_back(MemoryOperations());
}

}  // namespace lockstep::views
