#include "daemon/daemon_metrics.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"

namespace lockstep::daemon {
namespace {

constexpr char kPrefix[] = "lockstep_daemon";
// One label for all links that `lockstep trace` makes for captures.
constexpr char kDialled[] = "dialled";
constexpr std::chrono::seconds kLoopAnswers(1);

// Runs `question` on the loop's thread. The caller stops waiting after kLoopAnswers; a later answer is
// discarded.
template <typename T>
absl::StatusOr<T> CallOnLoop(EventLoop& loop, std::function<T()> call) {
  auto answer = std::make_shared<std::promise<T>>();
  std::future<T> future = answer->get_future();
  loop.Post([answer, call = std::move(call)] { answer->set_value(call()); });
  if (future.wait_for(kLoopAnswers) != std::future_status::ready) {
    return absl::DeadlineExceededError(
        absl::StrCat("the daemon's main loop has not answered for ", kLoopAnswers.count(), " s"));
  }
  return future.get();
}

uint64_t CountOf(const std::map<absl::StatusCode, uint64_t>& counts, absl::StatusCode code) {
  const auto it = counts.find(code);
  return it == counts.end() ? 0 : it->second;
}

void AddRefused(const std::map<absl::StatusCode, uint64_t>& refused, metrics::Page& page) {
  using absl::StatusCode;
  page.Counter("lockstep_daemon_clients_refused_total", "Client connections that were refused.")
      .Count(CountOf(refused, StatusCode::kFailedPrecondition), {{"reason", "incompatible"}})
      .Count(CountOf(refused, StatusCode::kDeadlineExceeded), {{"reason", "no_hello"}})
      .Count(CountOf(refused, StatusCode::kPermissionDenied), {{"reason", "other_user"}})
      .Count(CountOf(refused, StatusCode::kInvalidArgument), {{"reason", "protocol"}})
      .Count(CountOf(refused, StatusCode::kResourceExhausted), {{"reason", "too_many"}})
      .Count(CountOf(refused, StatusCode::kUnavailable), {{"reason", "unreachable"}});
}

// The links of one aggregator. There is more than one only if it was configured more than once.
struct Row {
  SpoolStats spool;
  uint64_t registrations = 0;
  bool up = true;
  OffsetEstimate offset;

  void Add(const Uplink& uplink) {
    const SpoolStats stats = uplink.spool()->stats();
    spool.bytes += stats.bytes;
    spool.in_flight += stats.in_flight;
    spool.oldest_age = std::max(spool.oldest_age, stats.oldest_age);
    spool.AddCounts(stats);
    registrations += uplink.registrations();
    up = up && uplink.up();
    const OffsetEstimate estimate = uplink.Offset();
    if (estimate.known && estimate.bound <= offset.bound) offset = estimate;
  }
};
using Rows = std::map<std::string, Row>;

void AddSpools(const Rows& rows, size_t limit, metrics::Page& page) {
  const auto each = [&](const metrics::Page::Family& family, const auto& value) {
    for (const auto& row : rows) family.Count(value(row.second), {{"aggregator", row.first}});
  };
  each(page.Gauge("lockstep_daemon_spool_bytes", "Memory of data that an aggregator has not stored yet."),
       [](const Row& row) { return row.spool.bytes; });
  page.Gauge("lockstep_daemon_spool_limit_bytes",
             "Limit of a spool's memory, beyond which its oldest records are dropped (--spool-bytes).")
      .Count(limit);
  const auto age = page.Gauge("lockstep_daemon_spool_oldest_age_seconds",
                              "Age of the oldest entry of a spool; 0 if the spool is empty.");
  for (const auto& row : rows) age.Seconds(row.second.spool.oldest_age, {{"aggregator", row.first}});
  each(page.Counter(
           "lockstep_daemon_batches_sent_total",
           "Batches, gaps, ends of captures and pieces of trace files that were sent, each counted once."),
       [](const Row& row) { return row.spool.sent; });
  each(page.Counter("lockstep_daemon_batches_resent_total", "The same, sent again after the stream broke."),
       [](const Row& row) { return row.spool.resent; });
  each(page.Counter("lockstep_daemon_batches_acknowledged_total", "The same, stored by the aggregator."),
       [](const Row& row) { return row.spool.acknowledged; });
  each(page.Gauge("lockstep_daemon_batches_in_flight", "The same, sent and not acknowledged."),
       [](const Row& row) { return row.spool.in_flight; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<DaemonMetrics>> DaemonMetrics::Start(HttpServerOptions http,
                                                                    DaemonMetricsSources sources) {
  std::unique_ptr<DaemonMetrics> served(new DaemonMetrics(sources));
  LOCKSTEP_ASSIGN_OR_RETURN(served->endpoint_,
                            metrics::Endpoint::Start(std::move(http), kPrefix, served->MakeEndpointSource()));
  return served;
}

metrics::EndpointSource DaemonMetrics::MakeEndpointSource() {
  metrics::EndpointSource source;
  source.fill = [this](metrics::Page& page) -> absl::Status {
    LOCKSTEP_ASSIGN_OR_RETURN(page, CallOnLoop<metrics::Page>(sources_.loop, [this] {
                                metrics::Page filled;
                                AddMetrics(filled);
                                return filled;
                              }));
    return absl::OkStatus();
  };
  source.health = [this]() -> absl::StatusOr<std::string> {
    LOCKSTEP_ASSIGN_OR_RETURN(
        absl::StatusOr<std::string> health,
        CallOnLoop<absl::StatusOr<std::string>>(sources_.loop, [this] { return sources_.links.Health(); }));
    return health;
  };
  return source;
}

void DaemonMetrics::AddMetrics(metrics::Page& page) const {
  page.Gauge("lockstep_daemon_build_info", "Always 1; the label is the version.")
      .Count(1, {{"version", LOCKSTEP_VERSION}});
  page.Gauge("lockstep_daemon_ranks", "Processes that can be captured now.").Count(sources_.registry.size());
  page.Gauge("lockstep_daemon_clients", "Connections to the client socket.")
      .Count(sources_.clients.connections());
  AddRefused(sources_.clients.refused(), page);
  const DrainStats drained = sources_.client_path.drain_stats();
  page.Counter("lockstep_daemon_drained_records_total", "Records read from the ranks' rings.")
      .Count(drained.records);
  page.Counter("lockstep_daemon_drained_bytes_total", "Bytes of those records in the rings.")
      .Count(drained.bytes);
  sources_.losses.Write(page.Counter("lockstep_daemon_lost_records_total",
                                     "Records lost before the stream to the aggregator, by stage and kind."));
  AddCaptureMetrics(page);
  AddUplinkMetrics(page);
  const auto wakeups = page.Counter("lockstep_daemon_wakeups_total", "Wakeups of a thread of the daemon.");
  wakeups.Count(drained.turns, {{"thread", "drain"}}).Count(sources_.loop.wakeups(), {{"thread", "main"}});
  const LogCounts log = sources_.log.counts();
  const auto lines = page.Counter("lockstep_daemon_log_lines_total", "Lines written to the log.");
  for (const auto& [level, name] : {std::pair(LogLevel::kDebug, "debug"),
                                    {LogLevel::kInfo, "info"},
                                    {LogLevel::kWarning, "warning"},
                                    {LogLevel::kError, "error"}}) {
    lines.Count(log.written[static_cast<size_t>(level)], {{"level", name}});
  }
  page.Counter("lockstep_daemon_log_lines_dropped_total",
               "Log lines that were dropped because there were too many in one second.")
      .Count(log.suppressed);
  const auto certificate = page.Gauge("lockstep_daemon_certificate_end_timestamp_seconds",
                                      "End of the validity of this program's certificate.");
  if (const std::optional<HostTime> end = sources_.certificate.End()) certificate.Seconds(Nanos(end->ns()));
  const AuditCounts audit = sources_.audit.counts();
  page.Counter("lockstep_daemon_audit_lines_total", "Lines of the audit log, by outcome.")
      .Count(audit.failed, {{"outcome", "failed"}})
      .Count(audit.suppressed, {{"outcome", "suppressed"}})
      .Count(audit.written, {{"outcome", "written"}});
}

void DaemonMetrics::AddCaptureMetrics(metrics::Page& page) const {
  const CaptureCounts& counts = sources_.captures.counts();
  page.Gauge("lockstep_daemon_captures_running", "Captures that have not ended.")
      .Count(sources_.captures.running());
  page.Counter("lockstep_daemon_captures_total",
               "Captures that have ended, by the outcome of the processes on this node.")
      .Count(counts.aborted, {{"outcome", "aborted"}})
      .Count(counts.complete, {{"outcome", "complete"}})
      .Count(counts.failed, {{"outcome", "failed"}})
      .Count(counts.partial, {{"outcome", "partial"}});
  const CaptureCounts& samples = sources_.captures.sample_counts();
  page.Counter("lockstep_daemon_samples_total",
               "Samples for `lockstep top` that have ended, by the outcome of the processes on this node.")
      .Count(samples.aborted, {{"outcome", "aborted"}})
      .Count(samples.complete, {{"outcome", "complete"}})
      .Count(samples.failed, {{"outcome", "failed"}})
      .Count(samples.partial, {{"outcome", "partial"}});
  page.Counter("lockstep_daemon_captured_processes_total", "Processes in captures that have ended.")
      .Count(counts.processes_done, {{"outcome", "done"}})
      .Count(counts.processes_failed, {{"outcome", "failed"}})
      .Count(counts.processes_gone, {{"outcome", "gone"}});
  page.Histogram("lockstep_daemon_capture_duration_seconds",
                 "Time from the request to arm to the end of the last process on this node.", counts.took);
  const KinetoCounts& kineto = sources_.kineto_path.counts();
  page.Counter("lockstep_daemon_kineto_files_total", "Trace files expected from PyTorch's profiler.")
      .Count(kineto.failed, {{"outcome", "failed"}})
      .Count(kineto.missing, {{"outcome", "missing"}})
      .Count(kineto.sent, {{"outcome", "sent"}});
  page.Counter("lockstep_daemon_kineto_bytes_total", "Bytes of those files that were sent.")
      .Count(kineto.bytes);
  page.Counter("lockstep_daemon_kineto_datagrams_dropped_total",
               "Datagrams at the profiler's socket that are not requests.")
      .Count(sources_.kineto_path.dropped_datagrams());
}

void DaemonMetrics::AddUplinkMetrics(metrics::Page& page) const {
  Rows configured;
  Rows all;
  uint64_t dialled = 0;
  all[kDialled].spool.AddCounts(sources_.links.removed_spools());
  for (const auto& link : sources_.links.links()) {
    const Uplink& uplink = *link.second.uplink;
    // Aggregators of jobs come and go, so they have no label of their own.
    all[link.second.configured() ? uplink.options().name : kDialled].Add(uplink);
    if (link.second.configured()) configured[uplink.options().name].Add(uplink);
    dialled += link.second.dialled;
  }
  page.Gauge("lockstep_daemon_uplinks_dialled",
             "Connected aggregators that `lockstep trace` runs for one capture.")
      .Count(dialled);
  const auto up = page.Gauge("lockstep_daemon_uplink_connected",
                             "1 while the stream to a configured aggregator is connected, else 0.");
  for (const auto& row : configured) up.Count(row.second.up ? 1 : 0, {{"aggregator", row.first}});
  const auto registrations = page.Counter("lockstep_daemon_uplink_registrations_total",
                                          "Registrations of the stream to a configured aggregator.");
  for (const auto& row : configured)
    registrations.Count(row.second.registrations, {{"aggregator", row.first}});
  const auto offset =
      page.Gauge("lockstep_daemon_clock_offset_seconds", "This node's clock minus the aggregator's.");
  for (const auto& row : configured) {
    if (row.second.offset.known) offset.Seconds(row.second.offset.offset, {{"aggregator", row.first}});
  }
  const auto bound =
      page.Gauge("lockstep_daemon_clock_offset_bound_seconds", "Upper limit of the offset's error.");
  for (const auto& row : configured) {
    if (row.second.offset.known) bound.Seconds(row.second.offset.bound, {{"aggregator", row.first}});
  }
  AddSpools(all, sources_.spool_limit_bytes, page);
}

}  // namespace lockstep::daemon
