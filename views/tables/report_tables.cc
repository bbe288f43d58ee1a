// The tables of report.json (docs/formats/report.md), flattened: an object inside a row becomes its members.
// Columns that show a field as it is follow from report/fields/report.def.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "report/fields.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

using report::BreakdownRow;
using report::CollectiveRow;
using report::LossRow;
using report::RankRow;
using report::SkewRow;
using report::StepRow;
using report::StragglerRow;

struct StepRankPlace {
  const StepRow* step;
  const report::StepRankRow* rank;
};
const StepRow& StepOf(const StepRankPlace& place) { return *place.step; }
const report::StepRankRow& RankOf(const StepRankPlace& place) { return *place.rank; }

struct StragglerPlace {
  uint32_t place;
  const StragglerRow* row;
};
const StragglerRow& StragglerOf(const StragglerPlace& place) { return *place.row; }

std::optional<double> Low(const std::optional<report::Range>& range) {
  return range ? std::optional(range->low) : std::nullopt;
}
std::optional<double> High(const std::optional<report::Range>& range) {
  return range ? std::optional(range->high) : std::nullopt;
}

template <typename T>
T CellOf(const T& value) {
  return value;
}
// The texts of these cells belong to the row.
std::string_view CellOf(const std::string& text) { return text; }
std::optional<std::string_view> CellOf(const std::optional<std::string>& text) {
  return text ? std::optional<std::string_view>(*text) : std::nullopt;
}

// SQL programs read "gbps" as bits, but the report's bandwidths are 10^9 bytes per second.
constexpr std::string_view kReportBandwidth = "gbps";
constexpr std::string_view kBandwidth = "gb_per_s";

std::string_view ColumnUnit(std::string_view unit) { return unit == kReportBandwidth ? kBandwidth : unit; }

// The name of a column ends in its unit, and is not a keyword of SQL.
std::string ColumnName(std::string_view name, std::string_view unit) {
  if (name == "group") return "communicator";
  std::string out(name);
  if (unit == kReportBandwidth) out.replace(out.size() - unit.size(), unit.size(), kBandwidth);
  if (unit == "fraction" && !name.ends_with(unit)) out += "_fraction";
  return out;
}

// Leads from a row of the report to itself.
struct Itself {
  template <typename Row>
  const Row& operator()(const Row& row) const {
    return row;
  }
};

// Gives the value of a field. `from` leads from the row of the table to the row of the report.
template <auto from, auto get>
struct FieldCell {
  template <typename R>
  auto operator()(const R& row) const {
    return CellOf(std::invoke(get, std::invoke(from, row)));
  }
};

template <typename R, auto from, auto get>
ColumnOf<R> MakeFieldColumn(const report::Field<get>& field) {
  static const std::string name = ColumnName(field.name, field.unit);
  return Make<R>(name, ColumnUnit(field.unit), field.meaning, FieldCell<from, get>());
}

template <typename R, auto from, typename Visit>
void ForEachField(const Visit& visit) {
  report::Fields<std::remove_cvref_t<std::invoke_result_t<decltype(from), const R&>>>::ForEach(visit);
}

// Returns `first`, and a column for every field of a row of the report (report/fields/report.def).
template <typename R, auto from = Itself()>
std::vector<ColumnOf<R>> FieldColumns(std::vector<ColumnOf<R>> first = {}) {
  ForEachField<R, from>([&](const auto& field) { first.push_back(MakeFieldColumn<R, from>(field)); });
  return first;
}

// Returns the column of one field. A `name` replaces the field's.
template <typename R, auto member, auto from = Itself()>
ColumnOf<R> FieldColumn(std::string_view name = "") {
  std::optional<ColumnOf<R>> column;
  ForEachField<R, from>([&]<auto get>(const report::Field<get>& field) {
    if constexpr (std::is_same_v<report::Field<get>, report::Field<member>>)
      column = MakeFieldColumn<R, from>(field);
  });
  if (!name.empty()) column->about.name = name;
  return *column;
}

// A loss at an unknown time has 0 for both times.
std::optional<int64_t> Known(const LossRow& row, int64_t ns) {
  return row.from_ns == 0 && row.to_ns == 0 ? std::nullopt : std::optional(ns);
}

std::unique_ptr<TableSource> Ranks() {
  using R = RankRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"ranks", "Time of each rank and device."},
      [](const Input& in) -> uint64_t { return in.analysis.report.ranks.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.ranks) out.Add(row);
      },
      FieldColumns<R>());
}

std::unique_ptr<TableSource> Steps() {
  using R = StepRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"steps", "Each step of the job."},
      [](const Input& in) -> uint64_t { return in.analysis.report.steps.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.steps) out.Add(row);
      },
      FieldColumns<R, &R::efficiency>({
          FieldColumn<R, &R::step>(),
          FieldColumn<R, &R::duration>(),
      }));
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
      FieldColumns<R, RankOf>({FieldColumn<R, &StepRow::step, StepOf>()}));
}

std::unique_ptr<TableSource> StepBreakdown() {
  using R = BreakdownRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"step_breakdown", "Parts of a rank's mean step, as in TensorBoard's plugin."},
      [](const Input& in) -> uint64_t { return in.analysis.report.step_breakdown.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.step_breakdown) out.Add(row);
      },
      FieldColumns<R>());
}

template <auto member>
auto LastArrivals(const CollectiveRow& row) {
  std::vector<std::remove_cvref_t<std::invoke_result_t<decltype(member), const report::LastArrivalsRow&>>>
      out;
  for (const report::LastArrivalsRow& arrivals : row.last_arrivals) out.push_back(arrivals.*member);
  return out;
}

std::unique_ptr<TableSource> Collectives() {
  using R = CollectiveRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"collectives", "Each operation of each communicator, sums over its instances."},
      [](const Input& in) -> uint64_t { return in.analysis.report.collectives.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.collectives) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          FieldColumn<R, &R::group>(),
          FieldColumn<R, &R::group_size>(),
          FieldColumn<R, &R::op>(),
          FieldColumn<R, &R::count>(),
          FieldColumn<R, &R::bytes>(),
          FieldColumn<R, &R::bytes_count>(),
          FieldColumn<R, &R::duration>(),
          FieldColumn<R, &R::wait>(),
          FieldColumn<R, &R::transfer>(),
          FieldColumn<R, &SkewRow::mean, &R::skew>("skew_mean_ns"),
          FieldColumn<R, &SkewRow::p50, &R::skew>("skew_p50_ns"),
          FieldColumn<R, &SkewRow::p99, &R::skew>("skew_p99_ns"),
          FieldColumn<R, &SkewRow::max, &R::skew>("skew_max_ns"),
          FieldColumn<R, &R::algbw_gbps>(),
          FieldColumn<R, &R::busbw_gbps>(),
          Make<R>("last_ranks", "", "ranks that the others waited for, most often first",
                  Named<LastArrivals<&report::LastArrivalsRow::rank>>()),
          Make<R>("last_counts", "", "how often they waited for each of last_ranks",
                  Named<LastArrivals<&report::LastArrivalsRow::count>>()),
      });
}

std::unique_ptr<TableSource> Stragglers() {
  using R = StragglerPlace;
  return std::make_unique<TableOf<R>>(
      TableTitle{"stragglers", "Stragglers with cause and gain, in order of cost."},
      [](const Input& in) -> uint64_t { return in.analysis.report.stragglers.size(); },
      [](const Input& in, RowSink<R>& out) {
        uint32_t place = 0;
        for (const StragglerRow& row : in.analysis.report.stragglers) out.Add({place++, &row});
      },
      std::vector<ColumnOf<R>>{
          Make<R>("place", "", "index in report.json's list, from 0", [](const R& r) { return r.place; }),
          FieldColumn<R, &StragglerRow::kind, StragglerOf>(),
          FieldColumn<R, &StragglerRow::ranks, StragglerOf>(),
          FieldColumn<R, &StragglerRow::hosts, StragglerOf>(),
          FieldColumn<R, &StragglerRow::cause, StragglerOf>(),
          FieldColumn<R, &StragglerRow::lost_ns_per_step, StragglerOf>(),
          FieldColumn<R, &StragglerRow::share, StragglerOf>(),
          FieldColumn<R, &StragglerRow::gain_ns_per_step, StragglerOf>(),
          Make<R>("gain_low_ns_per_step", "ns", "lower end of its interval",
                  [](const R& r) { return Low(r.row->gain_interval); }),
          Make<R>("gain_high_ns_per_step", "ns", "upper end of its interval",
                  [](const R& r) { return High(r.row->gain_interval); }),
          FieldColumn<R, &StragglerRow::verdict, StragglerOf>(),
          FieldColumn<R, &StragglerRow::confidence, StragglerOf>(),
          FieldColumn<R, &StragglerRow::since_step, StragglerOf>(),
          FieldColumn<R, &StragglerRow::until_step, StragglerOf>(),
          FieldColumn<R, &StragglerRow::affected_steps, StragglerOf>(),
          FieldColumn<R, &StragglerRow::excess_before_ns, StragglerOf>(),
          FieldColumn<R, &StragglerRow::excess_since_ns, StragglerOf>(),
          FieldColumn<R, &StragglerRow::caused_wait_ns_per_step, StragglerOf>(),
          FieldColumn<R, &StragglerRow::delayed_ranks, StragglerOf>(),
          FieldColumn<R, &StragglerRow::evidence, StragglerOf>(),
          FieldColumn<R, &StragglerRow::action, StragglerOf>(),
      });
}

std::unique_ptr<TableSource> Losses() {
  using R = LossRow;
  return std::make_unique<TableOf<R>>(
      TableTitle{"losses", "Lost records, which other tables lack."},
      [](const Input& in) -> uint64_t { return in.analysis.report.capture.losses.size(); },
      [](const Input& in, RowSink<R>& out) {
        for (const R& row : in.analysis.report.capture.losses) out.Add(row);
      },
      std::vector<ColumnOf<R>>{
          FieldColumn<R, &R::rank>(),
          FieldColumn<R, &R::stage>(),
          Make<R>("kind", "", "kind of record; null: unknown to that stage",
                  [](const R& r) {
                    return r.kind.empty() ? std::nullopt : std::optional<std::string_view>(r.kind);
                  }),
          FieldColumn<R, &R::records>(),
          Make<R>("from_ns", "ns", "earliest possible time, on the host's clock; null: unknown",
                  [](const R& r) { return Known(r, r.from_ns); }),
          Make<R>("to_ns", "ns", "latest possible time, on the host's clock; null: unknown",
                  [](const R& r) { return Known(r, r.to_ns); }),
          FieldColumn<R, &R::reason>(),
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

}  // namespace lockstep::views
