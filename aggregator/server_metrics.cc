#include "aggregator/server_metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {
namespace {

using metrics::Page;
using Outcome = v1::TraceFinished;

Nanos Whole(double ns) { return Nanos(std::llround(ns)); }

void AddCaptures(const ingest::HubStats& stats, Page& page) {
  page.Gauge("lockstep_aggregator_captures_running", "Captures that have not ended, their reports included.")
      .Count(stats.captures_running);
  const auto ended = page.Counter("lockstep_aggregator_captures_total",
                                  "Captures that were asked for and have ended, by how.");
  for (const auto& [outcome, name] : {std::pair(Outcome::COMPLETE, "complete"),
                                      {Outcome::FAILED, "failed"},
                                      {Outcome::NO_SUCH_JOB, "no_such_job"},
                                      {Outcome::PARTIAL, "partial"},
                                      {Outcome::TIMED_OUT, "timed_out"}}) {
    const auto it = stats.captures.find(outcome);
    ended.Count(it == stats.captures.end() ? 0 : it->second, {{"outcome", name}});
  }
  const auto samples = page.Counter("lockstep_aggregator_samples_total",
                                    "Short captures for `lockstep top` that have ended, by how.");
  for (const auto& [outcome, name] : {std::pair(Outcome::COMPLETE, "complete"),
                                      {Outcome::FAILED, "failed"},
                                      {Outcome::PARTIAL, "partial"},
                                      {Outcome::TIMED_OUT, "timed_out"}}) {
    const auto it = stats.samples.find(outcome);
    samples.Count(it == stats.samples.end() ? 0 : it->second, {{"outcome", name}});
  }
  page.Histogram("lockstep_aggregator_capture_duration_seconds", "From the request to the report.",
                 stats.capture_took);
}

void AddIngest(const ingest::Hub& hub, const ingest::HubStats& stats, Page& page) {
  page.Counter("lockstep_aggregator_ingested_messages_total",
               "Messages of daemons that were stored or taken note of.")
      .Count(stats.batches, {{"kind", "batch"}})
      .Count(stats.ends, {{"kind", "end"}})
      .Count(stats.gaps, {{"kind", "gap"}})
      .Count(stats.trace_pieces, {{"kind", "trace_file"}});
  page.Counter("lockstep_aggregator_ingested_records_total", "Records in the batches that were stored.")
      .Count(stats.records);
  page.Counter("lockstep_aggregator_ingested_bytes_total", "Bytes stored, as they came.")
      .Count(stats.record_bytes, {{"kind", "batch"}})
      .Count(stats.trace_bytes, {{"kind", "trace_file"}});
  page.Counter("lockstep_aggregator_duplicate_messages_total",
               "Messages that came again and were stored before.")
      .Count(stats.duplicates);
  page.Counter("lockstep_aggregator_discarded_messages_total", "Messages of captures that do not run here.")
      .Count(stats.discarded);
  page.Counter("lockstep_aggregator_missing_messages_total",
               "Messages that never came and that no gap explains.")
      .Count(stats.missing);
  hub.losses().Write(page.Counter(
      "lockstep_aggregator_lost_records_total",
      "Records that were lost on the way to this disk, by the stage that lost them and their kind."));
}

}  // namespace

void ServerMetrics::NoteReport(const std::optional<report::Report>& report, Nanos took, Nanos now) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++(report ? reports_written_ : reports_failed_);
  if (!report) return;
  report_took_.Observe(took);
  Job job = {report->capture.job.substr(0, kLongestJob), report->slowdown, report->stragglers.size(), now};
  jobs_.erase(std::remove_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.name == job.name; }),
              jobs_.end());
  jobs_.push_back(std::move(job));
  if (jobs_.size() > kMostJobs) jobs_.pop_front();
}

void ServerMetrics::NoteStore(const StoreUse& use) {
  std::lock_guard<std::mutex> lock(mutex_);
  store_ = use;
}

void ServerMetrics::NoteRetired(const Retired& retired) {
  std::lock_guard<std::mutex> lock(mutex_);
  store_ = retired.left;
  for (const RetiredCapture& capture : retired.captures) {
    RetiredCount& count = retired_[capture.reason];
    ++count.captures;
    count.bytes += capture.bytes;
  }
}

StoreUse ServerMetrics::store() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return store_;
}

void ServerMetrics::AddTo(const ingest::Hub& hub, const ingest::RpcCounts& calls, const AuditCounts& audit,
                          Page& page) const {
  const ingest::HubStats stats = hub.stats();
  page.Gauge("lockstep_aggregator_build_info", "1; the version is the label.")
      .Count(1, {{"version", LOCKSTEP_VERSION}});
  page.Gauge("lockstep_aggregator_daemons", "Daemons that are connected.").Count(stats.daemons);
  page.Gauge("lockstep_aggregator_ranks", "Processes that those daemons can capture.").Count(stats.ranks);
  AddCaptures(stats, page);
  AddIngest(hub, stats, page);
  calls.Write(page.Counter("lockstep_aggregator_rpc_requests_total",
                           "Calls that were answered, and streams that have ended."));
  page.Counter("lockstep_aggregator_audit_lines_total", "Lines of the audit log, by what became of them.")
      .Count(audit.failed, {{"outcome", "failed"}})
      .Count(audit.suppressed, {{"outcome", "suppressed"}})
      .Count(audit.written, {{"outcome", "written"}});
  std::lock_guard<std::mutex> lock(mutex_);
  AddReports(page);
  AddStore(page);
  AddJobs(page);
}

void ServerMetrics::AddReports(Page& page) const {
  page.Counter("lockstep_aggregator_reports_total", "Reports of captures, by whether they could be made.")
      .Count(reports_failed_, {{"outcome", "failed"}})
      .Count(reports_written_, {{"outcome", "written"}});
  page.Histogram("lockstep_aggregator_report_duration_seconds",
                 "Reading a capture, analysing it and writing its report.", report_took_);
}

void ServerMetrics::AddStore(Page& page) const {
  page.Gauge("lockstep_aggregator_store_captures", "Captures that were kept when it was last looked.")
      .Count(store_.captures);
  page.Gauge("lockstep_aggregator_store_bytes", "Bytes of those captures.").Count(store_.bytes);
  const auto captures =
      page.Counter("lockstep_aggregator_retired_captures_total",
                   "Captures that were removed to keep within --keep-age, --keep-bytes and --keep-captures.");
  for (const auto& [limit, count] : retired_) captures.Count(count.captures, {{"limit", limit}});
  const auto bytes = page.Counter("lockstep_aggregator_retired_bytes_total", "Bytes of those captures.");
  for (const auto& [limit, count] : retired_) bytes.Count(count.bytes, {{"limit", limit}});
}

void ServerMetrics::AddJobs(Page& page) const {
  const auto at = page.Gauge("lockstep_aggregator_job_report_timestamp_seconds",
                             "When the job's last report was made, in seconds since 1970.");
  for (const Job& job : jobs_) at.Seconds(job.reported_at, {{"job", job.name}});
  const auto step =
      page.Gauge("lockstep_aggregator_job_step_seconds", "Length of a step in the job's last report.");
  for (const Job& job : jobs_) {
    if (job.slowdown.step_ns) step.Seconds(Whole(*job.slowdown.step_ns), {{"job", job.name}});
  }
  const auto lost =
      page.Gauge("lockstep_aggregator_job_lost_seconds_per_step",
                 "What a step loses to ranks that are slower than their peers, in the job's last report.");
  for (const Job& job : jobs_) {
    if (job.slowdown.lost_ns_per_step)
      lost.Seconds(Whole(*job.slowdown.lost_ns_per_step), {{"job", job.name}});
  }
  const auto ratio = page.Gauge("lockstep_aggregator_job_slowdown_ratio",
                                "Length of a step over that without stragglers, in the job's last report.");
  for (const Job& job : jobs_) {
    if (job.slowdown.ratio) ratio.Number(*job.slowdown.ratio, {{"job", job.name}});
  }
  const auto stragglers =
      page.Gauge("lockstep_aggregator_job_stragglers", "Entries of stragglers in the job's last report.");
  for (const Job& job : jobs_) stragglers.Count(job.stragglers, {{"job", job.name}});
}

}  // namespace lockstep
