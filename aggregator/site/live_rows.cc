#include "aggregator/site/live_rows.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

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
