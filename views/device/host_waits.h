// The host view: the work that threads waited for in synchronising calls.
//
// A profiler of the host charges this time to the synchronising call. Here it counts for the device work that
// the call waits for: work launched before the call, on the stream, event or device that it names. The length
// of a call is divided exactly, to the nanosecond:
//
//   compute + copy + transfer + other ranks + queued + latency + after == blocked
//
// Each instant counts for the running awaited activity that ends last. In a communication kernel, the part
// that the analysis found to be waiting counts for other ranks, and the rest for transfer. If no awaited
// activity runs, the instant counts for one of these:
//   - other ranks and transfer: awaited work is launched, but the device runs communication that was launched
//     before the call;
//   - queued: awaited work is launched, but the device runs compute or copies that were launched before the
//     call;
//   - latency: awaited work is launched, but the device runs nothing;
//   - after: all awaited work has ended.
#ifndef LOCKSTEP_VIEWS_DEVICE_HOST_WAITS_H_
#define LOCKSTEP_VIEWS_DEVICE_HOST_WAITS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/prepare/collectives.h"
#include "capture/model/capture.h"

namespace lockstep::views {

// A kernel or copy that was waited for, or that delayed awaited work, with the operator that launched it.
struct Awaited {
  std::string_view name;
  std::string_view launched_by;  // innermost operator; empty: unknown
  Nanos time;
};

// Sums over all calls of one name in one operator and one range of a thread.
struct HostWaitRow {
  RankId rank = kNoRank;
  ThreadId thread;
  std::string_view call;       // "cudaStreamSynchronize", …
  std::string_view called_by;  // outermost operator around it, such as "aten::item"; empty: none
  std::string_view range;      // innermost annotation around it; empty: none
  uint64_t calls = 0;
  Nanos blocked;
  Nanos compute, copy, transfer, queued, latency, after;
  std::optional<Nanos>
      other_ranks;               // nullopt: some communication could not be split, and counts as `transfer`
  std::vector<Awaited> awaited;  // longest first
};

struct HostWaits {
  std::vector<HostWaitRow> rows;  // longest blocked time first
  uint64_t unnamed = 0;  // calls with an unknown stream or event; they count as waits for the whole device
};

// `times` is the result of TimeCollectives() for `capture`. A call that copies counts if its copy ended
// during the call. Returns rows of the ranks in `only`; if it is empty, of all ranks.
HostWaits HostWaitsOf(const capture::Capture& capture, const analysis::CollectiveTimes& times,
                      const std::vector<RankId>& only);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_HOST_WAITS_H_
