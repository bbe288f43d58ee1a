// The host view: what threads that stood still in a synchronising call really waited for.
//
// A profiler of the host blames the call that synchronises; the time is that of the device work it waits for.
// A call waits for what was launched before it on the stream, the event or the device that it names. Its
// length is cut, to the nanosecond, into
//
//   compute + copy + transfer + other ranks + queued + latency + after == blocked
//
// At each moment the running awaited activity that ends last is what is waited for; of a communication kernel
// the part that the analysis found to be waiting goes to other ranks, the rest to transfer. Queued: awaited
// work is launched and does not run, and the device runs other work that was launched before the call.
// Latency: it runs nothing. After: all awaited work has ended.
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_HOST_WAITS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_HOST_WAITS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// A kernel or copy that was waited for, or that awaited work stood behind, and the operator that launched it.
struct Awaited {
  std::string_view name;
  std::string_view launched_by;  // innermost operator; empty: not known
  Nanos time;
};

// Of all calls of one name in one operator and range of a thread.
struct HostWaitRow {
  RankId rank = kNoRank;
  ThreadId thread;
  std::string_view call;       // "cudaStreamSynchronize", …
  std::string_view called_by;  // outermost operator around it, "aten::item"; empty: none
  std::string_view range;      // innermost annotation around it; empty: none
  uint64_t calls = 0;
  Nanos blocked;
  Nanos compute, copy, transfer, queued, latency, after;
  std::optional<Nanos>
      other_ranks;  // nullopt: some of the communication could not be split, and is all in `transfer`
  std::vector<Awaited> awaited;  // the most time first
};

struct HostWaits {
  std::vector<HostWaitRow> rows;  // the most blocked time first
  uint64_t unnamed =
      0;  // calls whose stream or event is not told: they were taken to wait for the whole device
};

// `times` as TimeCollectives() gives them for `capture`. Copies that block are there where the device was
// still working in them. Rows of `only`; all ranks where it is empty.
HostWaits HostWaitsOf(const store::Capture& capture, const analysis::CollectiveTimes& times,
                      const std::vector<RankId>& only);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_HOST_WAITS_H_
