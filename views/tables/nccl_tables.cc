// What NCCL tells beside its kernels, where a capture asked for it (docs/nccl-and-nvtx.md): channels at work,
// operations of the network proxy, and where the GPU's own timer lies.
#include <optional>
#include <string_view>
#include <vector>

#include "views/tables/event_rows.h"
#include "views/tables/tables.h"

namespace lockstep::tables {
namespace {

using store::RankData;

std::optional<uint64_t> NumberOrNull(uint64_t number) {
  return number == 0 ? std::nullopt : std::optional(number);
}

std::unique_ptr<TableSource> ChannelTimings() {
  using R = Of<store::ChannelTiming>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"channel_timings",
                 "A channel of a communication kernel at work, where a capture asked for nccl-channels."},
      CountOf<store::ChannelTiming, &RankData::channel_timings>,
      EachOf<store::ChannelTiming, &RankData::channel_timings>,
      WithRank<R>({
          Make<R>("operation", "", "as in collective_instances of the same rank; null: not known",
                  [](const R& r) { return NumberOrNull(r.row->operation); }),
          Make<R>("channel", "", "NCCL's number", [](const R& r) { return r.row->channel; }),
          Start<R>(),
          Duration<R>(),
          Make<R>("on_gpu_clock", "", "the GPU stamped it; else NCCL's proxy thread did",
                  [](const R& r) { return r.row->on_gpu_clock; }),
      }));
}

template <auto member>
ColumnOf<Of<store::ProxyOp>> Waited(std::string_view name, std::string_view meaning) {
  return Make<Of<store::ProxyOp>>(name, "ns", meaning,
                                  [](const Of<store::ProxyOp>& r) { return r.row->*member; });
}

std::unique_ptr<TableSource> NetworkOperations() {
  using R = Of<store::ProxyOp>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"network_operations",
                 "A channel's share of an operation in NCCL's network proxy, where a capture asked for "
                 "nccl-proxy. Waits are sums over steps in flight together."},
      CountOf<store::ProxyOp, &RankData::proxy_ops>, EachOf<store::ProxyOp, &RankData::proxy_ops>,
      WithRank<R>({
          Make<R>("operation", "",
                  "as in collective_instances of the same rank; null: not known, or another process's",
                  [](const R& r) { return NumberOrNull(r.row->operation); }),
          Make<R>("group", "", "communicator; null: unknown",
                  [](const R& r) {
                    const auto& groups = r.in->capture.groups;
                    return r.row->group < groups.size()
                               ? std::optional<std::string_view>(groups[r.row->group].ShownName())
                               : std::nullopt;
                  }),
          Make<R>("peer", "", "rank in the group; null: unknown",
                  [](const R& r) { return r.row->peer < 0 ? std::nullopt : std::optional(r.row->peer); }),
          Make<R>("send", "", "else a receive", [](const R& r) { return r.row->is_send; }),
          Make<R>("channel", "", "NCCL's number", [](const R& r) { return r.row->channel; }),
          Start<R>(),
          Duration<R>(),
          Make<R>("bytes", "bytes", "moved", [](const R& r) { return r.row->bytes; }),
          Make<R>("steps", "", "as announced", [](const R& r) { return r.row->steps; }),
          Make<R>("steps_seen", "", "those the waits are summed over",
                  [](const R& r) { return r.row->steps_seen; }),
          Waited<&store::ProxyOp::gpu_wait>("gpu_wait_ns", "for the GPU to fill or empty a buffer"),
          Waited<&store::ProxyOp::peer_wait>("peer_wait_ns", "for the peer to have room"),
          Waited<&store::ProxyOp::network_wait>("network_wait_ns",
                                                "for the network to take or bring the data"),
          Waited<&store::ProxyOp::flush_wait>("flush_wait_ns", "for received data to reach the GPU's memory"),
      }));
}

struct TimerRow {
  const RankData* rank;
};

uint64_t CountTimers(const Input& in) {
  uint64_t rows = 0;
  for (const RankData& rank : in.capture.ranks) rows += rank.gpu_timer.kernels != 0 ? 1 : 0;
  return rows;
}

void EachTimer(const Input& in, RowSink<TimerRow>& out) {
  for (const RankData& rank : in.capture.ranks) {
    if (rank.gpu_timer.kernels != 0) out.Add({&rank});
  }
}

std::unique_ptr<TableSource> GpuTimers() {
  using R = TimerRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"gpu_timers",
                 "The host's clock less the GPU's own timer, by kernels of which both were seen."},
      CountTimers, EachTimer,
      WithRank<R>({
          Make<R>("offset_ns", "ns", "median over those kernels",
                  [](const R& r) { return r.rank->gpu_timer.offset; }),
          Make<R>("spread_ns", "ns", "median distance of those kernels from it",
                  [](const R& r) { return r.rank->gpu_timer.spread; }),
          Make<R>("kernels", "", "how many", [](const R& r) { return r.rank->gpu_timer.kernels; }),
      }));
}

}  // namespace

void AddNcclTables(Sources& out) {
  out.push_back(ChannelTimings());
  out.push_back(NetworkOperations());
  out.push_back(GpuTimers());
}

}  // namespace lockstep::tables
