// lockstep device: the time of each device, the idle time of its streams, launch delays, and rates of copies.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/device/device_time.h"
#include "views/device/launch_stats.h"

namespace lockstep::views {
namespace {

using views::DeviceRule;
using views::DeviceTime;

constexpr std::string_view kTypes = "types", kIdle = "idle", kLaunches = "launches", kQueues = "queues",
                           kCopies = "copies", kQueueSeries = "queue-series", kCopySeries = "copy-series";
constexpr std::string_view kHta = "hta";

constexpr SubTable kDeviceTables[] = {
    {"time", "time of each device from its first start to its last end",
     "rank,device,span_ns,compute_ns,non_compute_ns,idle_ns,compute_fraction,non_compute_fraction,idle_"
     "fraction,overlap_fraction"},
    {kTypes, "time of each combination of kinds of work", "rank,kinds,time_ns,busy_fraction"},
    {kIdle, "idle time of streams between two activities, by reason",
     "rank,stream,gaps,idle_ns,host_wait_ns,kernel_wait_ns,other_ns"},
    {kLaunches, "delays between launch and start of work",
     "rank,name,calls,mean_delay_ns,median_delay_ns,max_delay_ns,late_starts,mean_host_ns,mean_device_ns,"
     "shorter_than_call,long_calls"},
    {kQueues, "queue length of each stream", "rank,stream,launches,mean_queued,max_queued,full_ns"},
    {kCopies, "rates of copies and sets", "rank,name,copies,bytes,busy_ns,bytes_per_s,peak_bytes_per_s"},
    {kQueueSeries, "queue length of each stream over time: a row for each change",
     "rank,stream,start_ns,queued"},
    {kCopySeries, "rates of copies and sets over time: a row for each change",
     "rank,name,start_ns,bytes_per_s"},
};

constexpr Method kDeviceMethods[] = {
    {"lockstep", "all recorded work"},
    {kHta,
     "Holistic Trace Analysis' without options: of several steps not the last, nor work whose launch was not "
     "recorded"},
};

constexpr GroupName kDeviceGroupings[] = {
    {"rank", GroupBy::kRank, "each rank separately (--table launches and types; other tables always are)"}};

Nanos Compute(const DeviceTime& r) { return r.TimeWithAll(views::kComputing); }
Nanos NonCompute(const DeviceTime& r) { return r.span - r.idle() - Compute(r); }
Nanos Overlap(const DeviceTime& r) { return r.TimeWithAll(views::kComputing | views::kCommunicating); }

Grid TimeGrid(const capture::Capture& capture, DeviceRule rule) {
  using R = DeviceTime;
  return GridOf<R>(
      {"device_time", "Time of the devices."}, views::DeviceTimesOf(capture, rule),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank; }),
          Make<R>("device", "", "device number", [](const R& r) { return r.device; }),
          Make<R>("span_ns", "ns",
                  "from the first start to the last end; sum of compute, non_compute and idle",
                  [](const R& r) { return r.span; }),
          Make<R>("compute_ns", "ns", "time with compute kernels", [](const R& r) { return Compute(r); }),
          Make<R>("non_compute_ns", "ns", "time with only communication, copies or sets",
                  [](const R& r) { return NonCompute(r); }),
          Make<R>("idle_ns", "ns", "time without activity", [](const R& r) { return r.idle(); }),
          Make<R>("communication_ns", "ns", "time with communication kernels",
                  [](const R& r) { return r.TimeWithAll(views::kCommunicating); }),
          Make<R>("overlap_ns", "ns", "time with both communication and compute kernels",
                  [](const R& r) { return Overlap(r); }),
          Make<R>("compute_fraction", "fraction", "compute_ns over span_ns",
                  [](const R& r) { return Ratio(Compute(r), r.span); }),
          Make<R>("non_compute_fraction", "fraction", "non_compute_ns over span_ns",
                  [](const R& r) { return Ratio(NonCompute(r), r.span); }),
          Make<R>("idle_fraction", "fraction", "idle_ns over span_ns",
                  [](const R& r) { return Ratio(r.idle(), r.span); }),
          Make<R>("overlap_fraction", "fraction", "overlap_ns over communication_ns; null: no communication",
                  [](const R& r) { return Ratio(Overlap(r), r.TimeWithAll(views::kCommunicating)); }),
      });
}

struct TypeRow {
  RankId rank = kNoRank;
  uint8_t kinds = 0;
  Nanos time, busy;
};

std::string KindNames(uint8_t kinds) {
  std::string names;
  for (const auto& [kind, name] :
       {std::pair(views::kComputing, "computation"), std::pair(views::kCommunicating, "communication"),
        std::pair(views::kCopying, "memory")}) {
    if ((kinds & kind) != 0) absl::StrAppend(&names, names.empty() ? "" : " + ", name);
  }
  return names;
}

Grid TypeGrid(const capture::Capture& capture, DeviceRule rule, views::LaunchRanks ranks) {
  using R = TypeRow;
  std::map<RankId, std::vector<TypeRow>> by_rank;
  for (const DeviceTime& time : views::DeviceTimesOf(capture, rule)) {
    const RankId shown = ranks == views::LaunchRanks::kEach ? time.rank : kNoRank;
    std::vector<TypeRow>& rows = by_rank.try_emplace(shown, views::kDeviceKinds).first->second;
    for (size_t kinds = 1; kinds < rows.size(); ++kinds) {
      rows[kinds].rank = shown;
      rows[kinds].kinds = static_cast<uint8_t>(kinds);
      rows[kinds].time += time.together[kinds];
      for (TypeRow& row : rows) row.busy += time.together[kinds];
    }
  }
  std::vector<TypeRow> all;
  for (auto& [rank, rows] : by_rank) {
    std::stable_sort(rows.begin(), rows.end(), [](const R& a, const R& b) { return a.time > b.time; });
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(all),
                 [](const R& r) { return r.time > Nanos(); });
  }
  return GridOf<R>(
      {"device_types", "Time of each combination of kinds of work."}, std::move(all),
      {
          Make<R>("rank", "", "rank of the row; null: all ranks", [](const R& r) { return Known(r.rank); }),
          Make<R>("kinds", "", "kinds that ran together",
                  [](const R& r) { return OwnedOrBorrowedText{.made = KindNames(r.kinds)}; }),
          Make<R>("time_ns", "ns", "time with exactly these kinds", [](const R& r) { return r.time; }),
          Make<R>("busy_fraction", "fraction", "share of the time with any activity",
                  [](const R& r) { return Ratio(r.time, r.busy); }),
      });
}

Nanos Idle(const views::StreamIdle& r) { return r.host_wait + r.kernel_wait + r.other; }

Grid IdleGrid(const capture::Capture& capture, DeviceRule rule) {
  using R = views::StreamIdle;
  return GridOf<R>(
      {"device_idle", "Idle time of streams."}, views::StreamIdleOf(capture, rule),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank; }),
          Make<R>("device", "", "device number", [](const R& r) { return r.device; }),
          Make<R>("stream", "", "stream of the device", [](const R& r) { return r.stream; }),
          Make<R>("gaps", "", "number of gaps between two activities of the stream",
                  [](const R& r) { return r.gaps; }),
          Make<R>("idle_ns", "ns", "sum of the gaps; the next three add up to it",
                  [](const R& r) { return Idle(r); }),
          Make<R>("host_wait_ns", "ns", "gaps before work that was launched after the stream became empty",
                  [](const R& r) { return r.host_wait; }),
          Make<R>("kernel_wait_ns", "ns", "gaps below 30 us before work that was launched in time",
                  [](const R& r) { return r.kernel_wait; }),
          Make<R>("other_ns", "ns",
                  "longer gaps before work that was launched in time; an event, another stream or a full "
                  "device delayed it",
                  [](const R& r) { return r.other; }),
          Make<R>("host_wait_fraction", "fraction", "host_wait_ns over idle_ns",
                  [](const R& r) { return Ratio(r.host_wait, Idle(r)); }),
          Make<R>("kernel_wait_fraction", "fraction", "kernel_wait_ns over idle_ns",
                  [](const R& r) { return Ratio(r.kernel_wait, Idle(r)); }),
          Make<R>("other_fraction", "fraction", "other_ns over idle_ns",
                  [](const R& r) { return Ratio(r.other, Idle(r)); }),
      });
}

// A row, with the capture in which its names are looked up.
template <typename Of>
struct NamedRow {
  Of row;
  const capture::Capture* capture;
};

template <typename Of>
std::vector<NamedRow<Of>> WithNames(std::vector<Of> rows, const capture::Capture& capture) {
  std::vector<NamedRow<Of>> named;
  for (Of& row : rows) named.push_back({std::move(row), &capture});
  return named;
}

std::optional<std::string_view> NameOf(const capture::Capture& capture, const std::optional<NameId>& name) {
  return name ? Known(capture.Text(*name)) : std::nullopt;
}

std::optional<Nanos> Mean(Nanos sum, uint64_t count) {
  return count == 0 ? std::nullopt : std::optional(Nanos(sum.ns() / static_cast<int64_t>(count)));
}

Grid LaunchGrid(const capture::Capture& capture, DeviceRule rule, views::LaunchRanks ranks) {
  using R = NamedRow<views::LaunchStat>;
  return GridOf<R>(
      {"device_launches", "Delays between launch and start of work."},
      WithNames(views::LaunchStatsOf(capture, ranks, rule), capture),
      {
          Make<R>("rank", "", "rank of the row; null: all ranks",
                  [](const R& r) { return Known(r.row.rank); }),
          Make<R>("name", "", "name of the kernel, copy or set; null: all",
                  [](const R& r) { return NameOf(*r.capture, r.row.name); }),
          Make<R>("calls", "", "number of calls with a recorded launch",
                  [](const R& r) { return r.row.calls; }),
          Make<R>("delay_ns", "ns", "sum of delays, from the end of the call to the start on the device",
                  [](const R& r) { return r.row.delay; }),
          Make<R>("mean_delay_ns", "ns", "mean delay of a call",
                  [](const R& r) { return Mean(r.row.delay, r.row.calls); }),
          Make<R>("median_delay_ns", "ns", "median delay of a call",
                  [](const R& r) { return r.row.median_delay; }),
          Make<R>("max_delay_ns", "ns", "longest delay of a call",
                  [](const R& r) { return r.row.longest_delay; }),
          Make<R>("late_starts", "", "number of calls with a delay of more than 100 us",
                  [](const R& r) { return r.row.late_starts; }),
          Make<R>("mean_host_ns", "ns", "mean duration of a call",
                  [](const R& r) { return Mean(r.row.host, r.row.calls); }),
          Make<R>("mean_device_ns", "ns", "mean duration on the device",
                  [](const R& r) { return Mean(r.row.device, r.row.calls); }),
          Make<R>("shorter_than_call", "", "number of calls that took longer on the host than on the device",
                  [](const R& r) { return r.row.shorter_than_call; }),
          Make<R>("long_calls", "", "number of calls of more than 50 us",
                  [](const R& r) { return r.row.long_calls; }),
      });
}

Grid QueueGrid(const capture::Capture& capture, DeviceRule rule) {
  using R = views::StreamQueue;
  return GridOf<R>(
      {"device_queues", "Queue length of each stream."}, views::StreamQueuesOf(capture, rule),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.rank; }),
          Make<R>("device", "", "device number", [](const R& r) { return r.device; }),
          Make<R>("stream", "", "stream of the device", [](const R& r) { return r.stream; }),
          Make<R>("launches", "", "number of recorded launches", [](const R& r) { return r.launches; }),
          Make<R>("mean_queued", "", "mean over time of launched work that has not started",
                  [](const R& r) { return r.mean; }),
          Make<R>("max_queued", "", "largest amount of launched work that has not started",
                  [](const R& r) { return r.longest; }),
          Make<R>("full_ns", "ns", "time with 1,024 or more queued; launches may then block",
                  [](const R& r) { return r.full; }),
      });
}

Grid CopyGrid(const capture::Capture& capture, DeviceRule rule) {
  using R = NamedRow<views::CopyRate>;
  return GridOf<R>(
      {"device_copies", "Rates of copies and sets."}, WithNames(views::CopyRatesOf(capture, rule), capture),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.row.rank; }),
          Make<R>("device", "", "device number", [](const R& r) { return r.row.device; }),
          Make<R>("name", "", "kind of copy or set",
                  [](const R& r) { return NameOf(*r.capture, r.row.name); }),
          Make<R>("copies", "", "number of copies or sets", [](const R& r) { return r.row.copies; }),
          Make<R>("unknown", "", "number of copies without known bytes or duration; no rate includes them",
                  [](const R& r) { return r.row.unknown; }),
          Make<R>("bytes", "bytes", "bytes of the other copies", [](const R& r) { return r.row.bytes; }),
          Make<R>("busy_ns", "ns", "time with any of these copies", [](const R& r) { return r.row.busy; }),
          Make<R>("bytes_per_s", "bytes_per_s", "bytes over busy_ns",
                  [](const R& r) { return r.row.bytes_per_s; }),
          Make<R>("peak_bytes_per_s", "bytes_per_s", "highest rate of concurrent copies",
                  [](const R& r) { return r.row.peak_bytes_per_s; }),
      });
}

// A point of a series, with its time since the rank's begin and the capture in which its name is looked up.
template <typename Point>
struct Dated {
  Point point;
  Nanos after;
  const capture::Capture* capture;
};

template <typename Point>
std::vector<Dated<Point>> WithTimes(const std::vector<Point>& points, const capture::Capture& capture) {
  std::map<RankId, HostTime> begins;
  std::vector<Dated<Point>> out;
  out.reserve(points.size());
  for (const Point& p : points) {
    const auto [begin, fresh] = begins.try_emplace(p.rank);
    if (fresh) begin->second = BeginOf(capture, p.rank);
    out.push_back({p, p.at - begin->second, &capture});
  }
  return out;
}

Grid QueueSeriesGrid(const capture::Capture& capture, DeviceRule rule) {
  using R = Dated<views::QueuePoint>;
  return GridOf<R>(
      {"device_queue_series", "Queue length of each stream over time."},
      WithTimes(views::QueueSeriesOf(capture, rule), capture),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.point.rank; }),
          Make<R>("device", "", "device number", [](const R& r) { return r.point.device; }),
          Make<R>("stream", "", "stream of the device", [](const R& r) { return r.point.stream; }),
          Make<R>("start_ns", "ns", "time since the begin of the rank's capture",
                  [](const R& r) { return r.after; }),
          Make<R>("queued", "", "launched work that has not started, until the stream's next row",
                  [](const R& r) { return r.point.queued; }),
      });
}

Grid CopySeriesGrid(const capture::Capture& capture, DeviceRule rule) {
  using R = Dated<views::CopyRatePoint>;
  return GridOf<R>(
      {"device_copy_series", "Rates of copies and sets over time."},
      WithTimes(views::CopyRateSeriesOf(capture, rule), capture),
      {
          Make<R>("rank", "", "rank of the row", [](const R& r) { return r.point.rank; }),
          Make<R>("device", "", "device number", [](const R& r) { return r.point.device; }),
          Make<R>("name", "", "kind of copy or set",
                  [](const R& r) { return NameOf(*r.capture, r.point.name); }),
          Make<R>("start_ns", "ns", "time since the begin of the rank's capture",
                  [](const R& r) { return r.after; }),
          Make<R>("bytes_per_s", "bytes_per_s", "rate of all concurrent copies, until the kind's next row",
                  [](const R& r) { return r.point.bytes_per_s; }),
      });
}

MadeView MakeDevice(const ViewInput& input, const ViewOptions& options) {
  const DeviceRule rule = options.method == kHta ? DeviceRule::kHta : DeviceRule::kLockstep;
  const auto ranks = options.Has(GroupBy::kRank) ? views::LaunchRanks::kEach : views::LaunchRanks::kTogether;
  const capture::Capture& capture = input.capture;
  if (options.table == kTypes) return {TypeGrid(capture, rule, ranks), {}};
  if (options.table == kIdle) return {IdleGrid(capture, rule), {}};
  if (options.table == kLaunches) return {LaunchGrid(capture, rule, ranks), {}};
  if (options.table == kQueues) return {QueueGrid(capture, rule), {}};
  if (options.table == kCopies) return {CopyGrid(capture, rule), {}};
  if (options.table == kQueueSeries) return {QueueSeriesGrid(capture, rule), {}};
  if (options.table == kCopySeries) return {CopySeriesGrid(capture, rule), {}};
  return {TimeGrid(capture, rule), {}};
}

}  // namespace

View DeviceView() {
  return {.name = "device",
          .about = "time of each device, reasons of its idle time, delays of launches, and rates of copies",
          .text =
              "Holistic Trace Analysis' breakdowns, launch statistics and counters. Figures are of the whole "
              "recording, each device on its own;\n"
              "`lockstep report` shows the effect on the step.\n",
          .groupings = kDeviceGroupings,
          .tables = kDeviceTables,
          .methods = kDeviceMethods,
          .aliases = {},
          .make = &MakeDevice};
}

}  // namespace lockstep::views
