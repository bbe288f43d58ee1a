// The tables of NCCL's own records, if the capture requested them (docs/nccl-and-nvtx.md): channel timings,
// operations of the network proxy, and GPU timers.
#include <optional>
#include <string_view>
#include <vector>

#include "views/tables/event_rows.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

using capture::RankData;

std::optional<uint64_t> NumberOrNull(uint64_t number) {
  return number == 0 ? std::nullopt : std::optional(number);
}

std::unique_ptr<TableSource> ChannelTimings() {
  using R = Of<capture::ChannelTiming>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"channel_timings",
                 "Activity of a communication kernel's channel, if the capture has nccl-channels."},
      CountOf<capture::ChannelTiming, &RankData::channel_timings>,
      EachOf<capture::ChannelTiming, &RankData::channel_timings>,
      WithRank<R>({
          Make<R>("operation", "", "operation in collective_instances of the same rank; null: unknown",
                  [](const R& r) { return NumberOrNull(r.row->operation); }),
          Make<R>("channel", "", "NCCL's channel number", [](const R& r) { return r.row->channel; }),
          Start<R>(),
          Duration<R>(),
          Make<R>("on_gpu_clock", "", "true: stamped by the GPU; false: by NCCL's proxy thread",
                  [](const R& r) { return r.row->on_gpu_clock; }),
      }));
}

template <auto member>
ColumnOf<Of<capture::ProxyOp>> Waited(std::string_view name, std::string_view meaning) {
  return Make<Of<capture::ProxyOp>>(name, "ns", meaning,
                                    [](const Of<capture::ProxyOp>& r) { return r.row->*member; });
}

std::unique_ptr<TableSource> NetworkOperations() {
  using R = Of<capture::ProxyOp>;
  return std::make_unique<TableOf<R>>(
      TableTitle{"network_operations",
                 "A channel's share of an operation in NCCL's network proxy, if the capture has nccl-proxy. "
                 "Waits are sums over concurrent steps."},
      CountOf<capture::ProxyOp, &RankData::proxy_ops>, EachOf<capture::ProxyOp, &RankData::proxy_ops>,
      WithRank<R>({
          Make<R>("operation", "",
                  "operation in collective_instances of the same rank; null: unknown, or of another process",
                  [](const R& r) { return NumberOrNull(r.row->operation); }),
          Make<R>("communicator", "", "name of the communicator; null: unknown",
                  [](const R& r) {
                    const auto& groups = r.in->capture.groups;
                    return r.row->group < groups.size()
                               ? std::optional<std::string_view>(groups[r.row->group].ShownName())
                               : std::nullopt;
                  }),
          Make<R>("peer", "", "rank in the communicator; null: unknown",
                  [](const R& r) { return r.row->peer < 0 ? std::nullopt : std::optional(r.row->peer); }),
          Make<R>("send", "", "true: send; false: receive", [](const R& r) { return r.row->is_send; }),
          Make<R>("channel", "", "NCCL's channel number", [](const R& r) { return r.row->channel; }),
          Start<R>(),
          Duration<R>(),
          Make<R>("bytes", "bytes", "bytes moved", [](const R& r) { return r.row->bytes; }),
          Make<R>("steps", "", "announced number of steps", [](const R& r) { return r.row->steps; }),
          Make<R>("steps_seen", "", "number of steps in the sums of waits",
                  [](const R& r) { return r.row->steps_seen; }),
          Waited<&capture::ProxyOp::gpu_wait>("gpu_wait_ns", "waiting for the GPU to fill or empty a buffer"),
          Waited<&capture::ProxyOp::peer_wait>("peer_wait_ns", "waiting for free space at the peer"),
          Waited<&capture::ProxyOp::network_wait>("network_wait_ns",
                                                  "waiting for the network to send or deliver data"),
          Waited<&capture::ProxyOp::flush_wait>("flush_wait_ns",
                                                "waiting for received data to reach the GPU's memory"),
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
      TableTitle{"gpu_timers", "The host's clock minus the GPU's own timer, from kernels with both times."},
      CountTimers, EachTimer,
      WithRank<R>({
          Make<R>("offset_ns", "ns", "median over the kernels",
                  [](const R& r) { return r.rank->gpu_timer.offset; }),
          Make<R>("spread_ns", "ns", "median distance of the kernels from offset_ns",
                  [](const R& r) { return r.rank->gpu_timer.spread; }),
          Make<R>("kernels", "", "number of kernels", [](const R& r) { return r.rank->gpu_timer.kernels; }),
      }));
}

}  // namespace

void AddNcclTables(Sources& out) {
  out.push_back(ChannelTimings());
  out.push_back(NetworkOperations());
  out.push_back(GpuTimers());
}

}  // namespace lockstep::views
