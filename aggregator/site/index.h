// The index of jobs and captures, as a value and as the JSON document that the page requests:
// lockstep.index/1, docs/formats/index.md.
#ifndef LOCKSTEP_AGGREGATOR_SITE_INDEX_H_
#define LOCKSTEP_AGGREGATOR_SITE_INDEX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::aggregator {

struct JobRow {
  std::string job;
  uint32_t uid = 0;
  uint32_t ranks = 0;                  // number of ranks that can be captured now
  std::optional<uint32_t> world_size;  // nullopt: no rank states it
  std::vector<std::string> hosts;      // hosts of those ranks, sorted
  std::string state;                   // "running", "incomplete", "gone"
  JobTime last_seen;
  // Of jobs whose steps are compared (docs/noticing.md): the time of a step, and that of earlier minutes, the
  // newest last.
  std::optional<Nanos> step;
  std::vector<Nanos> trend;
  std::vector<RankId> slow_ranks;  // those that are slower than they were
  // The hang, or else the newest slowdown that has not ended: "hang" or "slower", and a sentence.
  std::optional<std::string> alarm, alarm_text;
  // Of `lockstep record on`: the length of a window, and from begin to begin.
  std::optional<Nanos> window, period;
};

// nullopt becomes null in the document: unknown, never 0.
struct CaptureRow {
  std::string id, job;
  std::optional<uint32_t> uid;
  // "arming", "starting", "capturing", "draining", "analysing" while it runs; then "done", "partial" or
  // "failed".
  std::string state;
  std::string text;  // explains the state; with a report, its verdict
  std::optional<int64_t> start_unix_ns;
  std::optional<Nanos> duration;
  std::optional<uint32_t> world_size, ranks, hosts, steps;
  std::optional<uint64_t> missing_ranks, lost_records, records, bytes;
  // From the first entry of the report's stragglers.
  std::vector<int64_t> culprit_ranks;
  std::optional<std::string> cause, verdict;
  std::optional<double> gain_ns_per_step, slowdown_ratio;
  std::vector<std::string> files;  // available below captures/ID/
};

struct Index {
  std::string program;              // name and version of the aggregator
  std::vector<std::string> listen;  // addresses for daemons and the CLI
  uint64_t daemons = 0;
  uint64_t unread = 0;  // stored captures not read yet; the next document has more
  std::vector<JobRow> jobs;
  std::vector<CaptureRow> captures;  // newest first
};

// Returns one JSON document that ends in a newline. Equal values give equal bytes.
std::string IndexToJson(const Index& index);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_INDEX_H_
