#include "views/host/memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/prepare/launches.h"
#include "views/host/host_tree.h"

namespace lockstep::views {
namespace {

using capture::AllocationEvent;
using capture::HostFrames;
using capture::kNone;
using capture::RankData;

constexpr std::string_view kCachingAllocator = "caching allocator";

// The names of CUpti_ActivityMemoryKind.
std::string_view KindName(uint8_t kind) {
  constexpr std::string_view kNames[] = {"unknown", "pageable", "pinned",        "device",
                                         "array",   "managed",  "device static", "managed static"};
  return kind < std::size(kNames) ? kNames[kind] : kNames[0];
}

bool OnHost(std::string_view kind) { return kind == "pageable" || kind == "pinned"; }

struct Piece {
  MemoryPlace place;
  std::string_view kind;
  uint64_t address = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Piece& p) {
    return H::combine(std::move(h), p.place.rank, p.place.device, p.kind, p.address);
  }
};

// Pairs allocations with releases, and sums the memory in use. Events must come in the order of time.
class Ledger {
 public:
  explicit Ledger(Memory& out) : out_(out) {}

  void Allocate(const Piece& piece, std::string by, int64_t bytes, HostTime time) {
    if (piece.address == 0) return;
    // A second allocation at the same address means that the record of the release was lost.
    open_.insert_or_assign(piece, out_.lives.size());
    out_.lives.push_back({.place = piece.place,
                          .by = std::move(by),
                          .kind = piece.kind,
                          .bytes = bytes,
                          .address = piece.address,
                          .allocated = time});
  }
  void Release(const Piece& piece, std::string by, int64_t bytes, HostTime time) {
    if (piece.address == 0) return;
    const auto it = open_.find(piece);
    if (it != open_.end()) {
      out_.lives[it->second].released = time;
      open_.erase(it);
      return;
    }
    out_.lives.push_back({.place = piece.place,
                          .by = std::move(by),
                          .kind = piece.kind,
                          .bytes = bytes,
                          .address = piece.address,
                          .released = time});
  }
  // Returns the bytes of the allocation at that address that is not released.
  int64_t BytesAt(const Piece& piece) const {
    const auto it = open_.find(piece);
    return it == open_.end() ? 0 : out_.lives[it->second].bytes;
  }
  // `allocator_total` is the memory in use by the allocator's own count.
  void Point(const MemoryPlace& place, std::string_view kind, HostTime time, int64_t change,
             std::optional<int64_t> allocator_total, std::optional<int64_t> reserved) {
    int64_t& sum = sums_[{place, kind}];
    sum += change;
    out_.curve.push_back({.place = place,
                          .kind = kind,
                          .time = time,
                          .in_use = allocator_total.value_or(sum),
                          .relative = !allocator_total,
                          .reserved = reserved});
  }

 private:
  Memory& out_;
  absl::flat_hash_map<Piece, size_t> open_;  // place in Memory::lives
  std::map<std::pair<MemoryPlace, std::string_view>, int64_t> sums_;
};

class MemoryBuilder {
 public:
  explicit MemoryBuilder(const capture::Capture& capture) : capture_(capture), ledger_(out_) {}

  void Add(const Process& process) {
    if (process.frames != nullptr && !process.frames->allocations.empty()) AddAllocator(process);
    for (const uint32_t entry : process.entries) AddRuntimeCalls(capture_.ranks[entry]);
  }

  Memory Take() {
    std::stable_sort(
        out_.operators.begin(), out_.operators.end(), [](const OperatorMemory& a, const OperatorMemory& b) {
          return std::tie(a.place, b.self_increase, a.name) < std::tie(b.place, a.self_increase, b.name);
        });
    const auto when = [](const MemoryLife& life) {
      return life.allocated ? *life.allocated : *life.released;
    };
    std::stable_sort(out_.lives.begin(), out_.lives.end(), [&](const MemoryLife& a, const MemoryLife& b) {
      return std::tuple(a.place, when(a)) < std::tuple(b.place, when(b));
    });
    std::stable_sort(out_.curve.begin(), out_.curve.end(), [](const MemoryPoint& a, const MemoryPoint& b) {
      return std::tie(a.place, a.kind, a.time) < std::tie(b.place, b.kind, b.time);
    });
    return std::move(out_);
  }

 private:
  struct Sums {
    int64_t increase = 0, allocated = 0;
    uint64_t allocations = 0;
    void Add(const Sums& more) {
      increase += more.increase;
      allocated += more.allocated;
      allocations += more.allocations;
    }
  };

  void AddAllocator(const Process& process) {
    const HostFrames& frames = *process.frames;
    const HostTree tree = BuildHostTree(capture_, process, FrameKinds{capture::FrameKind::kOperator});
    std::map<int32_t, std::vector<Sums>> of_device;  // by node
    for (const AllocationEvent& event : frames.allocations) {
      ++out_.allocator_events;
      if (event.address == 0) ++out_.without_address;
      const uint32_t node = tree.At(frames, event.thread, event.time);
      if (node == kNone) {
        ++out_.outside;
      } else {
        auto& sums = of_device.try_emplace(event.device, tree.nodes.size()).first->second;
        sums[node].Add({.increase = event.bytes,
                        .allocated = std::max<int64_t>(event.bytes, 0),
                        .allocations = event.bytes > 0 ? 1u : 0u});
      }
      AddEvent(process, tree, node, event);
    }
    std::map<std::string_view, uint64_t> calls;
    for (const HostNode& node : tree.nodes) ++calls[NameOf(frames, node)];
    for (const auto& [device, self] : of_device)
      AddOperators({process.rank, device}, frames, tree, self, calls);
  }

  std::string_view NameOf(const HostFrames& frames, const HostNode& node) const {
    return capture_.Text(frames.frames[node.frame].name);
  }

  void AddEvent(const Process& process, const HostTree& tree, uint32_t node, const AllocationEvent& event) {
    const Piece piece{{process.rank, event.device}, kCachingAllocator, event.address};
    ledger_.Point(piece.place, piece.kind, event.time, event.bytes, event.allocated, event.reserved);
    std::string by;
    if (node != kNone) {
      by = NameOf(*process.frames, tree.nodes[node]);
      // aten::empty is PyTorch's malloc, so the operator that called it says more.
      const uint32_t parent = tree.nodes[node].parent;
      if (by.starts_with("aten::empty") && parent != kNone)
        by = absl::StrCat(std::string(NameOf(*process.frames, tree.nodes[parent])), " (", by, ")");
    }
    if (event.bytes > 0) {
      ledger_.Allocate(piece, std::move(by), event.bytes, event.time);
    } else {
      // The operator that releases is often not the one that allocated.
      ledger_.Release(piece, "", -event.bytes, event.time);
    }
  }

  void AddOperators(const MemoryPlace& place, const HostFrames& frames, const HostTree& tree,
                    const std::vector<Sums>& self, const std::map<std::string_view, uint64_t>& calls) {
    std::vector<Sums> total = self;
    for (size_t i = total.size(); i-- > 0;) {
      if (tree.nodes[i].parent != kNone) total[tree.nodes[i].parent].Add(total[i]);
    }
    std::map<std::string_view, OperatorMemory> rows;
    for (size_t i = 0; i < total.size(); ++i) {
      // A call that released all its allocations has an increase of 0, but it allocated.
      if (total[i].allocations == 0 && total[i].increase == 0) continue;
      OperatorMemory& row = rows[NameOf(frames, tree.nodes[i])];
      row.increase += total[i].increase;
      row.self_increase += self[i].increase;
      row.allocations += total[i].allocations;
      row.self_allocations += self[i].allocations;
      row.allocated += total[i].allocated;
      row.self_allocated += self[i].allocated;
    }
    for (auto& [name, row] : rows) {
      row.place = place;
      row.name = name;
      row.calls = calls.at(name);
      out_.operators.push_back(row);
    }
  }

  void AddRuntimeCalls(const RankData& rank) {
    const analysis::CallIndex calls(rank);
    for (const capture::MemoryOp& op : rank.memory_ops) {
      ++out_.runtime_calls;
      const std::string_view kind = KindName(op.memory_kind);
      const Piece piece{
          {rank.rank, OnHost(kind) ? -1 : static_cast<int32_t>(rank.device.value())}, kind, op.address};
      const uint32_t call = calls.Of(op.correlation);
      std::string by(call == kNone ? std::string_view() : capture_.Text(rank.api_calls[call].name));
      // A record of cudaFree has no size.
      const auto bytes = static_cast<int64_t>(op.bytes);
      const int64_t released = op.release && bytes == 0 ? ledger_.BytesAt(piece) : bytes;
      const std::optional<int64_t> reserved = op.pool == capture::MemoryPoolType::kOwn
                                                  ? std::optional(static_cast<int64_t>(op.pool_bytes))
                                                  : std::nullopt;
      ledger_.Point(piece.place, kind, op.time, op.release ? -released : bytes, std::nullopt, reserved);
      if (op.release) {
        ledger_.Release(piece, std::move(by), released, op.time);
      } else {
        ledger_.Allocate(piece, std::move(by), bytes, op.time);
      }
    }
  }

  const capture::Capture& capture_;
  Memory out_;
  Ledger ledger_;
};

}  // namespace

Memory MemoryOf(const capture::Capture& capture) {
  MemoryBuilder builder(capture);
  for (const Process& process : ProcessesOf(capture)) builder.Add(process);
  return builder.Take();
}

}  // namespace lockstep::views
