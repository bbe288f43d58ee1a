// What Nsight Systems' tables have no place for, into the LOCKSTEP_ tables.
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "aggregator/trace/nsys_own_names.h"
#include "base/step_name.h"
#include "capture/model/copy_name.h"
#include "formats/nsys/nsys_schema.h"
#include "formats/nsys/nsys_writer.h"

namespace lockstep::trace {
namespace {

using store::Capture;
using store::RankData;

std::optional<int64_t> UnlessNegative(int64_t value) {
  return value < 0 ? std::nullopt : std::optional<int64_t>(value);
}
std::optional<int64_t> UnlessNone(uint32_t value) {
  return value == store::kNone ? std::nullopt : std::optional<int64_t>(value);
}
std::optional<double> UnlessUnknown(float value) {
  return value < 0 ? std::nullopt : std::optional<double>(value);
}

class OwnWriter {
 public:
  OwnWriter(const Capture& capture, NsysIdentity& identity, SqliteWriter& writer)
      : capture_(capture), identity_(identity), writer_(writer) {}

  void Write() {
    Meta();
    Hosts();
    Ranks();
    Clocks();
    Communicators();
    Collectives();
    Kernels();
    Copies();
    Ranges();
    HostUnionsOf();
    NcclTimings();
    Losses();
    Threads();
  }

 private:
  template <typename Each>
  void ForRanks(const Each& each) {
    for (size_t i = 0; i < capture_.ranks.size() && writer_.ok(); ++i) each(i, capture_.ranks[i]);
  }
  int64_t At(size_t rank, HostTime t) const { return identity_.FileTime(rank, t); }
  std::string_view Text(NameId id) const { return capture_.Text(id); }

  void Meta() {
    SqliteInsert insert(writer_, "LOCKSTEP_META", {"name", "value"});
    insert.Row(nsys::kMetaVersion, nsys::kOwnVersion);
    insert.Row(nsys::kMetaId, capture_.id);
    insert.Row(nsys::kMetaJob, capture_.job);
    insert.Row(nsys::kMetaSource, capture_.live ? "live" : "import");
    insert.Row(nsys::kMetaWorldSize, absl::StrCat(capture_.world_size));
    if (capture_.wanted_steps) {
      insert.Row(nsys::kMetaFirstStep, absl::StrCat(capture_.wanted_steps->first));
      insert.Row(nsys::kMetaSteps, absl::StrCat(capture_.wanted_steps->count));
    }
    for (const RankId rank : capture_.missing_ranks)
      insert.Row(nsys::kMetaMissingRank, absl::StrCat(rank.value()));
    for (const std::string& note : capture_.notes) insert.Row(nsys::kMetaNote, note);
  }

  void Hosts() {
    SqliteInsert hosts(writer_, "LOCKSTEP_HOSTS", {"id", "nodeId", "name"});
    SqliteInsert exchanges(writer_, "LOCKSTEP_CLOCK_EXCHANGES",
                           {"host", "t1", "t2", "t3", "t4", "monotonic"});
    for (uint32_t h = 0; h < capture_.hosts.size(); ++h) {
      hosts.Row(h, capture_.hosts[h].id, capture_.hosts[h].name);
      for (const store::ClockExchange& e : capture_.hosts[h].exchanges) {
        exchanges.Row(h, e.t1.ns(), e.t2.ns(), e.t3.ns(), e.t4.ns(), e.monotonic.ns());
      }
    }
  }

  void Ranks() {
    SqliteInsert insert(writer_, "LOCKSTEP_RANKS",
                        {"id", "rank", "host", "deviceId", "globalPid", "pid", "incarnation", "program",
                         "rankSource", "windowStart", "windowEnd", "clockShiftNs", "hasRanges", "gpuId",
                         "unseenGraphLaunches", "gpuTimerOffset", "gpuTimerSpread", "gpuTimerKernels"});
    ForRanks([&](size_t i, const RankData& r) {
      const NsysEntry& entry = identity_.Of(i);
      const bool timed = r.gpu_timer.kernels > 0;
      insert.Row(
          i, r.rank.value(), UnlessNone(r.host), r.device.value(), entry.global_pid, r.pid, r.incarnation,
          r.program, r.rank_source, At(i, r.window.start), At(i, r.window.end), entry.shift.ns(),
          entry.has_ranges, r.has_properties ? std::optional<int64_t>(static_cast<int64_t>(i)) : std::nullopt,
          r.unseen_graph_launches, timed ? std::optional<int64_t>(r.gpu_timer.offset.ns()) : std::nullopt,
          timed ? std::optional<int64_t>(r.gpu_timer.spread.ns()) : std::nullopt, r.gpu_timer.kernels);
    });
  }

  void Clocks() {
    SqliteInsert insert(writer_, "LOCKSTEP_CLOCK_READINGS",
                        {"rankId", "realtime", "monotonic", "monotonicRaw", "tsc", "cupti", "gap"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const store::ClockReading& c : rank.clocks) {
        insert.Row(i, c.realtime.ns(), c.monotonic.ns(), c.monotonic_raw_ns, c.tsc, c.cupti.ns(), c.gap.ns());
      }
    });
  }

  void Communicators() {
    SqliteInsert insert(writer_, "LOCKSTEP_COMMUNICATORS", {"id", "key", "name", "size", "origin"});
    SqliteInsert members(writer_, "LOCKSTEP_MEMBERS", {"communicator", "place", "rank"});
    for (size_t g = 0; g < capture_.groups.size(); ++g) {
      const store::Group& group = capture_.groups[g];
      insert.Row(g, group.key, group.name, group.size, nsys::NameOf(nsys::kOriginNames, group.origin));
      for (size_t place = 0; place < group.members.size(); ++place)
        members.Row(g, place, group.members[place].value());
    }
  }

  void Collectives() {
    SqliteInsert insert(writer_, "LOCKSTEP_COLLECTIVES",
                        {"rankId", "rank", "start", "end", "deviceId", "streamId", "correlationId",
                         "globalPid", "communicator", "op", "matchedBy", "sequence", "bytes", "root", "peer",
                         "datatype", "reduction", "operation"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const store::Collective& c : rank.collectives) {
        if (c.activity >= rank.activities.size()) continue;
        const store::DeviceActivity& a = rank.activities[c.activity];
        const auto name = [&](NameId id) {
          return id == kNoName ? std::nullopt : std::optional<std::string_view>(Text(id));
        };
        insert.Row(i, rank.rank.value(), At(i, a.start), At(i, a.end), rank.device.value(), a.stream.value(),
                   a.correlation.value(), identity_.Of(i).global_pid, UnlessNone(c.group),
                   store::CollectiveOpName(c.op), nsys::NameOf(nsys::kMatchNames, c.source),
                   UnlessNegative(c.sequence), UnlessNegative(c.bytes), UnlessNegative(c.root),
                   UnlessNegative(c.peer), name(c.datatype), name(c.reduction),
                   c.operation == 0 ? std::nullopt : std::optional<uint64_t>(c.operation));
      }
    });
  }

  void Kernels() {
    SqliteInsert insert(writer_, "LOCKSTEP_KERNELS",
                        {"rankId", "start", "end", "streamId", "correlationId", "blocksPerSm", "warpsPerSm",
                         "occupancyPercent"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const store::DeviceActivity& a : rank.activities) {
        if (a.kind != store::ActivityKind::kKernel || a.detail >= rank.kernel_details.size()) continue;
        const store::KernelDetail& d = rank.kernel_details[a.detail];
        if (d.blocks_per_sm < 0 && d.warps_per_sm < 0 && d.occupancy_percent < 0) continue;
        insert.Row(i, At(i, a.start), At(i, a.end), a.stream.value(), a.correlation.value(),
                   UnlessUnknown(d.blocks_per_sm), UnlessUnknown(d.warps_per_sm),
                   UnlessUnknown(d.occupancy_percent));
      }
    });
  }

  void Copies() {
    SqliteInsert insert(writer_, "LOCKSTEP_COPIES",
                        {"rankId", "start", "end", "streamId", "correlationId", "nameId"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const store::DeviceActivity& a : rank.activities) {
        if (a.kind == store::ActivityKind::kKernel || a.name == kNoName) continue;
        if (a.detail < rank.copy_details.size() &&
            Text(a.name) == store::CopyName(a.kind, rank.copy_details[a.detail]))
          continue;
        insert.Row(i, At(i, a.start), At(i, a.end), a.stream.value(), a.correlation.value(), a.name.value());
      }
    });
  }

  void Ranges() {
    SqliteInsert insert(writer_, "LOCKSTEP_RANGES",
                        {"globalTid", "start", "end", "text", "kind", "startUnknown"});
    ForRanks([&](size_t i, const RankData& rank) {
      if (!identity_.Of(i).writes_ranges) return;
      for (const store::HostRange& r : rank.ranges) {
        uint64_t number = 0;
        const auto told =
            NamesStep(Text(r.name), &number) ? store::RangeKind::kStep : store::RangeKind::kUser;
        if (r.kind == told && !r.start_unknown) continue;
        insert.Row(identity_.GlobalTid(i, r.thread), At(i, r.start), At(i, r.end), Text(r.name),
                   nsys::NameOf(nsys::kRangeNames, r.kind), r.start_unknown);
      }
    });
  }

  void HostUnionsOf() {
    SqliteInsert insert(writer_, "LOCKSTEP_HOST_TIME", {"rankId", "kind", "start", "end"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const HostInterval& t : rank.unions.operators)
        insert.Row(i, nsys::kOperators, At(i, t.start), At(i, t.end));
      for (const HostInterval& t : rank.unions.data_loader)
        insert.Row(i, nsys::kDataLoader, At(i, t.start), At(i, t.end));
    });
  }

  void NcclTimings() {
    SqliteInsert channels(writer_, "LOCKSTEP_CHANNELS",
                          {"rankId", "start", "end", "operation", "channel", "onGpuClock"});
    SqliteInsert proxy(
        writer_, "LOCKSTEP_PROXY_OPS",
        {"rankId", "start", "end", "operation", "communicator", "peer", "channel", "steps", "stepsSeen",
         "bytes", "gpuWaitNs", "peerWaitNs", "networkWaitNs", "flushWaitNs", "isSend"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const store::ChannelTiming& c : rank.channel_timings) {
        channels.Row(i, At(i, c.start), At(i, c.end), c.operation, c.channel, c.on_gpu_clock);
      }
      for (const store::ProxyOp& p : rank.proxy_ops) {
        proxy.Row(i, At(i, p.start), At(i, p.end), p.operation, UnlessNone(p.group), p.peer, p.channel,
                  p.steps, p.steps_seen, p.bytes, p.gpu_wait.ns(), p.peer_wait.ns(), p.network_wait.ns(),
                  p.flush_wait.ns(), p.is_send);
      }
    });
  }

  void Losses() {
    SqliteInsert insert(writer_, "LOCKSTEP_LOSSES",
                        {"rankId", "stage", "kind", "records", "reason", "start", "end"});
    ForRanks([&](size_t i, const RankData& rank) {
      for (const store::Loss& l : rank.losses)
        insert.Row(i, l.stage, l.kind, l.records, l.reason, At(i, l.from), At(i, l.to));
    });
  }

  void Threads() {
    SqliteInsert insert(writer_, "LOCKSTEP_THREADS", {"globalTid", "thread"});
    for (const auto& [thread, global] : identity_.threads()) insert.Row(global, thread.second);
  }

  const Capture& capture_;
  NsysIdentity& identity_;
  SqliteWriter& writer_;
};

}  // namespace

void WriteOwnTables(const Capture& capture, NsysIdentity& identity, SqliteWriter& writer) {
  OwnWriter(capture, identity, writer).Write();
}

}  // namespace lockstep::trace
