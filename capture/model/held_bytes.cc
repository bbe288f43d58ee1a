#include "capture/model/held_bytes.h"

#include <algorithm>
#include <vector>

namespace lockstep::capture {
namespace {

template <typename T>
uint64_t BytesOf(const std::vector<T>& rows) {
  return rows.capacity() * sizeof(T);
}

}  // namespace

HeldBytes HeldBytesOf(const RankData& rank) {
  HeldBytes held;
  held.rows = BytesOf(rank.activities) + BytesOf(rank.api_calls) + BytesOf(rank.syncs) +
              BytesOf(rank.event_records) + BytesOf(rank.ranges) + BytesOf(rank.collectives) +
              BytesOf(rank.channel_timings) + BytesOf(rank.proxy_ops) + BytesOf(rank.memory_ops);
  held.other = BytesOf(rank.kernel_details) + BytesOf(rank.copy_details) + BytesOf(rank.clocks) +
               BytesOf(rank.unions.operators) + BytesOf(rank.unions.data_loader);
  if (rank.frames == nullptr) return held;
  // Entries of one process share its frames.
  const uint64_t frames =
      BytesOf(rank.frames->frames) + BytesOf(rank.frames->details) + BytesOf(rank.frames->allocations);
  held.other += frames / static_cast<uint64_t>(std::max<long>(1, rank.frames.use_count()));
  return held;
}

HeldBytes HeldBytesOf(const Capture& capture) {
  HeldBytes held;
  for (const RankData& rank : capture.ranks) {
    const HeldBytes of_rank = HeldBytesOf(rank);
    held.rows += of_rank.rows;
    held.other += of_rank.other;
  }
  return held;
}

}  // namespace lockstep::capture
