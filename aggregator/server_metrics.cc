#include "aggregator/server_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::aggregator {
namespace {

using metrics::Page;
using Outcome = v1::TraceFinished;

Nanos Whole(double ns) { return Nanos(std::llround(ns)); }

void AddCaptures(const aggregator::CaptureCounts& counts, Page& page) {
  page.Gauge("lockstep_aggregator_captures_running",
             "Captures that have not ended; a capture ends with its report.")
      .Count(counts.running);
  const auto ended =
      page.Counter("lockstep_aggregator_captures_total", "Requested captures that have ended, by outcome.");
  for (const auto& [outcome, name] : {std::pair(Outcome::COMPLETE, "complete"),
                                      {Outcome::FAILED, "failed"},
                                      {Outcome::NO_SUCH_JOB, "no_such_job"},
                                      {Outcome::PARTIAL, "partial"},
                                      {Outcome::TIMED_OUT, "timed_out"}}) {
    const auto it = counts.captures.find(outcome);
    ended.Count(it == counts.captures.end() ? 0 : it->second, {{"outcome", name}});
  }
  const auto samples = page.Counter("lockstep_aggregator_samples_total",
                                    "Samples for `lockstep top` that have ended, by outcome.");
  for (const auto& [outcome, name] : {std::pair(Outcome::COMPLETE, "complete"),
                                      {Outcome::FAILED, "failed"},
                                      {Outcome::PARTIAL, "partial"},
                                      {Outcome::TIMED_OUT, "timed_out"}}) {
    const auto it = counts.samples.find(outcome);
    samples.Count(it == counts.samples.end() ? 0 : it->second, {{"outcome", name}});
  }
  page.Histogram("lockstep_aggregator_capture_duration_seconds", "Time from the request to the report.",
                 counts.took);
}

void AddIngest(const aggregator::Hub& hub, Page& page) {
  const aggregator::MessageCounts counts = hub.counts();
  page.Counter("lockstep_aggregator_ingested_messages_total", "Messages of daemons that were stored.")
      .Count(counts.batches, {{"kind", "batch"}})
      .Count(counts.ends, {{"kind", "end"}})
      .Count(counts.gaps, {{"kind", "gap"}})
      .Count(counts.trace_pieces, {{"kind", "trace_file"}});
  page.Counter("lockstep_aggregator_ingested_records_total", "Records in the batches that were stored.")
      .Count(counts.records);
  page.Counter("lockstep_aggregator_ingested_bytes_total", "Bytes stored, as received.")
      .Count(counts.record_bytes, {{"kind", "batch"}})
      .Count(counts.trace_bytes, {{"kind", "trace_file"}});
  page.Counter("lockstep_aggregator_duplicate_messages_total",
               "Messages that were sent again and were already stored.")
      .Count(counts.duplicates);
  page.Counter("lockstep_aggregator_discarded_messages_total", "Messages of captures that do not run here.")
      .Count(counts.discarded);
  page.Counter("lockstep_aggregator_missing_messages_total",
               "Messages that never arrived and that no gap explains.")
      .Count(counts.missing);
  hub.captures().losses().Write(
      page.Counter("lockstep_aggregator_lost_records_total",
                   "Lost records of this aggregator's captures, by stage and kind."));
}

void AddConnections(const rpc::GateCounts& gate, Page& page) {
  page.Gauge("lockstep_aggregator_connections",
             "Connections over TCP: stranger until a call has proved who it is, then trusted.")
      .Count(gate.strangers, {{"peer", "stranger"}})
      .Count(gate.trusted, {{"peer", "trusted"}});
  page.Counter("lockstep_aggregator_connections_accepted_total", "Connections that were accepted.")
      .Count(gate.accepted);
  page.Counter("lockstep_aggregator_connections_displaced_total",
               "Connections of strangers that were closed in favour of newer ones.")
      .Count(gate.displaced);
  page.Counter("lockstep_aggregator_connections_unproven_total",
               "Connections of strangers that were closed after many refused calls.")
      .Count(gate.unproven);
  page.Counter("lockstep_aggregator_connections_refused_total",
               "Connections of strangers that were closed at once, because many of their source were closed "
               "just before.")
      .Count(gate.refused);
  page.Counter("lockstep_aggregator_descriptor_shortages_total",
               "Times that a connection had to wait because no descriptor was free.")
      .Count(gate.shortages);
}

}  // namespace

void ServerMetrics::NoteReport(const std::string& job, const absl::StatusOr<ReportFacts>& report, Nanos took,
                               Nanos now) {
  MutexLock lock(&mutex_);
  ++(report.ok() ? reports_written_ : reports_failed_);
  if (!report.ok()) return;
  report_took_.Observe(took);
  Job last = {job.substr(0, metrics::kLongestJobLabel), *report, now};
  jobs_.erase(std::remove_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.name == last.name; }),
              jobs_.end());
  jobs_.push_back(std::move(last));
  if (jobs_.size() > metrics::kMostJobLabels) jobs_.pop_front();
}

void ServerMetrics::NoteStore(const StoreUse& use) {
  MutexLock lock(&mutex_);
  store_ = use;
}

void ServerMetrics::NoteRetired(const Retired& retired) {
  MutexLock lock(&mutex_);
  store_ = retired.left;
  for (const RetiredCapture& capture : retired.captures) {
    RetiredCount& count = retired_[capture.reason];
    ++count.captures;
    count.bytes += capture.bytes;
  }
}

StoreUse ServerMetrics::store() const {
  MutexLock lock(&mutex_);
  return store_;
}

void ServerMetrics::AddTo(const aggregator::Hub& hub, const aggregator::RpcCounts& calls,
                          const rpc::GateCounts& gate, const AuditCounts& audit, Page& page) const {
  const aggregator::DaemonCounts counts = hub.daemons().counts();
  page.Gauge("lockstep_aggregator_build_info", "Always 1; the label is the version.")
      .Count(1, {{"version", LOCKSTEP_VERSION}});
  page.Gauge("lockstep_aggregator_daemons", "Daemons that are connected.").Count(counts.daemons);
  page.Gauge("lockstep_aggregator_ranks", "Processes that those daemons can capture.").Count(counts.ranks);
  AddCaptures(hub.captures().counts(), page);
  AddIngest(hub, page);
  calls.Write(page.Counter("lockstep_aggregator_rpc_requests_total",
                           "Calls that were answered, and streams that have ended."));
  AddConnections(gate, page);
  page.Counter("lockstep_aggregator_audit_lines_total", "Lines of the audit log, by outcome.")
      .Count(audit.failed, {{"outcome", "failed"}})
      .Count(audit.suppressed, {{"outcome", "suppressed"}})
      .Count(audit.written, {{"outcome", "written"}});
  MutexLock lock(&mutex_);
  AddReports(page);
  AddStore(page);
  AddJobs(page);
}

void ServerMetrics::AddReports(Page& page) const {
  page.Counter("lockstep_aggregator_reports_total", "Reports of captures, by outcome.")
      .Count(reports_failed_, {{"outcome", "failed"}})
      .Count(reports_written_, {{"outcome", "written"}});
  page.Histogram("lockstep_aggregator_report_duration_seconds",
                 "Time to read a capture, analyse it and write its report.", report_took_);
}

void ServerMetrics::AddStore(Page& page) const {
  page.Gauge("lockstep_aggregator_store_captures", "Stored captures at the last cleanup.")
      .Count(store_.captures);
  page.Gauge("lockstep_aggregator_store_bytes", "Bytes of those captures.").Count(store_.bytes);
  const auto captures =
      page.Counter("lockstep_aggregator_retired_captures_total",
                   "Captures that were removed because of --keep-age, --keep-bytes, --keep-captures and "
                   "--keep-user-bytes.");
  for (const auto& [limit, count] : retired_) captures.Count(count.captures, {{"limit", limit}});
  const auto bytes = page.Counter("lockstep_aggregator_retired_bytes_total", "Bytes of those captures.");
  for (const auto& [limit, count] : retired_) bytes.Count(count.bytes, {{"limit", limit}});
}

void ServerMetrics::AddJobs(Page& page) const {
  const auto at = page.Gauge("lockstep_aggregator_job_report_timestamp_seconds",
                             "Time of the job's last report, in seconds since 1970.");
  for (const Job& job : jobs_) at.Seconds(job.reported_at, {{"job", job.name}});
  const auto step =
      page.Gauge("lockstep_aggregator_job_step_seconds", "Length of a step in the job's last report.");
  for (const Job& job : jobs_) {
    if (job.report.step_ns) step.Seconds(Whole(*job.report.step_ns), {{"job", job.name}});
  }
  const auto lost = page.Gauge(
      "lockstep_aggregator_job_lost_seconds_per_step",
      "Time that a step loses to ranks that are slower than their peers, in the job's last report.");
  for (const Job& job : jobs_) {
    if (job.report.lost_ns_per_step) lost.Seconds(Whole(*job.report.lost_ns_per_step), {{"job", job.name}});
  }
  const auto ratio = page.Gauge("lockstep_aggregator_job_slowdown_ratio",
                                "Length of a step over that without stragglers, in the job's last report.");
  for (const Job& job : jobs_) {
    if (job.report.ratio) ratio.Number(*job.report.ratio, {{"job", job.name}});
  }
  const auto stragglers =
      page.Gauge("lockstep_aggregator_job_stragglers", "Entries of stragglers in the job's last report.");
  for (const Job& job : jobs_) stragglers.Count(job.report.stragglers, {{"job", job.name}});
}

}  // namespace lockstep::aggregator
