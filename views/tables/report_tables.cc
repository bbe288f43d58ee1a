// The tables of report.json (docs/formats/report.md), flattened: a list inside a row becomes a text, an
// object its members.
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "views/tables/tables.h"

namespace lockstep::tables {
namespace {

using report::BreakdownRow;
using report::CollectiveRow;
using report::LossRow;
using report::RankRow;
using report::Report;
using report::StepRow;
using report::StragglerRow;

struct StepRankPlace {
  const StepRow* step;
  const report::StepRankRow* rank;
};

struct StragglerPlace {
  uint32_t place;
  const StragglerRow* row;
};

// Between the elements of a list of numbers or names, and of sentences.
constexpr const char* kBetween = ";";
constexpr const char* kBetweenSentences = " | ";

std::string Joined(const std::vector<RankId>& ranks) {
  return absl::StrJoin(ranks, kBetween,
                       [](std::string* out, RankId rank) { absl::StrAppend(out, rank.value()); });
}

std::optional<double> Low(const std::optional<report::Range>& range) {
  return range ? std::optional(range->low) : std::nullopt;
}
std::optional<double> High(const std::optional<report::Range>& range) {
  return range ? std::optional(range->high) : std::nullopt;
}

// Of a text that the row holds.
std::optional<std::string_view> Shown(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}

// Who cannot tell when says 0 to 0.
std::optional<int64_t> Known(const LossRow& row, int64_t ns) {
  return row.from_ns == 0 && row.to_ns == 0 ? std::nullopt : std::optional(ns);
}

std::unique_ptr<TableSource> Ranks() {
  using R = RankRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"ranks", "What each (rank, device) did with its time."},
      [](const Input& in) -> uint64_t { return in.analysis.report.ranks.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.ranks) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          Make<R>("rank", "", "world rank", [](const R& r) { return r.rank; }),
          Make<R>("host", "", "name of its host", [](const R& r) { return std::string_view(r.host); }),
          Make<R>("device", "", "CUDA ordinal in its process", [](const R& r) { return r.device; }),
          Make<R>("device_name", "", "of the device; null: not recorded",
                  [](const R& r) { return Shown(r.device_name); }),
          Make<R>("device_uuid", "", "GPU-… or MIG-…, as nvidia-smi takes it",
                  [](const R& r) { return Shown(r.device_uuid); }),
          Make<R>("pid", "", "process, as its host numbers it", [](const R& r) { return r.pid; }),
          Make<R>("incarnation", "", "2 and up for a rank that came back",
                  [](const R& r) { return r.incarnation; }),
          Make<R>("span_ns", "ns", "first start to last end of device activity",
                  [](const R& r) { return r.span; }),
          Make<R>("compute_ns", "ns", "union of kernels that are not communication",
                  [](const R& r) { return r.compute; }),
          Make<R>("communication_ns", "ns", "union of communication kernels",
                  [](const R& r) { return r.communication; }),
          Make<R>("memory_ns", "ns", "union of copies and sets", [](const R& r) { return r.memory; }),
          Make<R>("overlap_ns", "ns", "compute and communication at once",
                  [](const R& r) { return r.overlap; }),
          Make<R>("overlap_fraction", "fraction", "overlap over communication",
                  [](const R& r) { return r.overlap_fraction; }),
          Make<R>("exposed_communication_ns", "ns", "communication without compute",
                  [](const R& r) { return r.exposed_communication; }),
          Make<R>("exposed_transfer_ns", "ns", "of that, moving data",
                  [](const R& r) { return r.exposed_transfer; }),
          Make<R>("exposed_wait_ns", "ns", "of that, waiting for other ranks",
                  [](const R& r) { return r.exposed_wait; }),
          Make<R>("exposed_unsplit_ns", "ns", "of that, what cannot be told apart",
                  [](const R& r) { return r.exposed_unsplit; }),
          Make<R>("exposed_memory_ns", "ns", "copies without compute or communication",
                  [](const R& r) { return r.exposed_memory; }),
          Make<R>("idle_ns", "ns", "span without any device activity", [](const R& r) { return r.idle; }),
          Make<R>("wait_ns", "ns", "sum over its collectives", [](const R& r) { return r.wait; }),
          Make<R>("transfer_ns", "ns", "sum over its collectives", [](const R& r) { return r.transfer; }),
          Make<R>("unsplit_ns", "ns", "sum over its collectives", [](const R& r) { return r.unsplit; }),
          Make<R>("wait_by_clock_ns", "ns", "the same waiting by latest start, on aligned clocks",
                  [](const R& r) { return r.wait_by_clock; }),
          Make<R>("caused_wait_ns", "ns", "waiting of others that ended when it came",
                  [](const R& r) { return r.caused_wait; }),
          Make<R>("late_from_before_ns", "ns", "median lateness of its steps' begin",
                  [](const R& r) { return r.late_from_before; }),
          Make<R>("gpu_utilization_fraction", "fraction", "part of the window with a kernel",
                  [](const R& r) { return r.gpu_utilization; }),
          Make<R>("sm_efficiency_fraction", "fraction", "of the multiprocessors",
                  [](const R& r) { return r.sm_efficiency; }),
          Make<R>("achieved_occupancy_fraction", "fraction", "of the warps",
                  [](const R& r) { return r.achieved_occupancy; }),
          Make<R>("tensor_core_fraction", "fraction", "of kernel time",
                  [](const R& r) { return r.tensor_core_fraction; }),
          Make<R>("gain_ns_per_step", "ns", "the step gets this much shorter with the rank made typical",
                  [](const R& r) { return r.gain_ns_per_step; }),
          Make<R>("gain_at_most_ns_per_step", "ns", "bound of that where it was not replayed",
                  [](const R& r) { return r.gain_at_most_ns_per_step; }),
          Make<R>("parallel_efficiency_fraction", "fraction", "compute over what elapsed for all ranks",
                  [](const R& r) { return r.parallel_efficiency; }),
      });
}

std::unique_ptr<TableSource> Steps() {
  using R = StepRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"steps", "Each step of the job."},
      [](const Input& in) -> uint64_t { return in.analysis.report.steps.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.steps) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          Make<R>("step", "", "number of the step", [](const R& r) { return r.step; }),
          Make<R>("duration_ns", "ns", "of the whole job's step", [](const R& r) { return r.duration; }),
          Make<R>("parallel_fraction", "fraction", "parallel efficiency: the product of the next three",
                  [](const R& r) { return r.efficiency.parallel; }),
          Make<R>("load_balance_fraction", "fraction", "mean over greatest compute",
                  [](const R& r) { return r.efficiency.load_balance; }),
          Make<R>("communication_fraction", "fraction", "communication efficiency",
                  [](const R& r) { return r.efficiency.communication; }),
          Make<R>("orchestration_fraction", "fraction", "what the hosts cost",
                  [](const R& r) { return r.efficiency.orchestration; }),
      });
}

std::unique_ptr<TableSource> StepRanks() {
  using R = StepRankPlace;
  return std::make_unique<TableOf<R>>(
      TableTitle{"step_ranks", "Each rank in each step."},
      [](const Input& in) {
        uint64_t rows = 0;
        for (const StepRow& step : in.analysis.report.steps) rows += step.ranks.size();
        return rows;
      },
      [](const Input& in, RowSink<R>& out) {
        for (const StepRow& step : in.analysis.report.steps) {
          for (const report::StepRankRow& rank : step.ranks) out.Add({&step, &rank});
        }
      },
      std::vector<ColumnOf<R>>{
          Make<R>("step", "", "number of the step", [](const R& r) { return r.step->step; }),
          Make<R>("rank", "", "world rank", [](const R& r) { return r.rank->rank; }),
          Make<R>("duration_ns", "ns", "of its step", [](const R& r) { return r.rank->duration; }),
          Make<R>("self_ns", "ns", "of that, not waiting for other ranks",
                  [](const R& r) { return r.rank->self; }),
          Make<R>("wait_ns", "ns", "waiting for other ranks", [](const R& r) { return r.rank->wait; }),
          Make<R>("overlap_ns", "ns", "compute and communication at once",
                  [](const R& r) { return r.rank->overlap; }),
          Make<R>("lost_ns", "ns", "what it cost the job in this step",
                  [](const R& r) { return r.rank->lost; }),
      });
}

std::unique_ptr<TableSource> StepBreakdown() {
  using R = BreakdownRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"step_breakdown", "Where a rank's average step goes, as TensorBoard's plugin cuts it."},
      [](const Input& in) -> uint64_t { return in.analysis.report.step_breakdown.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.step_breakdown) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          Make<R>("rank", "", "world rank", [](const R& r) { return r.rank; }),
          Make<R>("kernel_ns", "ns", "kernels", [](const R& r) { return r.kernel; }),
          Make<R>("memcpy_ns", "ns", "copies outside kernels", [](const R& r) { return r.memcpy; }),
          Make<R>("memset_ns", "ns", "sets outside those", [](const R& r) { return r.memset; }),
          Make<R>("communication_ns", "ns", "communication outside those",
                  [](const R& r) { return r.communication; }),
          Make<R>("runtime_ns", "ns", "CUDA calls outside those", [](const R& r) { return r.runtime; }),
          Make<R>("dataloader_ns", "ns", "data loading outside those",
                  [](const R& r) { return r.dataloader; }),
          Make<R>("cpu_exec_ns", "ns", "operators outside those", [](const R& r) { return r.cpu_exec; }),
          Make<R>("other_ns", "ns", "the rest", [](const R& r) { return r.other; }),
      });
}

std::unique_ptr<TableSource> Collectives() {
  using R = CollectiveRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"collectives", "Each operation of each communicator, its instances summed."},
      [](const Input& in) -> uint64_t { return in.analysis.report.collectives.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.collectives) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          Make<R>("group", "", "communicator", [](const R& r) { return std::string_view(r.group); }),
          Make<R>("group_size", "", "ranks of the communicator", [](const R& r) { return r.group_size; }),
          Make<R>("op", "", "operation", [](const R& r) { return std::string_view(r.op); }),
          Make<R>("count", "", "instances", [](const R& r) { return r.count; }),
          Make<R>("bytes", "bytes", "of one rank, summed over instances", [](const R& r) { return r.bytes; }),
          Make<R>("duration_ns", "ns", "summed over members and instances",
                  [](const R& r) { return r.duration; }),
          Make<R>("wait_ns", "ns", "of that, waiting for other ranks", [](const R& r) { return r.wait; }),
          Make<R>("transfer_ns", "ns", "of that, moving data", [](const R& r) { return r.transfer; }),
          Make<R>("skew_mean_ns", "ns", "latest minus earliest start, mean",
                  [](const R& r) { return r.skew_mean; }),
          Make<R>("skew_p50_ns", "ns", "median", [](const R& r) { return r.skew_p50; }),
          Make<R>("skew_p99_ns", "ns", "99th percentile", [](const R& r) { return r.skew_p99; }),
          Make<R>("skew_max_ns", "ns", "greatest", [](const R& r) { return r.skew_max; }),
          Make<R>("algbw_gbps", "gbps", "bytes over transfer time, 10^9 bytes per second",
                  [](const R& r) { return r.algbw_gbps; }),
          Make<R>("busbw_gbps", "gbps", "the same as nccl-tests' bus bandwidth",
                  [](const R& r) { return r.busbw_gbps; }),
          Make<R>("last_arrivals", "", "who came last how often, as rank:count;…",
                  [](const R& r) {
                    return absl::StrJoin(r.last_arrivals, kBetween, [](std::string* out, const R::Last& l) {
                      absl::StrAppend(out, l.rank.value(), ":", l.count);
                    });
                  }),
      });
}

std::unique_ptr<TableSource> Stragglers() {
  using R = StragglerPlace;
  return std::make_unique<TableOf<R>>(
      TableTitle{"stragglers",
                 "Who holds the job back, why, and what fixing it gains; the most costly first."},
      [](const Input& in) -> uint64_t { return in.analysis.report.stragglers.size(); },
      [](const Input& in, RowSink<R>& out) {
        uint32_t place = 0;
        for (const StragglerRow& row : in.analysis.report.stragglers) out.Add({place++, &row});
      },
      std::vector<ColumnOf<R>>{
          Make<R>("place", "", "place in report.json's list, from 0", [](const R& r) { return r.place; }),
          Make<R>("kind", "", "rank, host, stage, group, data, job",
                  [](const R& r) { return std::string_view(r.row->kind); }),
          Make<R>("ranks", "", "separated by ;", [](const R& r) { return Joined(r.row->ranks); }),
          Make<R>("hosts", "", "separated by ;",
                  [](const R& r) { return absl::StrJoin(r.row->hosts, kBetween); }),
          Make<R>("cause", "", "docs/causes.md", [](const R& r) { return std::string_view(r.row->cause); }),
          Make<R>("lost_ns_per_step", "ns", "what it costs the job",
                  [](const R& r) { return r.row->lost_ns_per_step; }),
          Make<R>("share_fraction", "fraction", "of all that is lost",
                  [](const R& r) { return r.row->share; }),
          Make<R>("gain_ns_per_step", "ns", "what fixing it gains",
                  [](const R& r) { return r.row->gain_ns_per_step; }),
          Make<R>("gain_low_ns_per_step", "ns", "its interval",
                  [](const R& r) { return Low(r.row->gain_interval); }),
          Make<R>("gain_high_ns_per_step", "ns", "its interval",
                  [](const R& r) { return High(r.row->gain_interval); }),
          Make<R>("verdict", "", "sure, likely, undecided",
                  [](const R& r) { return std::string_view(r.row->verdict); }),
          Make<R>("confidence_fraction", "fraction", "of the verdict",
                  [](const R& r) { return r.row->confidence; }),
          Make<R>("since_step", "", "first step that shows it", [](const R& r) { return r.row->since_step; }),
          Make<R>("until_step", "", "last one; null: up to the end",
                  [](const R& r) { return r.row->until_step; }),
          Make<R>("affected_steps_fraction", "fraction", "part of the steps",
                  [](const R& r) { return r.row->affected_steps; }),
          Make<R>("excess_before_ns", "ns", "own work beyond its peers', per step, before",
                  [](const R& r) { return r.row->excess_before_ns; }),
          Make<R>("excess_since_ns", "ns", "the same, in the affected steps",
                  [](const R& r) { return r.row->excess_since_ns; }),
          Make<R>("caused_wait_ns_per_step", "ns", "waiting of others that it caused",
                  [](const R& r) { return r.row->caused_wait_ns_per_step; }),
          Make<R>("delayed_ranks", "", "how many waited", [](const R& r) { return r.row->delayed_ranks; }),
          Make<R>("evidence", "", "sentences separated by ' | '",
                  [](const R& r) { return absl::StrJoin(r.row->evidence, kBetweenSentences); }),
          Make<R>("action", "", "what to do", [](const R& r) { return std::string_view(r.row->action); }),
      });
}

std::unique_ptr<TableSource> Losses() {
  using R = LossRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"losses", "Records that did not get here; other tables lack them."},
      [](const Input& in) -> uint64_t { return in.analysis.report.capture.losses.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.capture.losses) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          Make<R>("rank", "", "world rank", [](const R& r) { return r.rank; }),
          Make<R>("stage", "", "where they were lost", [](const R& r) { return std::string_view(r.stage); }),
          Make<R>("kind", "", "of record; null where the loser cannot tell",
                  [](const R& r) {
                    return r.kind.empty() ? std::nullopt : std::optional<std::string_view>(r.kind);
                  }),
          Make<R>("records", "", "how many", [](const R& r) { return r.records; }),
          Make<R>("from_ns", "ns", "not before this, on the host's clock; null: not known",
                  [](const R& r) { return Known(r, r.from_ns); }),
          Make<R>("to_ns", "ns", "not after this", [](const R& r) { return Known(r, r.to_ns); }),
          Make<R>("reason", "", "in words", [](const R& r) { return std::string_view(r.reason); }),
      });
}

}  // namespace

void AddReportTables(Sources& out) {
  out.push_back(Ranks());
  out.push_back(Steps());
  out.push_back(StepRanks());
  out.push_back(StepBreakdown());
  out.push_back(Collectives());
  out.push_back(Stragglers());
  out.push_back(Losses());
}

}  // namespace lockstep::tables
