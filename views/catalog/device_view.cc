// lockstep device: where devices' time went, why they stood still, how late work came, and how fast copies
// were.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "views/catalog/view_columns.h"
#include "views/device/device_time.h"
#include "views/device/launch_stats.h"

namespace lockstep::tables {
namespace {

using views::DeviceRule;
using views::DeviceTime;

constexpr std::string_view kTypes = "types", kIdle = "idle", kLaunches = "launches", kQueues = "queues",
                           kCopies = "copies", kQueueSeries = "queue-series", kCopySeries = "copy-series";
constexpr std::string_view kHta = "hta";

constexpr SubTable kTables[] = {
    {"time", "what each device did from its first start to its last end",
     "rank,device,span_ns,compute_ns,non_compute_ns,idle_ns,compute_fraction,non_compute_fraction,idle_"
     "fraction,overlap_fraction"},
    {kTypes, "which kinds of work ran alone and which together", "rank,kinds,time_ns,busy_fraction"},
    {kIdle, "why streams stood still between two pieces of work",
     "rank,stream,gaps,idle_ns,host_wait_ns,kernel_wait_ns,other_ns"},
    {kLaunches, "how late work started after its launch",
     "rank,name,calls,mean_delay_ns,median_delay_ns,max_delay_ns,late_starts,mean_host_ns,mean_device_ns,"
     "shorter_than_call,long_calls"},
    {kQueues, "how much work waited on each stream", "rank,stream,launches,mean_queued,max_queued,full_ns"},
    {kCopies, "how fast copies and sets were", "rank,name,copies,bytes,busy_ns,bytes_per_s,peak_bytes_per_s"},
    {kQueueSeries, "how much work waited on each stream, over time: a row for each change",
     "rank,stream,start_ns,queued"},
    {kCopySeries, "how fast copies and sets were, over time: a row for each change",
     "rank,name,start_ns,bytes_per_s"},
};

constexpr Method kMethods[] = {
    {"lockstep", "all that was recorded"},
    {kHta,
     "Holistic Trace Analysis' without options: of several steps not the last, nor work whose launch was not "
     "recorded"},
};

constexpr GroupName kGroupings[] = {
    {"rank", GroupBy::kRank, "each rank on its own (--table launches and types; the others always are)"}};

Nanos Compute(const DeviceTime& r) { return r.With(views::kComputing); }
Nanos NonCompute(const DeviceTime& r) { return r.span - r.idle() - Compute(r); }
Nanos Overlap(const DeviceTime& r) { return r.With(views::kComputing | views::kCommunicating); }

Grid TimeGrid(const store::Capture& capture, DeviceRule rule) {
  using R = DeviceTime;
  return GridOf<R>(
      {"device_time", "Where devices' time went."}, views::DeviceTimesOf(capture, rule),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.rank; }),
          Make<R>("device", "", "its number", [](const R& r) { return r.device; }),
          Make<R>("span_ns", "ns",
                  "from its first start to its last end; compute, non_compute and idle add up to it",
                  [](const R& r) { return r.span; }),
          Make<R>("compute_ns", "ns", "kernels that compute ran", [](const R& r) { return Compute(r); }),
          Make<R>("non_compute_ns", "ns", "only communication, copies or sets ran",
                  [](const R& r) { return NonCompute(r); }),
          Make<R>("idle_ns", "ns", "nothing ran", [](const R& r) { return r.idle(); }),
          Make<R>("communication_ns", "ns", "kernels that communicate ran",
                  [](const R& r) { return r.With(views::kCommunicating); }),
          Make<R>("overlap_ns", "ns", "of that, while others computed",
                  [](const R& r) { return Overlap(r); }),
          Make<R>("compute_fraction", "fraction", "of the span",
                  [](const R& r) { return Ratio(Compute(r), r.span); }),
          Make<R>("non_compute_fraction", "fraction", "of the span",
                  [](const R& r) { return Ratio(NonCompute(r), r.span); }),
          Make<R>("idle_fraction", "fraction", "of the span",
                  [](const R& r) { return Ratio(r.idle(), r.span); }),
          Make<R>("overlap_fraction", "fraction",
                  "of communication, while others computed; null: no communication",
                  [](const R& r) { return Ratio(Overlap(r), r.With(views::kCommunicating)); }),
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

Grid TypeGrid(const store::Capture& capture, DeviceRule rule, views::LaunchRanks ranks) {
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
  return GridOf<R>({"device_types", "Which kinds of work ran alone and which together."}, std::move(all),
                   {
                       Make<R>("rank", "", "whose; null: all", [](const R& r) { return Known(r.rank); }),
                       Make<R>("kinds", "", "that ran together",
                               [](const R& r) { return BorrowedOrMade{.made = KindNames(r.kinds)}; }),
                       Make<R>("time_ns", "ns", "just these and no other", [](const R& r) { return r.time; }),
                       Make<R>("busy_fraction", "fraction", "of the time that anything ran",
                               [](const R& r) { return Ratio(r.time, r.busy); }),
                   });
}

Nanos Idle(const views::StreamIdle& r) { return r.host_wait + r.kernel_wait + r.other; }

Grid IdleGrid(const store::Capture& capture, DeviceRule rule) {
  using R = views::StreamIdle;
  return GridOf<R>(
      {"device_idle", "Why streams stood still."}, views::StreamIdleOf(capture, rule),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.rank; }),
          Make<R>("device", "", "its number", [](const R& r) { return r.device; }),
          Make<R>("stream", "", "of the device", [](const R& r) { return r.stream; }),
          Make<R>("gaps", "", "between two pieces of its work", [](const R& r) { return r.gaps; }),
          Make<R>("idle_ns", "ns", "their sum; the next three add up to it",
                  [](const R& r) { return Idle(r); }),
          Make<R>("host_wait_ns", "ns", "before work that was launched after the stream had run dry",
                  [](const R& r) { return r.host_wait; }),
          Make<R>("kernel_wait_ns", "ns", "less than 30 us, before work that was launched in time",
                  [](const R& r) { return r.kernel_wait; }),
          Make<R>("other_ns", "ns",
                  "longer, before work that was launched in time: it was held back by an event, another "
                  "stream, a full device",
                  [](const R& r) { return r.other; }),
          Make<R>("host_wait_fraction", "fraction", "of idle_ns",
                  [](const R& r) { return Ratio(r.host_wait, Idle(r)); }),
          Make<R>("kernel_wait_fraction", "fraction", "of idle_ns",
                  [](const R& r) { return Ratio(r.kernel_wait, Idle(r)); }),
          Make<R>("other_fraction", "fraction", "of idle_ns",
                  [](const R& r) { return Ratio(r.other, Idle(r)); }),
      });
}

// A row with what its names are looked up in.
template <typename Of>
struct Named {
  Of row;
  const store::Capture* capture;
};

template <typename Of>
std::vector<Named<Of>> WithNames(std::vector<Of> rows, const store::Capture& capture) {
  std::vector<Named<Of>> named;
  for (Of& row : rows) named.push_back({std::move(row), &capture});
  return named;
}

std::optional<std::string_view> NameOf(const store::Capture& capture, const std::optional<NameId>& name) {
  return name ? Known(capture.Text(*name)) : std::nullopt;
}

std::optional<Nanos> Mean(Nanos sum, uint64_t count) {
  return count == 0 ? std::nullopt : std::optional(Nanos(sum.ns() / static_cast<int64_t>(count)));
}

Grid LaunchGrid(const store::Capture& capture, DeviceRule rule, views::LaunchRanks ranks) {
  using R = Named<views::LaunchStat>;
  return GridOf<R>(
      {"device_launches", "How late work started after its launch."},
      WithNames(views::LaunchStatsOf(capture, ranks, rule), capture),
      {
          Make<R>("rank", "", "whose; null: all", [](const R& r) { return Known(r.row.rank); }),
          Make<R>("name", "", "of the kernel, copy or set; null: all",
                  [](const R& r) { return NameOf(*r.capture, r.row.name); }),
          Make<R>("calls", "", "whose launch was recorded", [](const R& r) { return r.row.calls; }),
          Make<R>("delay_ns", "ns", "sum, from the end of the call to the start on the device",
                  [](const R& r) { return r.row.delay; }),
          Make<R>("mean_delay_ns", "ns", "of a call",
                  [](const R& r) { return Mean(r.row.delay, r.row.calls); }),
          Make<R>("median_delay_ns", "ns", "of a call", [](const R& r) { return r.row.median_delay; }),
          Make<R>("max_delay_ns", "ns", "of a call", [](const R& r) { return r.row.longest_delay; }),
          Make<R>("late_starts", "", "calls with a delay of more than 100 us",
                  [](const R& r) { return r.row.late_starts; }),
          Make<R>("mean_host_ns", "ns", "length of a call",
                  [](const R& r) { return Mean(r.row.host, r.row.calls); }),
          Make<R>("mean_device_ns", "ns", "length on the device",
                  [](const R& r) { return Mean(r.row.device, r.row.calls); }),
          Make<R>("shorter_than_call", "", "calls that took the host longer than the device",
                  [](const R& r) { return r.row.shorter_than_call; }),
          Make<R>("long_calls", "", "calls of more than 50 us", [](const R& r) { return r.row.long_calls; }),
      });
}

Grid QueueGrid(const store::Capture& capture, DeviceRule rule) {
  using R = views::StreamQueue;
  return GridOf<R>({"device_queues", "How much work waited on each stream."},
                   views::StreamQueuesOf(capture, rule),
                   {
                       Make<R>("rank", "", "whose", [](const R& r) { return r.rank; }),
                       Make<R>("device", "", "its number", [](const R& r) { return r.device; }),
                       Make<R>("stream", "", "of the device", [](const R& r) { return r.stream; }),
                       Make<R>("launches", "", "that were recorded", [](const R& r) { return r.launches; }),
                       Make<R>("mean_queued", "", "work launched and not started, over the time",
                               [](const R& r) { return r.mean; }),
                       Make<R>("max_queued", "", "the most at once", [](const R& r) { return r.longest; }),
                       Make<R>("full_ns", "ns", "how long it was 1,024 or more: launches may block then",
                               [](const R& r) { return r.full; }),
                   });
}

Grid CopyGrid(const store::Capture& capture, DeviceRule rule) {
  using R = Named<views::CopyRate>;
  return GridOf<R>(
      {"device_copies", "How fast copies and sets were."},
      WithNames(views::CopyRatesOf(capture, rule), capture),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.row.rank; }),
          Make<R>("device", "", "its number", [](const R& r) { return r.row.device; }),
          Make<R>("name", "", "kind of copy or set",
                  [](const R& r) { return NameOf(*r.capture, r.row.name); }),
          Make<R>("copies", "", "how many", [](const R& r) { return r.row.copies; }),
          Make<R>("unknown", "", "of them without known bytes or length: in no rate",
                  [](const R& r) { return r.row.unknown; }),
          Make<R>("bytes", "bytes", "of the others", [](const R& r) { return r.row.bytes; }),
          Make<R>("busy_ns", "ns", "when any of them ran", [](const R& r) { return r.row.busy; }),
          Make<R>("bytes_per_s", "bytes_per_s", "bytes over busy_ns",
                  [](const R& r) { return r.row.bytes_per_s; }),
          Make<R>("peak_bytes_per_s", "bytes_per_s", "the most of what ran at once",
                  [](const R& r) { return r.row.peak_bytes_per_s; }),
      });
}

// A point of a series with what its time and its name are shown by.
template <typename Point>
struct Dated {
  Point point;
  Nanos after;
  const store::Capture* capture;
};

template <typename Point>
std::vector<Dated<Point>> WithTimes(const std::vector<Point>& points, const store::Capture& capture) {
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

Grid QueueSeriesGrid(const store::Capture& capture, DeviceRule rule) {
  using R = Dated<views::QueuePoint>;
  return GridOf<R>({"device_queue_series", "How much work waited on each stream, over time."},
                   WithTimes(views::QueueSeriesOf(capture, rule), capture),
                   {
                       Make<R>("rank", "", "whose", [](const R& r) { return r.point.rank; }),
                       Make<R>("device", "", "its number", [](const R& r) { return r.point.device; }),
                       Make<R>("stream", "", "of the device", [](const R& r) { return r.point.stream; }),
                       Make<R>("start_ns", "ns", "from the begin of the rank's capture on",
                               [](const R& r) { return r.after; }),
                       Make<R>("queued", "", "work launched and not started, until the stream's next row",
                               [](const R& r) { return r.point.queued; }),
                   });
}

Grid CopySeriesGrid(const store::Capture& capture, DeviceRule rule) {
  using R = Dated<views::CopyRatePoint>;
  return GridOf<R>(
      {"device_copy_series", "How fast copies and sets were, over time."},
      WithTimes(views::CopyRateSeriesOf(capture, rule), capture),
      {
          Make<R>("rank", "", "whose", [](const R& r) { return r.point.rank; }),
          Make<R>("device", "", "its number", [](const R& r) { return r.point.device; }),
          Make<R>("name", "", "kind of copy or set",
                  [](const R& r) { return NameOf(*r.capture, r.point.name); }),
          Make<R>("start_ns", "ns", "from the begin of the rank's capture on",
                  [](const R& r) { return r.after; }),
          Make<R>("bytes_per_s", "bytes_per_s", "of all that run at once, until the kind's next row",
                  [](const R& r) { return r.point.bytes_per_s; }),
      });
}

MadeView MakeDevice(const ViewInput& input, const ViewOptions& options) {
  const DeviceRule rule = options.method == kHta ? DeviceRule::kHta : DeviceRule::kLockstep;
  const auto ranks = options.Has(GroupBy::kRank) ? views::LaunchRanks::kEach : views::LaunchRanks::kTogether;
  const store::Capture& capture = input.capture;
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
          .about =
              "where each device's time went, why it stood still, how late work came after its launch, and "
              "how fast copies were",
          .text =
              "Holistic Trace Analysis' breakdowns, launch statistics and counters. Figures are of the whole "
              "recording, each device on its own;\n"
              "`lockstep report` says what of it matters for the step.\n",
          .groupings = kGroupings,
          .tables = kTables,
          .methods = kMethods,
          .aliases = {},
          .make = &MakeDevice};
}

}  // namespace lockstep::tables
