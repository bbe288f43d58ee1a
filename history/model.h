// The values that a history keeps of a capture. The members are the columns of the tables (tables.h), which
// give their meaning and unit. nullopt is a column's null: unknown, never 0.
#ifndef LOCKSTEP_HISTORY_MODEL_H_
#define LOCKSTEP_HISTORY_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::history {

// A row of `captures`.
struct CaptureHead {
  std::string id;
  std::string job;
  std::string job_id;
  std::string source;
  JobTime captured;
  HostTime added;
  std::optional<Nanos> duration;
  int64_t world_size = 0;
  int64_t hosts = 0;
  int64_t steps = 0;
  bool partial = false;
  int64_t lost_records = 0;
  std::optional<double> step_ns;
  std::optional<double> ideal_step_ns;
  std::optional<double> lost_ns_per_step;
  std::optional<double> noise_floor_ns_per_step;
  std::optional<double> exposed_ns_per_step;
  std::optional<double> idle_fraction;
  std::optional<double> parallel_efficiency;
  std::optional<double> load_balance;
  std::optional<double> communication_efficiency;
  std::optional<double> orchestration;
  std::optional<double> gain_ns_per_step;
  std::string verdict;
};

struct Label {
  std::string name;
  std::string value;
  bool operator==(const Label&) const = default;
};

struct RankSummary {
  RankId rank;
  std::string host;
  int64_t device = 0;
  std::optional<std::string> device_name;
  std::optional<std::string> device_uuid;
  Nanos compute;
  Nanos exposed_communication;
  Nanos idle;
  Nanos caused_wait;
  std::optional<double> gain_ns_per_step;
};

struct StepSummary {
  int64_t step = 0;
  Nanos duration;
  std::optional<double> parallel_efficiency;
  std::optional<double> load_balance;
  std::optional<double> communication_efficiency;
  std::optional<double> orchestration;
  std::optional<double> wait_ns;
  std::optional<double> overlap_ns;
  std::optional<RankId> costliest_rank;
  std::optional<Nanos> costliest_lost;
};

struct FindingRank {
  RankId rank;
  std::string host;
};

struct Finding {
  std::string list;
  std::string kind;
  std::string cause;
  std::optional<double> lost_ns_per_step;
  std::optional<double> gain_ns_per_step;
  std::string verdict;
  std::optional<double> confidence;
  std::optional<int64_t> since_step;
  std::string action;
  std::vector<FindingRank> ranks;
};

inline constexpr char kStragglers[] = "stragglers";
inline constexpr char kSharedLosses[] = "shared_losses";

// All that a history keeps of a capture.
struct CaptureSummary {
  CaptureHead head;
  std::vector<Label> labels;  // by name
  std::vector<RankSummary> ranks;
  std::vector<StepSummary> steps;
  std::vector<Finding> findings;
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_MODEL_H_
