// The report as a value. Names and meaning are those of report.json in docs/formats/report.md.
//
// Filled by Analyze (report.h), printed by the JSON and text writers. A plain value: copyable, any thread.
// nullopt is the document's null: unknown, never 0.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_MODEL_H_
#define LOCKSTEP_AGGREGATOR_REPORT_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::report {

struct LossRow {
  RankId rank;
  std::string stage;
  std::string kind;  // "kernel", …; empty where the loser cannot tell
  uint64_t records = 0;
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  std::string reason;
};

// A rank whose graphs ran without a record: what is called its idle time is not idle.
struct UnseenGraphsRow {
  RankId rank;
  uint64_t launches = 0;
};

struct HostClockRow {
  std::string host;
  std::optional<Nanos> offset;  // ahead of the job's clock, in the middle of the window
  std::optional<double> drift_ppm;
  std::optional<Nanos> bound;
  std::string method;  // "collectives", "network", "both", "none"
};

struct MatchingRow {
  uint64_t instances = 0;
  std::optional<double> matched_fraction;  // nullopt without communication
  uint64_t nccl_seq = 0, pg_seq = 0, graph = 0, order = 0, inferred = 0;
  uint64_t conflicts = 0;
  uint64_t unmatched = 0;
  uint64_t partial = 0;        // instances that lack ranks or records
  uint64_t cut_by_window = 0;  // kernels, as the next
  uint64_t partner_lost = 0;
};

struct CaptureRow {
  std::string id, job, source;
  std::optional<int64_t> start_unix_ns;
  std::optional<Nanos> duration;
  int32_t world_size = 0;
  uint32_t hosts = 0;
  uint32_t steps = 0;
  bool partial = false;
  std::vector<RankId> missing_ranks;
  std::vector<LossRow> losses;
  std::vector<UnseenGraphsRow> graphs_not_visible;
  std::optional<Nanos> clock_bound;
  std::vector<HostClockRow> clocks;
  MatchingRow matching;
  std::vector<std::string> notes;
};

struct RankRow {
  RankId rank;
  std::string host;
  uint32_t device = 0;
  std::optional<std::string> device_name, device_uuid;  // "GPU-…" or "MIG-…"
  int32_t pid = 0;
  uint32_t incarnation = 1;
  Nanos span, compute, communication, memory, overlap;
  std::optional<double> overlap_fraction;
  Nanos exposed_communication, exposed_transfer, exposed_wait, exposed_unsplit, exposed_memory, idle;
  std::optional<Nanos> wait, transfer;
  Nanos unsplit;
  std::optional<Nanos> wait_by_clock;
  Nanos caused_wait;  // waiting of other ranks that this one ended by arriving last, in the used steps
  // Begin of its steps after that on the earliest rank (median); of its first stamp in an import without step
  // ranges.
  std::optional<Nanos> late_from_before;
  std::optional<double> gpu_utilization, sm_efficiency, achieved_occupancy, tensor_core_fraction;
  // The step gets this much shorter with the rank made typical; nullopt where that was not replayed since it
  // is at most the second.
  std::optional<double> gain_ns_per_step, gain_at_most_ns_per_step;
  std::optional<double> parallel_efficiency;  // compute over what elapsed for all ranks together
  std::string source_file;                    // of an import; not in the document
};

// parallel == load_balance * communication * orchestration.
struct EfficiencyFactors {
  std::optional<double> parallel, load_balance, communication, orchestration;
};

struct StepRankRow {
  RankId rank;
  Nanos duration, self;
  std::optional<Nanos> wait;
  Nanos overlap;
  std::optional<Nanos> lost;
};

struct StepRow {
  int64_t step = 0;
  Nanos duration;
  EfficiencyFactors efficiency;
  std::vector<StepRankRow> ranks;
};

struct BreakdownRow {
  RankId rank;
  Nanos kernel, memcpy, memset, communication, runtime, dataloader, cpu_exec, other;
};

struct CollectiveRow {
  std::string group;
  int32_t group_size = 0;
  std::string op;
  uint64_t count = 0;
  std::optional<int64_t> bytes;  // of one rank, summed over the instances
  Nanos duration;                // summed over members and instances
  std::optional<Nanos> wait, transfer;
  std::optional<Nanos> skew_mean, skew_p50, skew_p99, skew_max;
  std::vector<uint32_t> skew_counts;  // instances by analysis::SkewBin(); for pictures, not in the document
  std::optional<double> algbw_gbps, busbw_gbps;
  struct Last {
    RankId rank;
    uint64_t count;
  };
  std::vector<Last> last_arrivals;
};

struct Range {
  double low = 0;
  double high = 0;
};

// Without an ideal step (analysis/diagnosis.h) only step_ns and the floor are known. ratio is below 1 by no
// more than the floor.
struct SlowdownRow {
  std::optional<double> step_ns, ideal_step_ns, ratio, lost_ns_per_step;
  std::optional<double> noise_floor_ns_per_step;  // nullopt with fewer than 3 steps
  std::optional<Range> interval;                  // of ratio
  std::optional<double> noise_ns_per_step, unlisted_ns_per_step, unexplained_ns_per_step;
};

struct StragglerRow {
  std::string kind;  // "rank", "host", "stage", "group", "data", "job"
  std::vector<RankId> ranks;
  std::vector<std::string> hosts;
  std::string cause;
  double lost_ns_per_step = 0;
  std::optional<double> share;
  std::optional<double> gain_ns_per_step;
  std::optional<Range> gain_interval;
  std::string verdict;  // "sure", "likely", "undecided"
  std::optional<double> confidence;
  std::optional<int64_t> since_step;
  std::optional<int64_t> until_step;  // nullopt: up to the last one
  double affected_steps = 1;          // part of the steps
  // Its own work beyond its peers', per step: before since_step, where the window holds that, and in the
  // affected steps.
  std::optional<double> excess_before_ns, excess_since_ns;
  double caused_wait_ns_per_step = 0;
  std::vector<std::string> evidence;
  uint32_t delayed_ranks = 0;
  std::string action;
  std::string fix;  // the same in a few words
};

struct FixRow {
  std::vector<uint32_t> entries;
  double gain_ns_per_step = 0;
  std::optional<Range> gain_interval;
};

// Waiting that a typical job would not have, by who caused it. Per step.
struct WaitingRow {
  double waited_ns_per_step = 0;  // summed over the ranks that waited
  double unexplained_ns_per_step = 0;
  bool by_host = false;
  std::vector<std::string> places;  // ranks or hosts
  struct Causer {
    RankId rank;
    std::string host;
    double direct_ns_per_step = 0, passed_on_ns_per_step = 0;
    uint32_t victims = 0;
    std::string path;  // in words
  };
  std::vector<Causer> causers;  // most waited for first
  struct Cell {
    uint32_t causer, victim;  // into places
    double wait_ns_per_step;
  };
  std::vector<Cell> cells;  // by causer, then victim; what is next to nothing is left out
};

struct EfficiencyRow {
  EfficiencyFactors factors;
  // load_balance == product of those that are known.
  std::optional<double> load_balance_stage, load_balance_data, load_balance_tensor;
  std::optional<double> serialisation, transfer;
  std::optional<double> serialisation_typical, serialisation_stragglers;  // their product is serialisation
  std::optional<double> critical_communication_ns_per_step;
  struct Group {
    std::string group;
    uint32_t ranks = 0;
    EfficiencyFactors factors;
  };
  std::vector<Group> groups;
};

struct Report {
  CaptureRow capture;
  std::vector<RankRow> ranks;
  std::vector<StepRow> steps;
  std::vector<BreakdownRow> step_breakdown;
  std::vector<CollectiveRow> collectives;
  SlowdownRow slowdown;
  std::vector<StragglerRow> stragglers;
  std::vector<FixRow> fixes;
  std::vector<std::string> not_the_cause;
  std::optional<WaitingRow> waiting;  // nullopt where nothing could be replayed
  EfficiencyRow efficiency;
  std::vector<std::string> recommendations;
};

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_MODEL_H_
