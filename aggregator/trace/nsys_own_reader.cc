#include "aggregator/trace/nsys_own_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "aggregator/trace/nsys_own_names.h"
#include "aggregator/trace/nsys_own_rows.h"
#include "formats/nsys/nsys_capture.h"
#include "formats/nsys/nsys_rows.h"
#include "formats/nsys/nsys_schema.h"

namespace lockstep::trace {
namespace {

using store::Capture;
using store::RankData;

// 18 years, forwards or backwards.
constexpr int64_t kFarthestShift = kFarthestNsysTime / 4;

std::optional<int64_t> NumberIn(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

class OwnReader {
 public:
  OwnReader(const SqliteDatabase& database, NsysFile file, const std::string& path)
      : database_(database), file_(std::move(file)), path_(path) {
    index_.base = file_.base;
  }

  Capture Read() {
    Strings();
    Meta();
    Hosts();
    Communicators();
    Threads();
    Ranges();
    Ranks();
    if (capture_.ranks.empty()) return std::move(capture_);
    ReadOwnRows(database_, index_, file_, capture_);
    AddNsysLosses(file_, path_, capture_.ranks.front());
    return std::move(capture_);
  }

 private:
  // In the order of their numbers, so that names have the numbers that they had: sums over them come out the
  // same to the last bit.
  void Strings() {
    constexpr const char* kColumns[] = {"value"};
    TableScan scan(database_, "StringIds", kColumns, 1, file_.losses);
    while (scan.Next()) {
      const std::string text(scan.Text(0));
      if (scan.Usable()) capture_.strings.Intern(text);
    }
  }

  void Meta() {
    constexpr const char* kColumns[] = {"name", "value"};
    TableScan scan(database_, "LOCKSTEP_META", kColumns, 2, file_.losses);
    std::optional<int64_t> first_step, steps;
    while (scan.Next()) {
      const std::string_view name = scan.Text(0);
      const std::string value(scan.Text(1));
      const std::optional<int64_t> number = NumberIn(value);
      if (name == nsys::kMetaId) capture_.id = value;
      if (name == nsys::kMetaJob) capture_.job = value;
      if (name == nsys::kMetaSource) capture_.live = value == "live";
      if (name == nsys::kMetaNote) capture_.notes.push_back(value);
      if (!number || *number < 0) continue;
      const auto small =
          static_cast<int32_t>(std::min<int64_t>(*number, std::numeric_limits<int32_t>::max()));
      if (name == nsys::kMetaWorldSize) capture_.world_size = small;
      if (name == nsys::kMetaMissingRank) capture_.missing_ranks.push_back(RankId(small));
      if (name == nsys::kMetaFirstStep) first_step = number;
      if (name == nsys::kMetaSteps) steps = number;
    }
    if (first_step && steps)
      capture_.wanted_steps = {static_cast<uint64_t>(*first_step), static_cast<uint64_t>(*steps)};
  }

  void Hosts() {
    constexpr const char* kHost[] = {"id", "nodeId", "name"};
    TableScan scan(database_, "LOCKSTEP_HOSTS", kHost, 3, file_.losses);
    while (scan.Next()) {
      const auto id = scan.IntegerOr<int64_t>(0, 0);
      store::Host host{.id = std::string(scan.Text(1)), .name = std::string(scan.Text(2))};
      if (!scan.Usable()) continue;
      hosts_.try_emplace(id, static_cast<uint32_t>(capture_.hosts.size()));
      capture_.hosts.push_back(std::move(host));
    }
    constexpr const char* kExchange[] = {"host", "t1", "t2", "t3", "t4", "monotonic"};
    TableScan exchanges(database_, "LOCKSTEP_CLOCK_EXCHANGES", kExchange, 6, file_.losses);
    while (exchanges.Next()) {
      const auto host = hosts_.find(exchanges.IntegerOr<int64_t>(0, -1));
      const store::ClockExchange e{HostTime(FarIn(exchanges, 1)), JobTime(FarIn(exchanges, 2)),
                                   JobTime(FarIn(exchanges, 3)), HostTime(FarIn(exchanges, 4)),
                                   MonoTime(FarIn(exchanges, 5))};
      if (exchanges.Usable() && host != hosts_.end()) capture_.hosts[host->second].exchanges.push_back(e);
    }
  }

  void Communicators() {
    constexpr const char* kGroup[] = {"id", "key", "name", "size", "origin"};
    TableScan scan(database_, "LOCKSTEP_COMMUNICATORS", kGroup, 5, file_.losses);
    while (scan.Next()) {
      store::Group group;
      const auto id = scan.IntegerOr<int64_t>(0, 0);
      group.key = std::string(scan.Text(1));
      group.name = std::string(scan.Text(2));
      group.size = scan.IntegerOr<int32_t>(3, 0);
      group.origin = nsys::ValueOf<store::GroupOrigin>(nsys::kOriginNames, scan.Text(4))
                         .value_or(store::GroupOrigin::kStated);
      if (!scan.Usable()) continue;
      index_.groups.try_emplace(id, static_cast<uint32_t>(capture_.groups.size()));
      capture_.groups.push_back(std::move(group));
    }
    // In the order of their places, as they were written.
    constexpr const char* kMember[] = {"communicator", "rank"};
    TableScan members(database_, "LOCKSTEP_MEMBERS", kMember, 2, file_.losses);
    while (members.Next()) {
      const uint32_t group = index_.Group(members.IntegerOr<int64_t>(0, -1));
      const RankId rank(members.IntegerOr<int32_t>(1, -1));
      if (members.Usable() && group != store::kNone) capture_.groups[group].members.push_back(rank);
    }
  }

  void Threads() {
    constexpr const char* kColumns[] = {"globalTid", "thread"};
    TableScan scan(database_, "LOCKSTEP_THREADS", kColumns, 2, file_.losses);
    while (scan.Next()) {
      const auto global = scan.IntegerOr<int64_t>(0, 0);
      const ThreadId thread(scan.IntegerOr<int64_t>(1, 0));
      if (scan.Usable()) threads_.try_emplace(global, thread);
    }
  }

  struct RangeNote {
    store::RangeKind kind = store::RangeKind::kUser;
    bool start_unknown = false;
  };

  void Ranges() {
    constexpr const char* kColumns[] = {"globalTid", "start", "text", "kind", "startUnknown"};
    TableScan scan(database_, "LOCKSTEP_RANGES", kColumns, 5, file_.losses);
    while (scan.Next()) {
      const auto thread = scan.IntegerOr<int64_t>(0, 0);
      const int64_t start = FarIn(scan, 1);
      std::string text(scan.Text(2));
      const auto kind = nsys::ValueOf<store::RangeKind>(nsys::kRangeNames, scan.Text(3));
      const bool start_unknown = scan.IntegerOr<int64_t>(4, 0) != 0;
      if (scan.Usable() && kind) range_notes_[{thread, start, std::move(text)}] = {*kind, start_unknown};
    }
  }

  void Ranks() {
    for (auto& [pid, process] : file_.processes) {
      std::vector<RankData> entries = TakeNsysRows(file_.strings, process, capture_.strings);
      for (RankData& entry : entries) rows_.try_emplace({pid, entry.device}, std::move(entry));
    }
    constexpr const char* kColumns[] = {"id",
                                        "rank",
                                        "host",
                                        "deviceId",
                                        "globalPid",
                                        "pid",
                                        "incarnation",
                                        "program",
                                        "rankSource",
                                        "windowStart",
                                        "windowEnd",
                                        "clockShiftNs",
                                        "hasRanges",
                                        "gpuId",
                                        "unseenGraphLaunches",
                                        "gpuTimerOffset",
                                        "gpuTimerSpread",
                                        "gpuTimerKernels"};
    TableScan scan(database_, "LOCKSTEP_RANKS", kColumns, std::size(kColumns), file_.losses);
    while (scan.Next()) Rank(scan);
  }

  void Rank(TableScan& scan) {
    const auto id = scan.IntegerOr<int64_t>(0, 0);
    const DeviceId device(scan.IntegerOr<uint32_t>(3, 0));
    const auto global_pid = scan.IntegerOr<int64_t>(4, 0);
    const int64_t shift = std::clamp(FarIn(scan, 11), -kFarthestShift, kFarthestShift);
    const bool has_ranges = scan.IntegerOr<int64_t>(12, 0) != 0;
    const auto rows = rows_.find({global_pid, device});
    RankData rank = rows != rows_.end() ? std::move(rows->second) : RankData();
    rank.rank = RankId(scan.IntegerOr<int32_t>(1, -1));
    const std::optional<int64_t> host = scan.Integer(2);
    if (const auto known = host ? hosts_.find(*host) : hosts_.end(); known != hosts_.end())
      rank.host = known->second;
    rank.pid = scan.IntegerOr<int32_t>(5, 0);
    rank.incarnation = scan.IntegerOr<uint32_t>(6, 1);
    rank.program = std::string(scan.Text(7));
    rank.rank_source = std::string(scan.Text(8));
    const int64_t window_start = FarIn(scan, 9);
    const int64_t window_end = FarIn(scan, 10);
    if (const std::optional<int64_t> gpu = scan.Integer(13)) {
      const auto properties = file_.gpus.find(*gpu);
      rank.has_properties = properties != file_.gpus.end();
      if (rank.has_properties) rank.properties = properties->second;
    }
    rank.unseen_graph_launches = scan.IntegerOr<uint64_t>(14, 0);
    rank.gpu_timer = {Nanos(FarIn(scan, 15)), Nanos(FarIn(scan, 16)), scan.IntegerOr<uint32_t>(17, 0)};
    if (!scan.Usable() || rows == rows_.end()) return;
    rows_.erase(rows);
    if (!capture_.live) rank.source_file = path_;
    if (!has_ranges) rank.ranges.clear();
    index_.place_of.try_emplace(id, capture_.ranks.size());
    index_.shifts.push_back(shift);
    capture_.ranks.push_back(std::move(rank));
    RankData& entry = capture_.ranks.back();
    const size_t place = capture_.ranks.size() - 1;
    entry.window = {index_.HostStamp(place, window_start), index_.HostStamp(place, window_end)};
    Restore(entry, global_pid, Nanos(shift));
  }

  // What the tables of Nsight Systems could not hold as it was: threads' numbers, the host's clock, ranges
  // without a start or an end.
  void Restore(RankData& entry, int64_t global_pid, Nanos shift) {
    const auto back = [shift](auto& rows) {
      for (auto& row : rows) {
        row.start = row.start - shift;
        row.end = row.end - shift;
      }
    };
    const auto thread = [&](auto& rows) {
      for (auto& row : rows) {
        const auto it = threads_.find(global_pid | row.thread.value());
        if (it != threads_.end()) row.thread = it->second;
      }
    };
    if (!range_notes_.empty()) {
      for (store::HostRange& r : entry.ranges) {
        const auto note = range_notes_.find({global_pid | r.thread.value(), r.start.ns() - file_.base.ns(),
                                             std::string(capture_.Text(r.name))});
        if (note == range_notes_.end()) continue;
        r.kind = note->second.kind;
        r.start_unknown = note->second.start_unknown;
      }
    }
    back(entry.activities);
    back(entry.api_calls);
    back(entry.syncs);
    back(entry.ranges);
    back(entry.unions.operators);
    back(entry.unions.data_loader);
    for (store::HostRange& r : entry.ranges) {
      if (r.end_unknown) r.end = std::max(entry.window.end, r.start);
    }
    if (!threads_.empty()) {
      thread(entry.api_calls);
      thread(entry.ranges);
      thread(entry.thread_names);
    }
  }

  const SqliteDatabase& database_;
  NsysFile file_;
  const std::string& path_;
  Capture capture_;
  std::map<int64_t, uint32_t> hosts_;
  std::map<int64_t, ThreadId> threads_;
  std::map<std::tuple<int64_t, int64_t, std::string>, RangeNote> range_notes_;
  std::map<std::pair<int64_t, DeviceId>, RankData> rows_;  // of the tables of Nsight Systems
  OwnIndex index_;
};

}  // namespace

Capture ReadOwnCapture(const SqliteDatabase& database, NsysFile file, const std::string& path) {
  return OwnReader(database, std::move(file), path).Read();
}

}  // namespace lockstep::trace
