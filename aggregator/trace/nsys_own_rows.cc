#include "aggregator/trace/nsys_own_rows.h"

#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aggregator/trace/nsys_own_names.h"

namespace lockstep::trace {
namespace {

using store::Capture;
using store::RankData;

// Which activity a row of ours means: entry, start, end, stream, correlation, and whether it is a kernel.
using ActivityKey = std::tuple<size_t, int64_t, int64_t, StreamId, CorrelationId, bool>;

class OwnRows {
 public:
  OwnRows(const SqliteDatabase& database, const OwnIndex& index, NsysFile& file, Capture& capture)
      : database_(database),
        index_(index),
        file_(file),
        losses_(file.losses),
        strings_(database, file),
        capture_(capture) {}

  void Read() {
    FindActivities();
    Collectives();
    Occupancies();
    CopyNames();
    Clocks();
    HostTimes();
    Channels();
    ProxyOps();
    Losses();
  }

 private:
  // The entry that the row names, where its other cells can be used too.
  RankData* Entry(TableScan& scan, size_t column) {
    const auto id = scan.IntegerOr<int64_t>(column, -1);
    if (!scan.Usable()) return nullptr;
    const auto it = index_.place_of.find(id);
    if (it != index_.place_of.end()) return &capture_.ranks[it->second];
    scan.Refuse("it names a rank that is not there");
    return nullptr;
  }
  size_t PlaceOf(const RankData& rank) const { return static_cast<size_t>(&rank - capture_.ranks.data()); }
  HostTime HostStamp(const RankData& rank, int64_t file_time) const {
    return index_.HostStamp(PlaceOf(rank), file_time);
  }

  ActivityKey Key(const RankData& rank, HostTime start, HostTime end, StreamId stream,
                  CorrelationId correlation, bool kernel) const {
    return {PlaceOf(rank), start.ns(), end.ns(), stream, correlation, kernel};
  }

  void FindActivities() {
    for (const RankData& rank : capture_.ranks) {
      for (uint32_t i = 0; i < rank.activities.size(); ++i) {
        const store::DeviceActivity& a = rank.activities[i];
        activities_.try_emplace(
            Key(rank, a.start, a.end, a.stream, a.correlation, a.kind == store::ActivityKind::kKernel), i);
      }
    }
  }

  enum class Named { kKernel, kCopy };
  // The row's cells that say which activity it means, from `first` on: start, end, stream, correlation. All
  // are looked at before anything is made of them.
  struct Reference {
    int64_t start, end;
    StreamId stream;
    CorrelationId correlation;
  };
  Reference ReadReference(TableScan& scan) {
    return {FarIn(scan, 1), FarIn(scan, 2), StreamId(scan.IntegerOr<uint32_t>(3, 0)),
            CorrelationId(scan.IntegerOr<uint32_t>(4, 0))};
  }
  // nullptr, and counted: there is no such activity.
  store::DeviceActivity* Find(TableScan& scan, RankData& rank, const Reference& r, Named named) {
    const auto it = activities_.find(Key(rank, HostStamp(rank, r.start), HostStamp(rank, r.end), r.stream,
                                         r.correlation, named == Named::kKernel));
    if (it != activities_.end()) return &rank.activities[it->second];
    scan.Refuse(named == Named::kKernel ? "there is no such kernel" : "there is no such copy");
    return nullptr;
  }

  void Collectives() {
    constexpr const char* kColumns[] = {"rankId",       "start", "end",       "streamId",  "correlationId",
                                        "communicator", "op",    "matchedBy", "sequence",  "bytes",
                                        "root",         "peer",  "datatype",  "reduction", "operation"};
    TableScan scan(database_, "LOCKSTEP_COLLECTIVES", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      const Reference reference = ReadReference(scan);
      store::Collective c;
      c.group = index_.Group(scan.Integer(5));
      c.op = store::CollectiveOpFromText(scan.Text(6));
      c.source = nsys::ValueOf<store::MatchSource>(nsys::kMatchNames, scan.Text(7))
                     .value_or(store::MatchSource::kOrder);
      c.sequence = scan.IntegerOr<int64_t>(8, -1);
      c.bytes = scan.IntegerOr<int64_t>(9, -1);
      c.root = scan.IntegerOr<int32_t>(10, -1);
      c.peer = scan.IntegerOr<int32_t>(11, -1);
      c.datatype = capture_.strings.Intern(std::string(scan.Text(12)));
      c.reduction = capture_.strings.Intern(std::string(scan.Text(13)));
      c.operation = static_cast<uint64_t>(scan.IntegerOr<int64_t>(14, 0));
      RankData* rank = Entry(scan, 0);
      if (rank == nullptr) continue;
      store::DeviceActivity* a = Find(scan, *rank, reference, Named::kKernel);
      if (a == nullptr) continue;
      c.activity = static_cast<uint32_t>(a - rank->activities.data());
      a->communication = true;
      if (a->collective == store::kNone) a->collective = static_cast<uint32_t>(rank->collectives.size());
      rank->collectives.push_back(c);
    }
  }

  void Occupancies() {
    constexpr const char* kColumns[] = {"rankId",        "start",       "end",        "streamId",
                                        "correlationId", "blocksPerSm", "warpsPerSm", "occupancyPercent"};
    TableScan scan(database_, "LOCKSTEP_KERNELS", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      const Reference reference = ReadReference(scan);
      const auto blocks = static_cast<float>(scan.RealOr(5, -1));
      const auto warps = static_cast<float>(scan.RealOr(6, -1));
      const auto occupancy = static_cast<float>(scan.RealOr(7, -1));
      RankData* rank = Entry(scan, 0);
      if (rank == nullptr) continue;
      store::DeviceActivity* a = Find(scan, *rank, reference, Named::kKernel);
      if (a == nullptr) continue;
      if (a->detail == store::kNone) {
        a->detail = static_cast<uint32_t>(rank->kernel_details.size());
        rank->kernel_details.emplace_back();
      }
      store::KernelDetail& d = rank->kernel_details[a->detail];
      d.blocks_per_sm = blocks;
      d.warps_per_sm = warps;
      d.occupancy_percent = occupancy;
    }
  }

  void CopyNames() {
    constexpr const char* kColumns[] = {"rankId", "start", "end", "streamId", "correlationId", "nameId"};
    TableScan scan(database_, "LOCKSTEP_COPIES", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      const Reference reference = ReadReference(scan);
      const auto name = scan.IntegerOr<int64_t>(5, 0);
      RankData* rank = Entry(scan, 0);
      store::DeviceActivity* a = rank == nullptr ? nullptr : Find(scan, *rank, reference, Named::kCopy);
      if (a != nullptr)
        a->name = capture_.strings.Intern(std::string(file_.strings.Text(strings_.Name(name))));
    }
  }

  void Clocks() {
    constexpr const char* kColumns[] = {"rankId", "realtime", "monotonic", "monotonicRaw",
                                        "tsc",    "cupti",    "gap"};
    TableScan scan(database_, "LOCKSTEP_CLOCK_READINGS", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      store::ClockReading c;
      c.realtime = HostTime(FarIn(scan, 1));
      c.monotonic = MonoTime(FarIn(scan, 2));
      c.monotonic_raw_ns = FarIn(scan, 3);
      c.tsc = static_cast<uint64_t>(scan.IntegerOr<int64_t>(4, 0));
      c.cupti = HostTime(FarIn(scan, 5));
      c.gap = Nanos(FarIn(scan, 6));
      if (RankData* rank = Entry(scan, 0)) rank->clocks.push_back(c);
    }
  }

  void HostTimes() {
    constexpr const char* kColumns[] = {"rankId", "kind", "start", "end"};
    TableScan scan(database_, "LOCKSTEP_HOST_TIME", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      const bool loader = scan.Text(1) == nsys::kDataLoader;
      const int64_t start = FarIn(scan, 2);
      const int64_t end = FarIn(scan, 3);
      RankData* rank = Entry(scan, 0);
      if (rank == nullptr) continue;
      (loader ? rank->unions.data_loader : rank->unions.operators)
          .push_back({HostStamp(*rank, start), HostStamp(*rank, end)});
    }
  }

  void Channels() {
    constexpr const char* kColumns[] = {"rankId", "start", "end", "operation", "channel", "onGpuClock"};
    TableScan scan(database_, "LOCKSTEP_CHANNELS", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      store::ChannelTiming c;
      const int64_t start = FarIn(scan, 1);
      const int64_t end = FarIn(scan, 2);
      c.operation = static_cast<uint64_t>(scan.IntegerOr<int64_t>(3, 0));
      c.channel = scan.IntegerOr<uint32_t>(4, 0);
      c.on_gpu_clock = scan.IntegerOr<int64_t>(5, 0) != 0;
      RankData* rank = Entry(scan, 0);
      if (rank == nullptr) continue;
      c.start = HostStamp(*rank, start);
      c.end = HostStamp(*rank, end);
      rank->channel_timings.push_back(c);
    }
  }

  void ProxyOps() {
    constexpr const char* kColumns[] = {
        "rankId",    "start", "end",       "operation",  "communicator",  "peer",        "channel", "steps",
        "stepsSeen", "bytes", "gpuWaitNs", "peerWaitNs", "networkWaitNs", "flushWaitNs", "isSend"};
    TableScan scan(database_, "LOCKSTEP_PROXY_OPS", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      store::ProxyOp p;
      const int64_t start = FarIn(scan, 1);
      const int64_t end = FarIn(scan, 2);
      p.operation = static_cast<uint64_t>(scan.IntegerOr<int64_t>(3, 0));
      p.group = index_.Group(scan.Integer(4));
      p.peer = scan.IntegerOr<int32_t>(5, -1);
      p.channel = scan.IntegerOr<uint32_t>(6, 0);
      p.steps = scan.IntegerOr<uint32_t>(7, 0);
      p.steps_seen = scan.IntegerOr<uint32_t>(8, 0);
      p.bytes = static_cast<uint64_t>(scan.IntegerOr<int64_t>(9, 0));
      p.gpu_wait = Nanos(FarIn(scan, 10));
      p.peer_wait = Nanos(FarIn(scan, 11));
      p.network_wait = Nanos(FarIn(scan, 12));
      p.flush_wait = Nanos(FarIn(scan, 13));
      p.is_send = scan.IntegerOr<int64_t>(14, 0) != 0;
      RankData* rank = Entry(scan, 0);
      if (rank == nullptr) continue;
      p.start = HostStamp(*rank, start);
      p.end = HostStamp(*rank, end);
      rank->proxy_ops.push_back(p);
    }
  }

  void Losses() {
    constexpr const char* kColumns[] = {"rankId", "stage", "kind", "records", "reason", "start", "end"};
    TableScan scan(database_, "LOCKSTEP_LOSSES", kColumns, std::size(kColumns), losses_);
    while (scan.Next()) {
      store::Loss loss;
      loss.stage = std::string(scan.Text(1));
      loss.kind = std::string(scan.Text(2));
      loss.records = static_cast<uint64_t>(scan.IntegerOr<int64_t>(3, 0));
      loss.reason = std::string(scan.Text(4));
      const int64_t from = FarIn(scan, 5);
      const int64_t to = FarIn(scan, 6);
      RankData* rank = Entry(scan, 0);
      if (rank == nullptr) continue;
      loss.from = HostStamp(*rank, from);
      loss.to = HostStamp(*rank, to);
      rank->losses.push_back(std::move(loss));
    }
  }

  const SqliteDatabase& database_;
  const OwnIndex& index_;
  NsysFile& file_;
  TableLosses& losses_;
  NsysStrings strings_;
  Capture& capture_;
  absl::flat_hash_map<ActivityKey, uint32_t> activities_;
};

}  // namespace

void ReadOwnRows(const SqliteDatabase& database, const OwnIndex& index, NsysFile& file, Capture& capture) {
  OwnRows(database, index, file, capture).Read();
}

}  // namespace lockstep::trace
