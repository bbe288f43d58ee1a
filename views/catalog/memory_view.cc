// lockstep memory: shows torch-tb-profiler's memory view.
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/host/memory.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kEvents = "events";
constexpr std::string_view kCurve = "curve";

constexpr SubTable kMemoryTables[] = {
    {"operators", "allocations and releases of each operator",
     "rank,device,name,calls,increase_bytes,self_increase_bytes,allocations,self_allocations,allocated_bytes,"
     "self_allocated_bytes"},
    {kEvents, "every allocation with its release",
     "rank,device,kind,operator,size_bytes,allocated_ns,released_ns,life_ns"},
    {kCurve, "memory in use after each allocation and release",
     "rank,device,kind,time_ns,in_use_bytes,reserved_bytes,peak_bytes"},
};

// Returns the begin of a rank's times, and looks for it once per rank.
class RankBegins {
 public:
  explicit RankBegins(const capture::Capture& capture) : capture_(capture) {}
  HostTime Of(RankId rank) {
    const auto [it, fresh] = begins_.try_emplace(rank);
    if (fresh) it->second = BeginOf(capture_, rank);
    return it->second;
  }

 private:
  const capture::Capture& capture_;
  std::map<RankId, HostTime> begins_;
};

std::string DeviceName(const views::MemoryPlace& place) {
  return place.device < 0 ? "host" : absl::StrCat("GPU", place.device);
}

Grid MemoryOperators(std::vector<views::OperatorMemory> rows) {
  using R = views::OperatorMemory;
  return GridOf<R>(
      {"memory_operators", "Allocations and releases of each operator."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.place.rank; }),
          Make<R>("device", "", "host, GPU0, …", [](const R& r) { return DeviceName(r.place); }),
          Make<R>("name", "", "name of the operator", [](const R& r) { return r.name; }),
          Make<R>("calls", "", "number of calls", [](const R& r) { return r.calls; }),
          Make<R>("increase_bytes", "bytes", "allocated minus released bytes, including called operators",
                  [](const R& r) { return r.increase; }),
          Make<R>("self_increase_bytes", "bytes", "allocated minus released bytes of the operator itself",
                  [](const R& r) { return r.self_increase; }),
          Make<R>("allocations", "", "number of allocations, including called operators",
                  [](const R& r) { return r.allocations; }),
          Make<R>("self_allocations", "", "number of allocations of the operator itself",
                  [](const R& r) { return r.self_allocations; }),
          Make<R>("allocated_bytes", "bytes", "allocated bytes, including called operators",
                  [](const R& r) { return r.allocated; }),
          Make<R>("self_allocated_bytes", "bytes", "allocated bytes of the operator itself",
                  [](const R& r) { return r.self_allocated; }),
      });
}

struct LifeRow {
  views::MemoryLife life;
  HostTime begin;
};

Grid Events(std::vector<LifeRow> rows) {
  using R = LifeRow;
  return GridOf<R>(
      {"memory_events", "Every allocation with its release."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.life.place.rank; }),
          Make<R>("device", "", "host, GPU0, …", [](const R& r) { return DeviceName(r.life.place); }),
          Make<R>("kind", "", "caching allocator: of PyTorch; otherwise the kind of CUDA memory",
                  [](const R& r) { return r.life.kind; }),
          Make<R>("operator", "",
                  "operator that allocated it, or the caller of an aten::empty; for CUDA's memory the call; "
                  "null: unknown",
                  [](const R& r) { return Known(r.life.by); }),
          Make<R>("size_bytes", "bytes", "size of the allocation", [](const R& r) { return r.life.bytes; }),
          Make<R>("allocated_ns", "ns", "time since the rank's first time stamp; null: earlier",
                  [](const R& r) { return Since(r.life.allocated, r.begin); }),
          Make<R>("released_ns", "ns",
                  "time since the rank's first time stamp; null: not released before the end",
                  [](const R& r) { return Since(r.life.released, r.begin); }),
          Make<R>("life_ns", "ns", "time from allocation to release",
                  [](const R& r) {
                    return r.life.allocated ? Since(r.life.released, *r.life.allocated) : std::nullopt;
                  }),
          Make<R>("address", "", "address of the first byte",
                  [](const R& r) { return absl::StrCat("0x", absl::Hex(r.life.address)); }),
      });
}

struct PointRow {
  views::MemoryPoint point;
  HostTime begin;
  int64_t peak;  // largest use so far, bytes
};

Grid Curve(std::vector<PointRow> rows) {
  using R = PointRow;
  return GridOf<R>(
      {"memory_curve", "Memory in use after each allocation and release."}, std::move(rows),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.point.place.rank; }),
          Make<R>("device", "", "host, GPU0, …", [](const R& r) { return DeviceName(r.point.place); }),
          Make<R>("kind", "", "caching allocator: of PyTorch; otherwise the kind of CUDA memory",
                  [](const R& r) { return r.point.kind; }),
          Make<R>("time_ns", "ns", "time since the rank's first time stamp",
                  [](const R& r) { return r.point.time - r.begin; }),
          Make<R>("in_use_bytes", "bytes", "memory in use after this event",
                  [](const R& r) { return r.point.in_use; }),
          Make<R>("relative", "",
                  "true if in_use_bytes counts from 0 at the begin, because the allocator reports no total",
                  [](const R& r) { return r.point.relative; }),
          Make<R>("reserved_bytes", "bytes", "memory that the allocator holds; null: unknown",
                  [](const R& r) { return r.point.reserved; }),
          Make<R>("peak_bytes", "bytes", "highest in_use_bytes so far", [](const R& r) { return r.peak; }),
      });
}

std::vector<PointRow> WithPeaks(std::vector<views::MemoryPoint> points, RankBegins& begins) {
  std::vector<PointRow> rows;
  for (views::MemoryPoint& point : points) {
    const bool same =
        !rows.empty() && rows.back().point.place == point.place && rows.back().point.kind == point.kind;
    const int64_t peak = same ? std::max(rows.back().peak, point.in_use) : point.in_use;
    rows.push_back({point, begins.Of(point.place.rank), peak});
  }
  return rows;
}

std::vector<std::string> Notes(const views::Memory& memory, std::string_view table) {
  if (memory.allocator_events == 0 && memory.runtime_calls == 0) {
    return {
        "the capture has no memory records: record with torch.profiler's profile_memory=True, or ask for "
        "memory with "
        "`lockstep trace --activities` (docs/capture.md)"};
  }
  std::vector<std::string> notes;
  if (table == kEvents && memory.without_address > 0) {
    notes.push_back(absl::StrCat(memory.without_address, " of ", memory.allocator_events,
                                 " allocations and releases have no address (PyTorch before 1.10): pairs are "
                                 "unknown, so they are not listed"));
  }
  const bool relative = std::any_of(memory.curve.begin(), memory.curve.end(),
                                    [](const views::MemoryPoint& p) { return p.relative; });
  if (table == kCurve && relative)
    notes.push_back(
        "where the allocator reports no total, memory in use counts from 0 at the begin of the capture");
  if (table != kEvents && table != kCurve && memory.outside > 0) {
    notes.push_back(absl::StrCat(memory.outside, " of ", memory.allocator_events,
                                 " allocations and releases are outside all operators"));
  }
  if (table != kEvents && table != kCurve && memory.allocator_events == 0) {
    notes.push_back(
        "PyTorch's allocator was not recorded; `--table events` and `--table curve` show CUDA's memory "
        "for");
  }
  return notes;
}

MadeView MakeMemory(const ViewInput& input, const ViewOptions& options) {
  views::Memory memory = views::MemoryOf(input.capture);
  std::vector<std::string> notes = Notes(memory, options.table);
  RankBegins begins(input.capture);
  if (options.table == kEvents) {
    std::vector<LifeRow> rows;
    for (views::MemoryLife& life : memory.lives) {
      const HostTime begin = begins.Of(life.place.rank);
      rows.push_back({std::move(life), begin});
    }
    return {Events(std::move(rows)), std::move(notes)};
  }
  if (options.table == kCurve) return {Curve(WithPeaks(std::move(memory.curve), begins)), std::move(notes)};
  return {MemoryOperators(std::move(memory.operators)), std::move(notes)};
}

// Headings of torch-tb-profiler.
constexpr Alias kMemoryAliases[] = {
    {"operator_name", "name"},
    {"size_increase", "increase_bytes"},
    {"self_size_increase", "self_increase_bytes"},
    {"allocation_count", "allocations"},
    {"self_allocation_count", "self_allocations"},
    {"allocation_size", "allocated_bytes"},
    {"self_allocation_size", "self_allocated_bytes"},
};

}  // namespace

View MemoryView() {
  return {.name = "memory",
          .about = "allocations of operators, their lifetime, and memory in use",
          .text =
              "torch-tb-profiler's memory view: PyTorch's allocator where it was recorded "
              "(profile_memory=True), and cudaMalloc, cudaFree and their\n"
              "like where a capture has them.\n",
          .groupings = {},
          .tables = kMemoryTables,
          .aliases = kMemoryAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .make = &MakeMemory};
}

}  // namespace lockstep::views
