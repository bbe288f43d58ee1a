// Examines running jobs for hangs: looks at their progress, looks again if something waits, and explains it.
#ifndef LOCKSTEP_AGGREGATOR_NOTICE_HANG_EXAMINATION_H_
#define LOCKSTEP_AGGREGATOR_NOTICE_HANG_EXAMINATION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/hang/explain_hang.h"
#include "analysis/hang/hang_state.h"
#include "analysis/hang/ras_report.h"
#include "base/ids.h"
#include "base/time.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::aggregator {

struct ExplainedJob {
  std::string job;
  int32_t world_size = 0;
  analysis::HangExplanation explanation;
  uint32_t uid = 0;                       // as in HangJob
  std::map<RankId, std::string> hosts{};  // of its ranks
  // From NCCL's RAS, if it was asked: of a hang, or of a job whose ranks keep no progress. Of the latter, the
  // verdict is this report's.
  std::optional<analysis::RasReport> ras{};
};

struct ExplainedJobs {
  std::vector<ExplainedJob> jobs;
  std::vector<std::string> silent_hosts;  // those whose daemon did not answer a look that counts

  // True if no rank of any job keeps its progress, and RAS said nothing of any.
  bool SawNoRank() const;
  bool Any(analysis::HangExplanation::Verdict verdict) const;
};

struct HangExamination {
  std::string job;  // as in v1::ProgressRequest
  // Other jobs are left out; null: none is.
  std::function<bool(const analysis::HangJob&)> selects;
  Nanos after;  // as in ExplainHang
  enum class Stacks : uint8_t { kNone, kPython, kPythonAndNative };
  // The stacks of late ranks, at most 8 of a job. Native ones are read after a verdict kHang only, because
  // each thread is stopped for them.
  Stacks stacks = Stacks::kPythonAndNative;
  // NCCL's RAS: not asked; asked about hangs; also asked about jobs without progress, twice and `after`
  // apart, because RAS knows no times.
  enum class Ras : uint8_t { kNone, kOfHangs, kAlsoWithoutProgress };
  Ras ras = Ras::kNone;
  // Asks for the progress. It is called once, two more times if something waits, and twice at most for RAS.
  using Look = std::function<absl::StatusOr<std::unique_ptr<v1::ProgressReply>>(const v1::ProgressRequest&)>;
  Look look;
  // Called between two looks. It may return early. A second look shows which processes computed, and a third
  // one whose Python stacks have changed.
  std::function<void(Nanos)> sleep;
  Nanos between_looks = Nanos::Seconds(1);
};

// Fails if a look does.
absl::StatusOr<ExplainedJobs> ExplainRunningJobs(const HangExamination& examination);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NOTICE_HANG_EXAMINATION_H_
