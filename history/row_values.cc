#include "history/row_values.h"

#include <utility>

namespace lockstep::history {
namespace {

constexpr std::monostate kNull;

Value Cell(int64_t number) { return number; }
Value Cell(const std::string& text) { return text; }
Value Cell(Nanos length) { return length.ns(); }
Value Cell(RankId rank) { return int64_t{rank.value()}; }
Value Cell(double number) { return number; }
template <typename T>
Value Cell(const std::optional<T>& value) {
  return value ? Cell(*value) : Value(kNull);
}

std::optional<int64_t> MaybeWhole(const Row& row, size_t place) {
  const auto* number = place < row.size() ? std::get_if<int64_t>(&row[place]) : nullptr;
  return number == nullptr ? std::nullopt : std::optional(*number);
}
std::optional<Nanos> MaybeLength(const Row& row, size_t place) {
  const std::optional<int64_t> number = MaybeWhole(row, place);
  return number ? std::optional(Nanos(*number)) : std::nullopt;
}
std::optional<double> MaybeReal(const Row& row, size_t place) {
  if (const auto number = MaybeWhole(row, place)) return static_cast<double>(*number);
  const auto* number = place < row.size() ? std::get_if<double>(&row[place]) : nullptr;
  return number == nullptr ? std::nullopt : std::optional(*number);
}
std::optional<std::string> MaybeText(const Row& row, size_t place) {
  const auto* text = place < row.size() ? std::get_if<std::string>(&row[place]) : nullptr;
  return text == nullptr ? std::nullopt : std::optional(*text);
}
Nanos LengthIn(const Row& row, size_t place) { return Nanos(WholeIn(row, place)); }

Row HeadRow(const CaptureHead& h) {
  return {Cell(h.id),
          Cell(h.job),
          Cell(h.job_id),
          Cell(h.source),
          h.captured.ns(),
          h.added.ns(),
          Cell(h.duration),
          h.world_size,
          h.hosts,
          h.steps,
          int64_t{h.partial ? 1 : 0},
          h.lost_records,
          Cell(h.step_ns),
          Cell(h.ideal_step_ns),
          Cell(h.lost_ns_per_step),
          Cell(h.noise_floor_ns_per_step),
          Cell(h.exposed_ns_per_step),
          Cell(h.idle_fraction),
          Cell(h.parallel_efficiency),
          Cell(h.load_balance),
          Cell(h.communication_efficiency),
          Cell(h.orchestration),
          Cell(h.gain_ns_per_step),
          Cell(h.verdict)};
}

Row RankRow(const std::string& id, int64_t place, const RankSummary& r) {
  return {id,
          place,
          Cell(r.rank),
          r.host,
          r.device,
          Cell(r.device_name),
          Cell(r.device_uuid),
          Cell(r.compute),
          Cell(r.exposed_communication),
          Cell(r.idle),
          Cell(r.caused_wait),
          Cell(r.gain_ns_per_step)};
}

Row StepRow(const std::string& id, int64_t place, const StepSummary& s) {
  return {id,
          place,
          s.step,
          Cell(s.duration),
          Cell(s.parallel_efficiency),
          Cell(s.load_balance),
          Cell(s.communication_efficiency),
          Cell(s.orchestration),
          Cell(s.wait_ns),
          Cell(s.overlap_ns),
          Cell(s.costliest_rank),
          Cell(s.costliest_lost)};
}

Row FindingRow(const std::string& id, int64_t place, const Finding& f) {
  return {id,
          place,
          f.list,
          f.kind,
          f.cause,
          Cell(f.lost_ns_per_step),
          Cell(f.gain_ns_per_step),
          f.verdict,
          Cell(f.confidence),
          Cell(f.since_step),
          f.action};
}

}  // namespace

int64_t WholeIn(const Row& row, size_t place) { return MaybeWhole(row, place).value_or(0); }
std::string TextIn(const Row& row, size_t place) { return MaybeText(row, place).value_or(""); }

std::vector<TableRows> RowsOf(const CaptureSummary& summary) {
  const std::string& id = summary.head.id;
  TableRows captures{"captures", {HeadRow(summary.head)}};
  TableRows labels{"labels", {}}, ranks{"ranks", {}}, steps{"steps", {}}, findings{"findings", {}};
  TableRows finding_ranks{"finding_ranks", {}};
  for (const Label& label : summary.labels) labels.rows.push_back({id, label.name, label.value});
  int64_t place = 0;
  for (const RankSummary& rank : summary.ranks) ranks.rows.push_back(RankRow(id, place++, rank));
  place = 0;
  for (const StepSummary& step : summary.steps) steps.rows.push_back(StepRow(id, place++, step));
  place = 0;
  for (const Finding& finding : summary.findings) {
    for (const FindingRank& rank : finding.ranks)
      finding_ranks.rows.push_back({id, place, Cell(rank.rank), rank.host});
    findings.rows.push_back(FindingRow(id, place++, finding));
  }
  return {std::move(captures), std::move(labels),   std::move(ranks),
          std::move(steps),    std::move(findings), std::move(finding_ranks)};
}

CaptureHead HeadFrom(const Row& row) {
  return {.id = TextIn(row, 0),
          .job = TextIn(row, 1),
          .job_id = TextIn(row, 2),
          .source = TextIn(row, 3),
          .captured = JobTime(WholeIn(row, 4)),
          .added = HostTime(WholeIn(row, 5)),
          .duration = MaybeLength(row, 6),
          .world_size = WholeIn(row, 7),
          .hosts = WholeIn(row, 8),
          .steps = WholeIn(row, 9),
          .partial = WholeIn(row, 10) != 0,
          .lost_records = WholeIn(row, 11),
          .step_ns = MaybeReal(row, 12),
          .ideal_step_ns = MaybeReal(row, 13),
          .lost_ns_per_step = MaybeReal(row, 14),
          .noise_floor_ns_per_step = MaybeReal(row, 15),
          .exposed_ns_per_step = MaybeReal(row, 16),
          .idle_fraction = MaybeReal(row, 17),
          .parallel_efficiency = MaybeReal(row, 18),
          .load_balance = MaybeReal(row, 19),
          .communication_efficiency = MaybeReal(row, 20),
          .orchestration = MaybeReal(row, 21),
          .gain_ns_per_step = MaybeReal(row, 22),
          .verdict = TextIn(row, 23)};
}

Label LabelFrom(const Row& row) { return {.name = TextIn(row, 1), .value = TextIn(row, 2)}; }

RankSummary RankFrom(const Row& row) {
  return {.rank = RankId(static_cast<int32_t>(WholeIn(row, 2))),
          .host = TextIn(row, 3),
          .device = WholeIn(row, 4),
          .device_name = MaybeText(row, 5),
          .device_uuid = MaybeText(row, 6),
          .compute = LengthIn(row, 7),
          .exposed_communication = LengthIn(row, 8),
          .idle = LengthIn(row, 9),
          .caused_wait = LengthIn(row, 10),
          .gain_ns_per_step = MaybeReal(row, 11)};
}

StepSummary StepFrom(const Row& row) {
  StepSummary step{.step = WholeIn(row, 2),
                   .duration = LengthIn(row, 3),
                   .parallel_efficiency = MaybeReal(row, 4),
                   .load_balance = MaybeReal(row, 5),
                   .communication_efficiency = MaybeReal(row, 6),
                   .orchestration = MaybeReal(row, 7),
                   .wait_ns = MaybeReal(row, 8),
                   .overlap_ns = MaybeReal(row, 9),
                   .costliest_lost = MaybeLength(row, 11)};
  if (const auto rank = MaybeWhole(row, 10)) step.costliest_rank = RankId(static_cast<int32_t>(*rank));
  return step;
}

Finding FindingFrom(const Row& row) {
  return {.list = TextIn(row, 2),
          .kind = TextIn(row, 3),
          .cause = TextIn(row, 4),
          .lost_ns_per_step = MaybeReal(row, 5),
          .gain_ns_per_step = MaybeReal(row, 6),
          .verdict = TextIn(row, 7),
          .confidence = MaybeReal(row, 8),
          .since_step = MaybeWhole(row, 9),
          .action = TextIn(row, 10)};
}

}  // namespace lockstep::history
