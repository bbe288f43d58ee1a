// Analyst analyses captures and samples for the aggregator.
//
// ChildAnalyst (child_analyst.h) does it in child processes with limits: the rows come from daemons and
// clients of all users. LocalAnalyst (local_analyst.h) does it in this process, which is acceptable only if
// the process runs as the user whose job it captures.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ANALYST_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ANALYST_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aggregator/live/sample.h"
#include "base/ids.h"

namespace lockstep::aggregator {

// A stored capture or sample.
struct StoredCapture {
  std::string folder;  // holds records/; its name is the capture's id
  uid_t owner = 0;     // the user of the job
};

// report.html takes the most time and space, and only the pages show it.
enum class WritesPage : uint8_t { kNo, kYes };

struct IncompleteReason {
  RankId rank = kNoRank;
  std::string reason;
};

// The facts of a report that the aggregator needs beside its files.
struct ReportFacts {
  std::vector<IncompleteReason> incomplete;
  uint64_t stragglers = 0;
  std::optional<double> step_ns;
  std::optional<double> ratio;
  std::optional<double> lost_ns_per_step;
};

// Thread-safe.
class Analyst {
 public:
  virtual ~Analyst() = default;

  // Analyses the capture and writes report.json, report.txt and, if requested, report.html into its folder.
  // On an error it leaves no new file there. The message names the capture, and the limit with its option.
  // kResourceExhausted: memory, rows, size of the report. kDeadlineExceeded: time. kInternal: the analysis
  // crashed. kUnavailable: after Shutdown. Other errors are those of formats::LoadCapture and of the system.
  virtual absl::StatusOr<ReportFacts> Report(const StoredCapture& capture, WritesPage page) = 0;
  // Analyses a sample. Fails like Report.
  virtual absl::StatusOr<Summary> Sample(const StoredCapture& capture) = 0;
  // Ends the analyses that run or wait, and refuses others: kUnavailable.
  virtual void Shutdown() = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ANALYST_H_
