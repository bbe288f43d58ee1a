// The report for a person on call: the first two lines are enough to page the right one.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "aggregator/analysis/causes.h"
#include "aggregator/analysis/diagnosis.h"
#include "aggregator/report/report.h"
#include "aggregator/report/text_layout.h"

namespace lockstep::report {
namespace {

using analysis::LengthText;

// Ranks whose waiting is this part of all of it are worth a word.
constexpr double kNotableShare = 0.02;
// Of the waiting for the rank that was waited for most.
constexpr double kWorthALine = 0.25;
constexpr double kNearlyAll = 0.99;

std::string RankList(const std::vector<RankId>& ranks, size_t most) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < most; ++i) {
    out += (i > 0 ? ", " : "") + std::to_string(ranks[i].value());
  }
  if (ranks.size() > most) out += absl::StrFormat(" and %d more", ranks.size() - most);
  return out;
}

class Writer {
 public:
  Writer(const Report& report, const TextOptions& options)
      : r_(report), top_(static_cast<size_t>(std::max(1, options.top))), out_(options.width, options.color) {}

  std::string Run() {
    Verdict();
    Overview();
    Why();
    Fixes();
    Waiting();
    Time();
    NotTheCause();
    Ranks();
    Collectives();
    Trust();
    Do();
    return out_.Take();
  }

 private:
  double Steps() const { return std::max(1.0, static_cast<double>(r_.capture.steps)); }

  std::string Who(const StragglerRow& s) const {
    std::string who = RankList(s.ranks, top_);
    if (s.ranks.size() == 1) {
      const auto row = std::find_if(r_.ranks.begin(), r_.ranks.end(), [&](const RankRow& r) { return r.rank == s.ranks[0]; });
      if (row != r_.ranks.end()) who += absl::StrFormat(" (%s GPU %d)", row->host, row->device);
    }
    return who;
  }

  // The rank that ended most of the others' waiting.
  const RankRow* MostWaitedFor() const {
    const RankRow* most = nullptr;
    for (const RankRow& r : r_.ranks) {
      if (r.caused_wait > Nanos() && (most == nullptr || r.caused_wait > most->caused_wait)) most = &r;
    }
    return most;
  }

  std::string WaitingFor(const RankRow& r) const {
    return absl::StrFormat("rank %d: %s of the others' waiting per step", r.rank.value(),
                           LengthText(static_cast<double>(r.caused_wait.ns()) / Steps()));
  }

  void Verdict() {
    if (r_.ranks.empty()) {
      out_.Line("NOTHING RECORDED: no rank left any device activity", 2, Tone::kWarn);
      return;
    }
    if (r_.capture.steps < analysis::kLeastSteps) {
      std::string line = absl::StrFormat("UNDECIDED %d step%s recorded whole, a verdict needs %d: capture %d more.", r_.capture.steps,
                                         r_.capture.steps == 1 ? "" : "s", analysis::kLeastSteps,
                                         analysis::kLeastSteps - r_.capture.steps);
      if (const RankRow* most = MostWaitedFor()) {
        line += absl::StrFormat(" So far the others wait for rank %d (%s of their waiting per step)", most->rank.value(),
                                LengthText(static_cast<double>(most->caused_wait.ns()) / Steps()));
      }
      out_.Line(line, 2, Tone::kWarn);
      return;
    }
    if (r_.capture.matching.matched_fraction.value_or(1) < analysis::kMatchedForVerdict) {
      out_.Line("UNDECIDED only " + Percent(*r_.capture.matching.matched_fraction) +
                    " of the communication could be matched across ranks: who waits for whom is not known",
                2, Tone::kWarn);
      return;
    }
    if (r_.stragglers.empty()) {
      std::string line = r_.capture.missing_ranks.empty() ? "HEALTHY no rank holds the others back" : "HEALTHY no recorded rank holds the others back";
      if (r_.slowdown.noise_floor_ns_per_step) {
        line += absl::StrFormat(" by more than %s per step (noise floor)", LengthText(*r_.slowdown.noise_floor_ns_per_step));
      }
      out_.Line(line, 2, Tone::kGood);
      return;
    }
    const StragglerRow& s = r_.stragglers[0];
    std::string line = absl::StrFormat("%s %s: %s, %s.", s.verdict == "undecided" ? "UNDECIDED" : "STRAGGLER", Who(s), s.cause, s.verdict);
    if (s.gain_ns_per_step) line += " Fixing it gains " + Gain(*s.gain_ns_per_step, s.gain_interval) + " per step" + GainWithOthers(*s.gain_ns_per_step);
    if (r_.stragglers.size() > 1) line += absl::StrFormat("; %d more below", r_.stragglers.size() - 1);
    out_.Line(line, 2, s.verdict == "undecided" ? Tone::kWarn : Tone::kBad);
  }

  // Where the first one is held up by others that are as bad, fixing it alone says little.
  std::string GainWithOthers(double alone) const {
    const FixRow* best = nullptr;
    for (const FixRow& f : r_.fixes) {
      const bool has_first = std::find(f.entries.begin(), f.entries.end(), 0u) != f.entries.end();
      if (!has_first || f.entries.size() < 2 || f.gain_ns_per_step < 2 * alone) continue;
      if (best == nullptr || f.entries.size() < best->entries.size()) best = &f;
    }
    if (best == nullptr) return "";
    std::vector<RankId> others;
    for (uint32_t e : best->entries) {
      if (e > 0) others.insert(others.end(), r_.stragglers[e].ranks.begin(), r_.stragglers[e].ranks.end());
    }
    return ", together with " + RankList(others, top_) + " " + Gain(best->gain_ns_per_step, best->gain_interval);
  }

  std::string Gain(double gain, const std::optional<Range>& interval) const {
    std::string text = LengthText(gain);
    if (r_.slowdown.step_ns && *r_.slowdown.step_ns > 0) text += " (" + Percent(gain / *r_.slowdown.step_ns) + ")";
    if (interval) text += absl::StrFormat(" [%s, %s]", LengthText(interval->low), LengthText(interval->high));
    return text;
  }

  void Overview() {
    const CaptureRow& c = r_.capture;
    std::string line = absl::StrFormat("job %s  %d ranks on %d host%s", c.job.empty() ? "(unnamed)" : c.job, r_.ranks.size(), c.hosts,
                                       c.hosts == 1 ? "" : "s");
    if (!r_.steps.empty()) {
      line += r_.steps.size() == 1 ? absl::StrFormat("  step %d", r_.steps[0].step)
                                   : absl::StrFormat("  steps %d-%d", r_.steps.front().step, r_.steps.back().step);
    }
    const SlowdownRow& s = r_.slowdown;
    if (s.step_ns && s.ideal_step_ns) {
      line += absl::StrFormat("  STEP %s  ideal %s", LengthText(*s.step_ns), LengthText(*s.ideal_step_ns));
      if (s.ratio) line += absl::StrFormat("  SLOWDOWN %.3fx", *s.ratio);
      if (s.interval) line += absl::StrFormat(" [%.3f, %.3f]", s.interval->low, s.interval->high);
      line += "  lost " + LengthText(*s.lost_ns_per_step) + " per step";
    }
    if (c.matching.matched_fraction) line += absl::StrFormat("  matched %.4g%%", 100 * *c.matching.matched_fraction);
    if (c.hosts > 1) line += c.clock_bound ? "  clocks within " + Text(*c.clock_bound) : "  clocks unknown";
    out_.Line(line);
    if (!c.missing_ranks.empty()) out_.Line("MISSING " + RankList(c.missing_ranks, 16) + ": nothing was recorded of them", 2, Tone::kWarn);
  }

  void WhyRow(double lost, const std::string& what, const std::string& detail) {
    const double share = r_.slowdown.lost_ns_per_step && *r_.slowdown.lost_ns_per_step > 0 ? lost / *r_.slowdown.lost_ns_per_step : 0;
    out_.Line(absl::StrFormat("  %9s %5s  %s%s", LengthText(lost), absl::StrFormat("%.0f%%", 100 * share), what, detail.empty() ? "" : "  " + detail), 19);
  }

  void Why() {
    if (!r_.slowdown.lost_ns_per_step) return;
    out_.Line("WHY (adds up to " + LengthText(*r_.slowdown.lost_ns_per_step) + " per step)", 2, Tone::kTitle);
    for (size_t i = 0; i < r_.stragglers.size() && i < top_; ++i) {
      const StragglerRow& s = r_.stragglers[i];
      std::string detail = s.cause + "  " + s.verdict;
      if (s.confidence) detail += absl::StrFormat(" %.2f", *s.confidence);
      for (const std::string& e : s.evidence) detail += "; " + e;
      WhyRow(s.lost_ns_per_step, Who(s), detail);
    }
    double more = 0;
    for (size_t i = top_; i < r_.stragglers.size(); ++i) more += r_.stragglers[i].lost_ns_per_step;
    if (r_.stragglers.size() > top_) WhyRow(more, absl::StrFormat("%d more", r_.stragglers.size() - top_), "");
    const SlowdownRow& s = r_.slowdown;
    std::string floor;
    if (s.noise_floor_ns_per_step) floor = "noise floor of one rank " + LengthText(*s.noise_floor_ns_per_step);
    WhyRow(s.noise_ns_per_step.value_or(0), "noise", floor);
    WhyRow(s.unlisted_ns_per_step.value_or(0) + s.unexplained_ns_per_step.value_or(0), "the rest", "each too small to name, or the network's");
  }

  void Fixes() {
    if (r_.fixes.empty()) return;
    std::string line = "FIX -> GAIN per step:";
    for (size_t i = 0; i < r_.fixes.size() && i < top_; ++i) {
      const FixRow& f = r_.fixes[i];
      std::string who;
      for (uint32_t e : f.entries) who += (who.empty() ? "" : " + ") + RankList(r_.stragglers[e].ranks, 3);
      line += (i > 0 ? ";  " : "  ") + who + ": " + Gain(f.gain_ns_per_step, f.gain_interval);
    }
    out_.Line(line, 2, Tone::kTitle);
  }

  void Waiting() {
    if (r_.waiting && !r_.waiting->causers.empty() && r_.capture.steps >= analysis::kLeastSteps) {
      DelayCosts(*r_.waiting);
    } else {
      CausedWaits();
    }
    Lateness();
  }

  // Beyond what a typical job would wait, by who caused it however far away.
  void DelayCosts(const WaitingRow& w) {
    for (size_t i = 0; i < w.causers.size() && i < top_; ++i) {
      const WaitingRow::Causer& c = w.causers[i];
      const double total = c.direct_ns_per_step + c.passed_on_ns_per_step;
      // Ranks that are as bad as each other are told of together; what is far less is noise beside the first.
      if (i > 0 && total < kWorthALine * (w.causers[0].direct_ns_per_step + w.causers[0].passed_on_ns_per_step)) break;
      std::string line = absl::StrFormat("WAITING %d rank%s waited for rank %d", c.victims, c.victims == 1 ? "" : "s", c.rank.value());
      if (c.victims > 0) line += absl::StrFormat(": mean %s per step", LengthText(total / c.victims));
      line += absl::StrFormat(" (%s of all such waiting); direct %s, passed on %s", Percent(total / w.waited_ns_per_step), Percent(c.direct_ns_per_step / total),
                              Percent(c.passed_on_ns_per_step / total));
      if (!c.path.empty()) line += "; path " + c.path;
      out_.Line(line, 2, Tone::kTitle);
    }
  }

  void CausedWaits() {
    std::vector<const RankRow*> order;
    Nanos all;
    for (const RankRow& r : r_.ranks) {
      all += r.caused_wait;
      order.push_back(&r);
    }
    if (all <= Nanos()) return;
    std::stable_sort(order.begin(), order.end(), [](const RankRow* a, const RankRow* b) { return a->caused_wait > b->caused_wait; });
    std::string line = "WAITING the others waited for";
    for (size_t i = 0; i < order.size() && i < top_; ++i) {
      const double share = static_cast<double>(order[i]->caused_wait.ns()) / static_cast<double>(all.ns());
      if (i > 0 && share < kNotableShare) break;
      line += absl::StrFormat("%s rank %d %s per step (%s)", i > 0 ? "," : "", order[i]->rank.value(),
                              LengthText(static_cast<double>(order[i]->caused_wait.ns()) / Steps()), Percent(share));
    }
    out_.Line(line, 2, Tone::kTitle);
  }

  void Lateness() {
    const RankRow* late = nullptr;
    for (const RankRow& r : r_.ranks) {
      if (r.late_from_before && (late == nullptr || *r.late_from_before > *late->late_from_before)) late = &r;
    }
    if (late != nullptr && r_.capture.steps < analysis::kLeastSteps && *late->late_from_before > Nanos::Micros(100)) {
      std::string clock;
      if (r_.capture.clock_bound && *r_.capture.clock_bound > *late->late_from_before) clock = " (within clock error)";
      out_.Line(absl::StrFormat("LATE rank %d came %s late from before the window, cause unknown: what it did before is not in the capture%s",
                                late->rank.value(), Text(*late->late_from_before), clock),
                2, Tone::kTitle);
    }
  }

  void Time() {
    Nanos span, compute, transfer, wait, unsplit, memory, idle, overlap, communication;
    for (const RankRow& r : r_.ranks) {
      span += r.span;
      compute += r.compute;
      transfer += r.exposed_transfer;
      wait += r.exposed_wait;
      unsplit += r.exposed_unsplit;
      memory += r.exposed_memory;
      idle += r.idle;
      overlap += r.overlap;
      communication += r.communication;
    }
    if (span <= Nanos()) return;
    const auto part = [&](Nanos n) { return Percent(static_cast<double>(n.ns()) / static_cast<double>(span.ns())); };
    std::string line = "TIME compute " + part(compute) + "  exposed transfer " + part(transfer) + "  exposed wait " + part(wait);
    if (unsplit > Nanos()) line += "  exposed, not split " + part(unsplit);
    line += "  copies " + part(memory) + "  idle " + part(idle);
    if (communication > Nanos()) {
      line += "   overlap " + Percent(static_cast<double>(overlap.ns()) / static_cast<double>(communication.ns())) + " of communication";
    }
    out_.Line(line, 2, Tone::kTitle);
    const EfficiencyRow& e = r_.efficiency;
    if (e.factors.parallel) {
      line = absl::StrFormat("POP parallel efficiency %.2f = load balance %.2f x communication %.2f x orchestration %.2f", *e.factors.parallel,
                             e.factors.load_balance.value_or(0), e.factors.communication.value_or(0), e.factors.orchestration.value_or(0));
      std::string balance;
      for (const auto& [name, value] : {std::pair("stages", e.load_balance_stage), {"replicas", e.load_balance_data}, {"shards", e.load_balance_tensor}}) {
        if (value && e.factors.load_balance && *value < 0.995) balance += absl::StrFormat("%s %s %.2f", balance.empty() ? "; balance of" : ",", name, *value);
      }
      line += balance;
      if (e.transfer && e.serialisation) line += absl::StrFormat("; serialisation %.2f, transfer %.2f", *e.serialisation, *e.transfer);
      if (e.critical_communication_ns_per_step && r_.slowdown.lost_ns_per_step && *e.critical_communication_ns_per_step > 0.1 * *r_.slowdown.lost_ns_per_step) {
        line += absl::StrFormat("; slow transfers cost %s per step", LengthText(*e.critical_communication_ns_per_step));
      }
      out_.Line(line, 2, Tone::kTitle);
    }
  }

  void NotTheCause() {
    if (r_.not_the_cause.empty()) return;
    std::string line = "NOT THE CAUSE";
    for (size_t i = 0; i < r_.not_the_cause.size(); ++i) line += (i > 0 ? ";  " : "  ") + r_.not_the_cause[i];
    out_.Line(line, 2, Tone::kTitle);
  }

  void Ranks() {
    if (r_.ranks.empty()) return;
    // All ranks of a small job, in order; of a large one those that the others waited for most.
    std::vector<const RankRow*> order;
    for (const RankRow& r : r_.ranks) order.push_back(&r);
    constexpr size_t kSmallJob = 16;
    if (order.size() > kSmallJob) {
      std::stable_sort(order.begin(), order.end(), [](const RankRow* a, const RankRow* b) { return a->caused_wait > b->caused_wait; });
      order.resize(top_);
    }
    std::vector<std::vector<std::string>> rows;
    for (const RankRow* r : order) {
      rows.push_back({std::to_string(r->rank.value()), r->host, Text(r->span), Text(r->compute), Text(r->exposed_transfer),
                      Text(r->exposed_wait), Text(r->exposed_unsplit), Text(r->exposed_memory), Text(r->idle),
                      r->overlap_fraction ? Percent(*r->overlap_fraction) : "-"});
    }
    out_.Table({"rank", "host", "span", "compute", "transfer", "wait", "unsplit", "copies", "idle", "overlap"}, rows);
  }

  void Collectives() {
    if (r_.collectives.empty()) return;
    std::vector<const CollectiveRow*> order;
    for (const CollectiveRow& c : r_.collectives) order.push_back(&c);
    std::stable_sort(order.begin(), order.end(), [](const CollectiveRow* a, const CollectiveRow* b) {
      return a->wait.value_or(Nanos()) > b->wait.value_or(Nanos());
    });
    order.resize(std::min(order.size(), top_));
    std::vector<std::vector<std::string>> rows;
    const Nanos bound = r_.capture.clock_bound.value_or(Nanos::Max());
    for (const CollectiveRow* c : order) {
      std::string skew = "-";
      if (c->skew_p50) skew = r_.capture.hosts > 1 && *c->skew_p50 < bound ? "< clock error" : Text(*c->skew_p50);
      std::string last = "-";
      if (!c->last_arrivals.empty()) {
        last = absl::StrFormat("rank %d %d of %d", c->last_arrivals[0].rank.value(), c->last_arrivals[0].count, c->count);
      }
      rows.push_back({c->group, c->op, std::to_string(c->count), c->wait ? Text(*c->wait) : "-", c->transfer ? Text(*c->transfer) : "-", skew,
                      last, c->busbw_gbps ? absl::StrFormat("%.1f GB/s", *c->busbw_gbps) : "-"});
    }
    out_.Table({"group", "operation", "count", "wait", "transfer", "skew p50", "most often last", "bus bandwidth"}, rows);
  }

  // What weakens these numbers.
  void Trust() {
    uint64_t lost = 0;
    std::string stages;
    for (const LossRow& l : r_.capture.losses) {
      if (l.records == 0) continue;
      lost += l.records;
      if (stages.find(l.stage) == std::string::npos) stages += (stages.empty() ? "" : ", ") + l.stage;
    }
    if (lost > 0) out_.Line(absl::StrFormat("LOST %d records (at: %s): the numbers above are without them", lost, stages), 2, Tone::kWarn);
    const MatchingRow& m = r_.capture.matching;
    // A window's edges always cut a few.
    if (m.matched_fraction.value_or(1) < kNearlyAll || m.conflicts > 0) {
      out_.Line(absl::StrFormat("UNMATCHED %d communication kernels have no partners on every rank of their group, %d contradict them; their "
                                "waiting is not split",
                                m.unmatched, m.conflicts),
                2, Tone::kWarn);
    }
    for (const std::string& note : r_.capture.notes) out_.Line("NOTE " + note, 2, Tone::kWarn);
  }

  void Do() {
    for (size_t i = 0; i < r_.recommendations.size() && i < top_; ++i) out_.Line("DO " + r_.recommendations[i], 2, Tone::kTitle);
  }

  const Report& r_;
  size_t top_;
  TextLayout out_;
};

}  // namespace

std::string RenderText(const Report& report, const TextOptions& options) { return Writer(report, options).Run(); }

}  // namespace lockstep::report
