#include "aggregator/site/live_rows.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/notice/slowdown_text.h"

namespace lockstep::aggregator {
namespace {

using v1::RankState;

// The ranks of one job on the connected daemons.
struct Here {
  std::set<int32_t> ranks;
  uint32_t unnumbered = 0;  // processes without a rank number
  std::set<std::string> hosts;
};

const char* DescribeState(RankState::State state) {
  switch (state) {
    case RankState::ARMED:
      return "armed";
    case RankState::CAPTURING:
      return "recording";
    case RankState::WAITING:
      return "waiting for their trigger";
    case RankState::DONE:
      return "done";
    case RankState::FAILED:
      return "failed";
    case RankState::GONE:
      return "gone";
    default:
      return "asked";
  }
}

void AddSteps(const v1::JobSteps& steps, JobRow& row) {
  row.step = Nanos(steps.step_time_ns());
  for (const int64_t ns : steps.trend_ns()) row.trend.emplace_back(ns);
  for (const v1::Slowdown& slowdown : steps.slowdowns()) {
    if (slowdown.ended_unix_ns() != 0) continue;
    row.slow_ranks.emplace_back(slowdown.rank());
    row.alarm = "slower";
    row.alarm_text = SlowdownText(slowdown);
  }
}

void AddHang(const v1::JobHang& hang, JobRow& row) {
  if (hang.ended_unix_ns() != 0) return;
  row.alarm = "hang";
  row.alarm_text = hang.sentence();
}

// Adds what was noticed in the running jobs.
void AddNoticed(const v1::StatusReply& status, std::vector<JobRow>& rows) {
  std::map<aggregator::JobKey, JobRow*> by_job;
  for (JobRow& row : rows) {
    if (row.ranks > 0) by_job[{row.job, row.uid}] = &row;
  }
  const auto row_of = [&](const auto& noticed) {
    const auto at = by_job.find({noticed.job(), noticed.uid()});
    return at == by_job.end() ? nullptr : at->second;
  };
  for (const v1::JobSteps& steps : status.jobs()) {
    if (JobRow* row = row_of(steps)) AddSteps(steps, *row);
  }
  for (const v1::JobHang& hang : status.hangs()) {
    if (JobRow* row = row_of(hang)) AddHang(hang, *row);
  }
  for (const v1::JobRecording& recording : status.recordings()) {
    if (JobRow* row = row_of(recording)) {
      row->window = Nanos(recording.window_ns());
      row->period = Nanos(recording.period_ns());
    }
  }
}

}  // namespace

std::vector<JobRow> JobRows(const v1::StatusReply& status,
                            const std::map<aggregator::JobKey, aggregator::SeenJob>& seen) {
  std::map<aggregator::JobKey, Here> here;
  for (const v1::DaemonStatus& daemon : status.daemons()) {
    for (const v1::Rank& rank : daemon.ranks()) {
      Here& job = here[{rank.job(), rank.uid()}];
      job.hosts.insert(daemon.host_name());
      if (rank.rank() >= 0) job.ranks.insert(rank.rank());
      if (rank.rank() < 0) ++job.unnumbered;
    }
  }
  std::vector<JobRow> rows;
  for (const auto& [key, job] : seen) {
    JobRow row{.job = key.job, .uid = key.uid};
    row.last_seen = job.last_seen;
    if (job.world_size > 0) row.world_size = static_cast<uint32_t>(job.world_size);
    const auto at = here.find(key);
    if (at != here.end()) {
      row.ranks = static_cast<uint32_t>(at->second.ranks.size()) + at->second.unnumbered;
      row.hosts.assign(at->second.hosts.begin(), at->second.hosts.end());
    }
    row.state = row.ranks == 0 ? "gone" : row.ranks < row.world_size.value_or(1) ? "incomplete" : "running";
    rows.push_back(std::move(row));
  }
  AddNoticed(status, rows);
  std::stable_sort(rows.begin(), rows.end(), [](const JobRow& a, const JobRow& b) {
    return std::tuple(a.ranks == 0, -a.last_seen.ns()) < std::tuple(b.ranks == 0, -b.last_seen.ns());
  });
  return rows;
}

CaptureRow RunningRow(const aggregator::RunningCapture& capture) {
  const v1::CaptureStatus& status = capture.status;
  CaptureRow row;
  row.id = status.capture();
  row.job = status.job();
  row.uid = capture.uid;
  // "closed" means that the records are complete and the report is being made.
  row.state = status.phase() == "closed" ? "analysing" : status.phase();
  row.start_unix_ns = status.started_unix_ns();
  if (capture.world_size > 0) row.world_size = static_cast<uint32_t>(capture.world_size);
  row.ranks = static_cast<uint32_t>(status.states_size());
  row.missing_ranks = capture.missing_ranks;
  row.records = status.records();
  std::map<RankState::State, int> by_state;
  for (const RankState& state : status.states()) ++by_state[state.state()];
  for (const auto& [state, count] : by_state)
    absl::StrAppend(&row.text, row.text.empty() ? "" : ", ", count, " ", DescribeState(state));
  return row;
}

}  // namespace lockstep::aggregator
