// What the daemon shows at its metrics port. Home of the list: docs/formats/metrics.md.
#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"
#include "daemon/daemon.h"

namespace lockstep::daemon {
namespace {

constexpr char kPrefix[] = "lockstep_daemon";
// The links that `lockstep trace` makes for one capture, together.
constexpr char kDialled[] = "dialled";
constexpr std::chrono::seconds kLoopAnswers(1);

// Asks on the loop's thread. Who does not get an answer leaves: a late one goes nowhere.
template <typename T>
absl::StatusOr<T> Ask(EventLoop& loop, std::function<T()> question) {
  auto answer = std::make_shared<std::promise<T>>();
  std::future<T> future = answer->get_future();
  loop.Post([answer, question = std::move(question)] { answer->set_value(question()); });
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

// One aggregator's links; two only where it was named twice.
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
  each(page.Gauge("lockstep_daemon_spool_bytes", "Memory of what an aggregator has not stored yet."),
       [](const Row& row) { return row.spool.bytes; });
  page.Gauge("lockstep_daemon_spool_limit_bytes",
             "Memory beyond which the oldest records of a spool are dropped (--spool-bytes).")
      .Count(limit);
  const auto age = page.Gauge("lockstep_daemon_spool_oldest_age_seconds",
                              "How long the oldest entry of a spool has waited; 0 when none waits.");
  for (const auto& row : rows) age.Seconds(row.second.spool.oldest_age, {{"aggregator", row.first}});
  each(page.Counter("lockstep_daemon_batches_sent_total",
                    "Batches, gaps, ends of captures and pieces of trace files that were sent, each once."),
       [](const Row& row) { return row.spool.sent; });
  each(page.Counter("lockstep_daemon_batches_resent_total", "The same, sent again after the stream broke."),
       [](const Row& row) { return row.spool.resent; });
  each(page.Counter("lockstep_daemon_batches_acknowledged_total", "The same, stored by the aggregator."),
       [](const Row& row) { return row.spool.acknowledged; });
  each(page.Gauge("lockstep_daemon_batches_in_flight", "The same, sent and not acknowledged."),
       [](const Row& row) { return row.spool.in_flight; });
}

}  // namespace

absl::Status Daemon::OpenMetrics() {
  if (options_.metrics.empty()) return absl::OkStatus();
  metrics::HttpServerOptions http;
  http.address = options_.metrics;
  LOCKSTEP_ASSIGN_OR_RETURN(http.token, LoadToken());
  metrics::EndpointSource source;
  source.fill = [this](metrics::Page& page) -> absl::Status {
    LOCKSTEP_ASSIGN_OR_RETURN(page, Ask<metrics::Page>(*loop_, [this] {
                                metrics::Page filled;
                                AddMetrics(filled);
                                return filled;
                              }));
    return absl::OkStatus();
  };
  source.health = [this]() -> absl::StatusOr<std::string> {
    LOCKSTEP_ASSIGN_OR_RETURN(const absl::StatusOr<std::string> health,
                              Ask<absl::StatusOr<std::string>>(*loop_, [this] { return Health(); }));
    return health;
  };
  LOCKSTEP_ASSIGN_OR_RETURN(endpoint_, metrics::Endpoint::Start(std::move(http), kPrefix, std::move(source)));
  log_.Info("metrics", {{"address", endpoint_->address()}});
  return absl::OkStatus();
}

absl::StatusOr<std::string> Daemon::Health() const {
  if (stopping_) return absl::UnavailableError("stopping");
  bool configured = false;
  bool up = true;
  for (const auto& link : links_) {
    if (!link.second.configured()) continue;
    configured = true;
    up = up && link.second.uplink->up();
  }
  return absl::StrCat("ok uplink=", !configured ? "none" : up ? "up" : "down");
}

void Daemon::AddMetrics(metrics::Page& page) const {
  page.Gauge("lockstep_daemon_build_info", "1; the version is the label.")
      .Count(1, {{"version", LOCKSTEP_VERSION}});
  page.Gauge("lockstep_daemon_ranks", "Processes that can be captured now.").Count(registry_.size());
  page.Gauge("lockstep_daemon_clients", "Connections to the client socket.").Count(clients_->connections());
  AddRefused(clients_->refused(), page);
  const DrainStats drained = drainer_->stats();
  page.Counter("lockstep_daemon_drained_records_total", "Records taken out of the ranks' rings.")
      .Count(drained.records);
  page.Counter("lockstep_daemon_drained_bytes_total", "Bytes of those records in the rings.")
      .Count(drained.bytes);
  losses_.Write(
      page.Counter("lockstep_daemon_lost_records_total",
                   "Records that were lost up to here, by the stage that lost them and their kind."));
  AddCaptureMetrics(page);
  AddUplinkMetrics(page);
  const auto wakeups = page.Counter("lockstep_daemon_wakeups_total",
                                    "How often a thread of the daemon woke up to look for work.");
  wakeups.Count(drained.turns, {{"thread", "drain"}}).Count(loop_->wakeups(), {{"thread", "main"}});
  const LogCounts log = log_.counts();
  const auto lines = page.Counter("lockstep_daemon_log_lines_total", "Lines written to the log.");
  for (const auto& [level, name] : {std::pair(LogLevel::kDebug, "debug"),
                                    {LogLevel::kInfo, "info"},
                                    {LogLevel::kWarning, "warning"},
                                    {LogLevel::kError, "error"}}) {
    lines.Count(log.written[static_cast<size_t>(level)], {{"level", name}});
  }
  page.Counter("lockstep_daemon_log_lines_dropped_total",
               "Lines that were not written since there were too many in one second.")
      .Count(log.suppressed);
  const AuditCounts audit = audit_.counts();
  page.Counter("lockstep_daemon_audit_lines_total", "Lines of the audit log, by what became of them.")
      .Count(audit.failed, {{"outcome", "failed"}})
      .Count(audit.suppressed, {{"outcome", "suppressed"}})
      .Count(audit.written, {{"outcome", "written"}});
}

void Daemon::AddCaptureMetrics(metrics::Page& page) const {
  const CaptureCounts& counts = captures_.counts();
  page.Gauge("lockstep_daemon_captures_running", "Captures that have not ended.").Count(captures_.running());
  page.Counter("lockstep_daemon_captures_total",
               "Captures that have ended, by what became of the processes on this node.")
      .Count(counts.aborted, {{"outcome", "aborted"}})
      .Count(counts.complete, {{"outcome", "complete"}})
      .Count(counts.failed, {{"outcome", "failed"}})
      .Count(counts.partial, {{"outcome", "partial"}});
  const CaptureCounts& samples = captures_.sample_counts();
  page.Counter("lockstep_daemon_samples_total",
               "Short captures for `lockstep top` that have ended, as the above.")
      .Count(samples.aborted, {{"outcome", "aborted"}})
      .Count(samples.complete, {{"outcome", "complete"}})
      .Count(samples.failed, {{"outcome", "failed"}})
      .Count(samples.partial, {{"outcome", "partial"}});
  page.Counter("lockstep_daemon_captured_processes_total", "Processes in captures that have ended.")
      .Count(counts.processes_done, {{"outcome", "done"}})
      .Count(counts.processes_failed, {{"outcome", "failed"}})
      .Count(counts.processes_gone, {{"outcome", "gone"}});
  page.Histogram("lockstep_daemon_capture_duration_seconds",
                 "From the request to arm to the end of the last process on this node.", counts.took);
  page.Counter("lockstep_daemon_kineto_files_total", "Trace files expected of PyTorch's profiler.")
      .Count(kineto_counts_.failed, {{"outcome", "failed"}})
      .Count(kineto_counts_.missing, {{"outcome", "missing"}})
      .Count(kineto_counts_.sent, {{"outcome", "sent"}});
  page.Counter("lockstep_daemon_kineto_bytes_total", "Bytes of those files that were sent.")
      .Count(kineto_counts_.bytes);
  page.Counter("lockstep_daemon_kineto_datagrams_dropped_total",
               "Datagrams at the profiler's socket that are no requests.")
      .Count(kineto_server_ == nullptr ? 0 : kineto_server_->dropped());
}

void Daemon::AddUplinkMetrics(metrics::Page& page) const {
  Rows configured;
  Rows all;
  uint64_t dialled = 0;
  all[kDialled].spool.AddCounts(gone_spools_);
  for (const auto& link : links_) {
    const Uplink& uplink = *link.second.uplink;
    // What jobs bring along comes and goes: no label for each.
    all[link.second.configured() ? uplink.options().name : kDialled].Add(uplink);
    if (link.second.configured()) configured[uplink.options().name].Add(uplink);
    dialled += link.second.dialled;
  }
  page.Gauge("lockstep_daemon_uplinks_dialled",
             "Aggregators that `lockstep trace` runs for one capture and that are connected.")
      .Count(dialled);
  const auto up = page.Gauge("lockstep_daemon_uplink_connected",
                             "1 while the stream to a configured aggregator stands, else 0.");
  for (const auto& row : configured) up.Count(row.second.up ? 1 : 0, {{"aggregator", row.first}});
  const auto registrations = page.Counter("lockstep_daemon_uplink_registrations_total",
                                          "How often the stream to a configured aggregator came about.");
  for (const auto& row : configured)
    registrations.Count(row.second.registrations, {{"aggregator", row.first}});
  const auto offset =
      page.Gauge("lockstep_daemon_clock_offset_seconds", "This node's clock minus the aggregator's.");
  for (const auto& row : configured) {
    if (row.second.offset.known) offset.Seconds(row.second.offset.offset, {{"aggregator", row.first}});
  }
  const auto bound =
      page.Gauge("lockstep_daemon_clock_offset_bound_seconds", "The offset's error is not larger.");
  for (const auto& row : configured) {
    if (row.second.offset.known) bound.Seconds(row.second.offset.bound, {{"aggregator", row.first}});
  }
  AddSpools(all, options_.spool_bytes, page);
}

}  // namespace lockstep::daemon
