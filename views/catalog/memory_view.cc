// lockstep memory: torch-tb-profiler's memory view.
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/host/memory.h"

namespace lockstep::tables {
namespace {

constexpr std::string_view kEvents = "events";
constexpr std::string_view kCurve = "curve";

constexpr SubTable kTables[] = {
    {"operators", "what each operator allocated and released",
     "rank,device,name,calls,increase_bytes,self_increase_bytes,allocations,self_allocations,allocated_bytes,"
     "self_allocated_bytes"},
    {kEvents, "every allocation with its release",
     "rank,device,kind,operator,size_bytes,allocated_ns,released_ns,life_ns"},
    {kCurve, "how much was in use after each allocation and release",
     "rank,device,kind,time_ns,in_use_bytes,reserved_bytes,peak_bytes"},
};

// Where a rank's times begin; each is looked for once.
class Begins {
 public:
  explicit Begins(const store::Capture& capture) : capture_(capture) {}
  HostTime Of(RankId rank) {
    const auto [it, fresh] = begins_.try_emplace(rank);
    if (fresh) it->second = BeginOf(capture_, rank);
    return it->second;
  }

 private:
  const store::Capture& capture_;
  std::map<RankId, HostTime> begins_;
};

std::string DeviceName(const views::MemoryPlace& place) {
  return place.device < 0 ? "host" : absl::StrCat("GPU", place.device);
}

Grid Operators(std::vector<views::OperatorMemory> rows) {
  using R = views::OperatorMemory;
  return GridOf<R>({"memory_operators", "What each operator allocated and released."}, std::move(rows),
                   {
                       Make<R>("rank", "", "whose", [](const R& r) { return r.place.rank; }),
                       Make<R>("device", "", "host, GPU0, …", [](const R& r) { return DeviceName(r.place); }),
                       Make<R>("name", "", "of the operator", [](const R& r) { return r.name; }),
                       Make<R>("calls", "", "how often it ran", [](const R& r) { return r.calls; }),
                       Make<R>("increase_bytes", "bytes", "allocated less released, with what it called",
                               [](const R& r) { return r.increase; }),
                       Make<R>("self_increase_bytes", "bytes", "allocated less released by itself",
                               [](const R& r) { return r.self_increase; }),
                       Make<R>("allocations", "", "how many, with what it called",
                               [](const R& r) { return r.allocations; }),
                       Make<R>("self_allocations", "", "how many by itself",
                               [](const R& r) { return r.self_allocations; }),
                       Make<R>("allocated_bytes", "bytes", "releases not taken off, with what it called",
                               [](const R& r) { return r.allocated; }),
                       Make<R>("self_allocated_bytes", "bytes", "releases not taken off, by itself",
                               [](const R& r) { return r.self_allocated; }),
                   });
}

struct LifeRow {
  views::MemoryLife life;
  HostTime begin;
};

std::optional<Nanos> Since(const std::optional<HostTime>& time, HostTime begin) {
  return time ? std::optional(*time - begin) : std::nullopt;
}

Grid Events(std::vector<LifeRow> rows) {
  using R = LifeRow;
  return GridOf<R>(
      {"memory_events", "Every allocation with its release."}, std::move(rows),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.life.place.rank; }),
          Make<R>("device", "", "host, GPU0, …", [](const R& r) { return DeviceName(r.life.place); }),
          Make<R>("kind", "", "caching allocator: PyTorch's; else what CUDA was asked for",
                  [](const R& r) { return r.life.kind; }),
          Make<R>("operator", "",
                  "that allocated it, its caller where it is an aten::empty; the call for CUDA's memory; "
                  "null: not told",
                  [](const R& r) { return Known(r.life.by); }),
          Make<R>("size_bytes", "bytes", "of the piece", [](const R& r) { return r.life.bytes; }),
          Make<R>("allocated_ns", "ns", "since the rank's first stamp; null: before it",
                  [](const R& r) { return Since(r.life.allocated, r.begin); }),
          Make<R>("released_ns", "ns", "alike; null: not before the end",
                  [](const R& r) { return Since(r.life.released, r.begin); }),
          Make<R>("life_ns", "ns", "from the one to the other",
                  [](const R& r) {
                    return r.life.allocated ? Since(r.life.released, *r.life.allocated) : std::nullopt;
                  }),
          Make<R>("address", "", "of its first byte",
                  [](const R& r) { return absl::StrCat("0x", absl::Hex(r.life.address)); }),
      });
}

struct PointRow {
  views::MemoryPoint point;
  HostTime begin;
  int64_t peak;  // so far
};

Grid Curve(std::vector<PointRow> rows) {
  using R = PointRow;
  return GridOf<R>(
      {"memory_curve", "How much was in use after each allocation and release."}, std::move(rows),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.point.place.rank; }),
          Make<R>("device", "", "host, GPU0, …", [](const R& r) { return DeviceName(r.point.place); }),
          Make<R>("kind", "", "caching allocator: PyTorch's; else what CUDA was asked for",
                  [](const R& r) { return r.point.kind; }),
          Make<R>("time_ns", "ns", "since the rank's first stamp",
                  [](const R& r) { return r.point.time - r.begin; }),
          Make<R>("in_use_bytes", "bytes", "after it", [](const R& r) { return r.point.in_use; }),
          Make<R>("relative", "",
                  "is in_use_bytes counted from 0 at the begin, since the allocator did not tell",
                  [](const R& r) { return r.point.relative; }),
          Make<R>("reserved_bytes", "bytes", "held by the allocator; null: not told",
                  [](const R& r) { return r.point.reserved; }),
          Make<R>("peak_bytes", "bytes", "the most in use so far", [](const R& r) { return r.peak; }),
      });
}

std::vector<PointRow> WithPeaks(std::vector<views::MemoryPoint> points, Begins& begins) {
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
        "nothing tells of memory: record with torch.profiler's profile_memory=True, or ask for memory with "
        "`lockstep trace --activities` (docs/capture.md)"};
  }
  std::vector<std::string> notes;
  if (table == kEvents && memory.without_address > 0) {
    notes.push_back(absl::StrCat(memory.without_address, " of ", memory.allocator_events,
                                 " allocations and releases have no address (PyTorch before 1.10): which "
                                 "belong together cannot be told, so they are not "
                                 "listed"));
  }
  const bool relative = std::any_of(memory.curve.begin(), memory.curve.end(),
                                    [](const views::MemoryPoint& p) { return p.relative; });
  if (table == kCurve && relative)
    notes.push_back(
        "where the allocator did not tell what is in use, it is counted from 0 at the begin of the capture");
  if (table != kEvents && table != kCurve && memory.outside > 0) {
    notes.push_back(absl::StrCat(memory.outside, " of ", memory.allocator_events,
                                 " allocations and releases lie in no operator"));
  }
  if (table != kEvents && table != kCurve && memory.allocator_events == 0) {
    notes.push_back(
        "no allocator of PyTorch was recorded; `--table events` and `--table curve` show what CUDA was asked "
        "for");
  }
  return notes;
}

MadeView MakeMemory(const ViewInput& input, const ViewOptions& options) {
  views::Memory memory = views::MemoryOf(input.capture);
  std::vector<std::string> notes = Notes(memory, options.table);
  Begins begins(input.capture);
  if (options.table == kEvents) {
    std::vector<LifeRow> rows;
    for (views::MemoryLife& life : memory.lives) {
      const HostTime begin = begins.Of(life.place.rank);
      rows.push_back({std::move(life), begin});
    }
    return {Events(std::move(rows)), std::move(notes)};
  }
  if (options.table == kCurve) return {Curve(WithPeaks(std::move(memory.curve), begins)), std::move(notes)};
  return {Operators(std::move(memory.operators)), std::move(notes)};
}

// torch-tb-profiler's headings.
constexpr Alias kAliases[] = {
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
          .about = "what operators allocated, how long it lived, and how much was in use",
          .text =
              "torch-tb-profiler's memory view: PyTorch's allocator where it was recorded "
              "(profile_memory=True), and cudaMalloc, cudaFree and their\n"
              "like where a capture has them.\n",
          .groupings = {},
          .tables = kTables,
          .aliases = kAliases,
          .needs_frames = [](const ViewOptions&) { return true; },
          .make = &MakeMemory};
}

}  // namespace lockstep::tables
