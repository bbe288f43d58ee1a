// The index of jobs and captures as a value, and as the document that the page asks for: lockstep.index/1,
// docs/formats/index.md.
#ifndef LOCKSTEP_AGGREGATOR_SITE_INDEX_H_
#define LOCKSTEP_AGGREGATOR_SITE_INDEX_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"

namespace lockstep::site {

struct JobRow {
  std::string job;
  uint32_t uid = 0;
  uint32_t ranks = 0;                  // that can be captured now
  std::optional<uint32_t> world_size;  // nullopt: no rank says
  std::vector<std::string> hosts;      // of those ranks, sorted
  std::string state;                   // "running", "incomplete", "gone"
  JobTime last_seen;
};

// nullopt is null in the document: unknown, never 0.
struct CaptureRow {
  std::string id, job;
  std::optional<uint32_t> uid;
  // "arming", "starting", "capturing", "draining", "analysing" while it runs; then "done", "partial" or
  // "failed".
  std::string state;
  std::string text;  // what there is to say of the state; for one with a report its verdict
  std::optional<int64_t> start_unix_ns;
  std::optional<Nanos> duration;
  std::optional<uint32_t> world_size, ranks, hosts, steps;
  std::optional<uint64_t> missing_ranks, lost_records, records, bytes;
  // Of the first entry of the report's stragglers.
  std::vector<int64_t> culprit_ranks;
  std::optional<std::string> cause, verdict;
  std::optional<double> gain_ns_per_step, slowdown_ratio;
  std::vector<std::string> files;  // that can be asked for below captures/ID/
};

struct Index {
  std::string program;              // name and version of who answers
  std::vector<std::string> listen;  // where daemons and the CLI reach it
  uint64_t daemons = 0;
  uint64_t unread =
      0;  // kept captures that have not been looked into yet: the next document has more of them
  std::vector<JobRow> jobs;
  std::vector<CaptureRow> captures;  // newest first
};

// One JSON document ending in a newline; the same value gives the same bytes.
std::string IndexToJson(const Index& index);

}  // namespace lockstep::site

#endif  // LOCKSTEP_AGGREGATOR_SITE_INDEX_H_
