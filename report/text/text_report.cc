// RenderText(): formats the report for the person on call. The first two lines suffice to page the right
// person.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "report/actions.h"
#include "report/first_line.h"
#include "report/recommendations.h"
#include "report/report.h"
#include "report/row_words.h"
#include "report/text/fold_notes.h"
#include "report/text/text_page.h"
#include "report/text/text_waiting.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

using analysis::LengthText;
using enum Priority;

constexpr double kNearlyAll = 0.99;
// A share up to this is shown as 100 %.
constexpr double kRoundedUp = 1.005;
constexpr int kMostRows = 8;
constexpr size_t kMostShared = 3, kMostFixes = 3, kMostInnocents = 3, kMostActions = 3, kRanksOfACommand = 8;

class Writer {
 public:
  Writer(const Report& report, const TextOptions& options)
      : r_(report),
        options_(options),
        page_(options),
        first_(MakeFirstLine(report)),
        top_(static_cast<size_t>(std::clamp(options.top, 1, kMostRows))) {}

  std::string Run() {
    Verdict();
    Overview();
    Do();
    Why();
    Fixes();
    Also();
    NotJudged();
    Trend();
    // Ranks that wait a little for each other are no culprits.
    const bool quiet = first_.headline == Headline::kHealthy || first_.headline == Headline::kSlowJob;
    if (!quiet || !r_.stragglers.empty()) AddWaiting(r_, page_);
    Time();
    NotTheCause();
    Trust();
    Try();
    Open();
    return page_.Take();
  }

 private:
  void Verdict() {
    page_.AddParagraph(kAlways, first_.text, 2, first_.tone);
    page_.AddParagraph(kAlways, "PAGE " + first_.page, 2, Tone::kTitle);
  }

  void Overview() {
    const CaptureRow& c = r_.capture;
    const size_t world = std::max(r_.ranks.size(), static_cast<size_t>(std::max(c.world_size, 0)));
    const std::string of = world > r_.ranks.size() ? absl::StrFormat(" of %d", world) : "";
    std::string line = absl::StrFormat("job %s  %d%s rank%s", c.job.empty() ? "(unnamed)" : c.job,
                                       r_.ranks.size(), of, world == 1 ? "" : "s");
    line += c.named_hosts > 0 || c.hosts == 0
                ? absl::StrFormat(" on %d host%s", c.hosts, c.hosts == 1 ? "" : "s")
                : ", hosts not named";
    if (!r_.steps.empty()) {
      line += r_.steps.size() == 1
                  ? absl::StrFormat("  step %d", r_.steps[0].step)
                  : absl::StrFormat("  steps %d-%d", r_.steps.front().step, r_.steps.back().step);
    }
    const SlowdownRow& s = r_.slowdown;
    if (s.step_ns && !s.ideal_step_ns) line += "  STEP " + LengthText(*s.step_ns) + "  ideal not known";
    if (s.step_ns && s.ideal_step_ns) {
      // A step is shorter than the ideal step only by chance (model.h).
      std::string ratio = "no SLOWDOWN beyond chance";
      if (s.ratio && *s.ratio >= 1) ratio = absl::StrFormat("SLOWDOWN %.3fx", *s.ratio);
      if (s.interval) ratio += absl::StrFormat(" [%.3f, %.3f]", s.interval->low, s.interval->high);
      const std::string lost = LengthText(*s.lost_ns_per_step);
      if (first_.shared == nullptr) {
        line += "  STEP " + LengthText(*s.step_ns) + "  ideal " + LengthText(*s.ideal_step_ns) + "  " +
                ratio + "  lost " + lost + " per step" + GpuHoursText(r_, *s.lost_ns_per_step);
      } else {
        // The shared loss is part of the ideal step.
        line += "  STEP " + LengthText(*s.step_ns) + "  of which uneven " +
                (r_.ranks.size() == 1 ? "steps" : "ranks") + " cost " + lost + ": " + ratio;
      }
    }
    if (c.matching.matched_fraction)
      line += absl::StrFormat("  matched %.4g%%", 100 * *c.matching.matched_fraction);
    if (c.hosts > 1)
      line += c.clock.bound ? "  host clocks within " + Text(*c.clock.bound) : "  host clocks unknown";
    page_.AddParagraph(kAlways, line);
    std::vector<RankId> missing = c.missing_ranks;
    for (const IncompleteRow& row : c.incomplete) std::erase(missing, row.rank);
    if (!missing.empty())
      page_.AddParagraph(kAlways, "MISSING " + RankList(missing, 16) + ": nothing was recorded", 2,
                         Tone::kWarn);
    for (const auto& [reason, ranks] : IncompleteRanks())
      page_.AddParagraph(kAlways, "INCOMPLETE " + RankList(ranks, 16) + ": " + reason, 2, Tone::kWarn);
  }

  // The ranks that were not recorded in whole, by reason.
  std::map<std::string, std::vector<RankId>> IncompleteRanks() const {
    std::map<std::string, std::vector<RankId>> ranks;
    for (const IncompleteRow& row : r_.capture.incomplete) {
      std::string reason = row.reason;
      if (row.asked && row.recorded)
        reason += absl::StrFormat(" (%s of %s recorded)", Text(*row.recorded), Text(*row.asked));
      ranks[reason].push_back(row.rank);
    }
    return ranks;
  }

  // Adds a row of WHY: the lost time, its share, the subject, and details such as the first evidence "kernels
  // +18% (z 21)". A share is left out if overlapping delays make it negative or larger than 100 %.
  void WhyRow(double lost, const std::string& what, const std::string& detail,
              const std::string& evidence = "", Priority priority = kAlways) {
    const double share = r_.slowdown.lost_ns_per_step && *r_.slowdown.lost_ns_per_step > 0
                             ? lost / *r_.slowdown.lost_ns_per_step
                             : 0;
    const std::string percent = share < 0 || share > kRoundedUp ? "" : absl::StrFormat("%.0f%%", 100 * share);
    std::string row = absl::StrFormat("  %9s %5s  %-25s  %s", LengthText(lost), percent, what, detail);
    const bool beside = evidence.empty() || page_.FitsOneLine(row + "  " + evidence);
    if (beside && !evidence.empty()) row += "  " + evidence;
    page_.AddParagraph(kAlways, row, 20);
    if (!beside) page_.AddParagraph(priority, std::string(20, ' ') + evidence, 20);
  }

  void Why() {
    if (!r_.slowdown.lost_ns_per_step) return;
    // The shared loss that leads is not among the rows.
    const std::string what = first_.shared == nullptr ? "WHY" : "WHY uneven";
    page_.AddParagraph(kAlways,
                       what + " (adds up to " + LengthText(*r_.slowdown.lost_ns_per_step) + " per step)", 2,
                       Tone::kTitle);
    for (size_t i = 0; i < r_.stragglers.size() && i < top_; ++i) {
      const StragglerRow& s = r_.stragglers[i];
      std::string detail = CauseInWords(s.cause) + "  " + s.verdict;
      if (s.confidence) detail += absl::StrFormat(" %.2f", *s.confidence);
      WhyRow(s.lost_ns_per_step, StragglerName(r_, s), detail, s.evidence.empty() ? "" : s.evidence[0],
             i == 0 ? kAlways : kUseful);
    }
    double more = 0;
    for (size_t i = top_; i < r_.stragglers.size(); ++i) more += r_.stragglers[i].lost_ns_per_step;
    if (r_.stragglers.size() > top_)
      WhyRow(more, absl::StrFormat("%d more", r_.stragglers.size() - top_), "--format json lists all");
    const SlowdownRow& s = r_.slowdown;
    std::string floor;
    if (s.noise_floor_ns_per_step)
      floor = "random, of all ranks; below " + LengthText(*s.noise_floor_ns_per_step) + " no rank is named";
    const double noise = s.noise_ns_per_step.value_or(0);
    const double rest = s.unlisted_ns_per_step.value_or(0) + s.unexplained_ns_per_step.value_or(0);
    static constexpr char kTooSmall[] = "each too small to name, or the network's";
    // Steps vary less than the noise of single ranks predicts; the two rows would only cancel out.
    if (noise < 0 && noise + rest >= 0) {
      WhyRow(noise + rest, "noise and the rest", absl::StrCat(kTooSmall, "; ", floor));
      return;
    }
    WhyRow(noise, "noise", floor);
    if (rest < 0)
      WhyRow(rest, "overlap", "parts of the delays above are the same time");
    else
      WhyRow(rest, "the rest", kTooSmall);
  }

  // Prints the losses of all ranks that the first line does not name.
  void Also() {
    std::string text;
    size_t shown = 0;
    for (const SharedLossRow& s : r_.shared_losses) {
      if (&s == first_.shared || shown == kMostShared) continue;
      ++shown;
      text +=
          absl::StrFormat("%s%s %s of each step (%s)", text.empty() ? "" : ";  ", SharedLossInWords(s.kind),
                          Percent(s.share_of_step), LengthText(s.lost_ns_per_step));
    }
    if (!text.empty())
      page_.AddParagraph(kUseful, (r_.ranks.size() == 1 ? "ALSO " : "ALSO shared by all ranks: ") + text, 2,
                         Tone::kTitle);
    if (first_.shared != nullptr && !first_.shared->evidence.empty())
      page_.AddParagraph(kImportant, "SEEN " + first_.shared->evidence[0], 2, Tone::kTitle);
  }

  // Prints what this capture cannot show.
  void NotJudged() {
    for (const NotJudgedRow& n : r_.not_judged) {
      // The shared loss that leads was judged.
      const bool only_ranks = n.what == kEverything && first_.shared != nullptr;
      page_.AddParagraph(&n == &r_.not_judged[0] ? kAlways : kImportant,
                         "NOT JUDGED " +
                             (only_ranks ? std::string("what only a comparison of ranks shows") : n.what) +
                             ": " + n.why + ". To judge: " + n.what_would_tell,
                         2, Tone::kTitle);
    }
  }

  void Fixes() {
    if (r_.fixes.empty() && first_.shared == nullptr) return;
    std::string line = "FIX -> GAIN per step:";
    if (first_.shared != nullptr)
      absl::StrAppend(&line, "  ", SharedLossInWords(first_.shared->kind), ": up to ",
                      GainText(r_, first_.shared->lost_ns_per_step, std::nullopt),
                      r_.fixes.empty() ? "" : ";");
    for (size_t i = 0; i < r_.fixes.size() && i < kMostFixes; ++i) {
      const FixRow& f = r_.fixes[i];
      std::string what;
      for (uint32_t e : f.entries) what += (what.empty() ? "" : " + ") + r_.stragglers[e].fix;
      if (f.entries.size() > 2) what = absl::StrFormat("the first %d together", f.entries.size());
      line += (i > 0 ? ";  " : "  ") + what + ": " + GainText(r_, f.gain_ns_per_step, f.gain_interval);
    }
    page_.AddParagraph(kImportant, line, 2, Tone::kTitle);
  }

  void Time() {
    // In seconds, because times of many ranks with impossible stamps exceed Nanos.
    double span = 0, compute = 0, transfer = 0, wait = 0, unsplit = 0, memory = 0, idle = 0, overlap = 0,
           communication = 0;
    for (const RankRow& r : r_.ranks) {
      span += r.span.seconds();
      compute += r.compute.seconds();
      transfer += r.exposed_transfer.seconds();
      wait += r.exposed_wait.seconds();
      unsplit += r.exposed_unsplit.seconds();
      memory += r.exposed_memory.seconds();
      idle += r.idle.seconds();
      overlap += r.overlap.seconds();
      communication += r.communication.seconds();
    }
    if (span <= 0) return;
    const auto part = [&](double seconds) { return Percent(seconds / span); };
    std::string line = "TIME of the capture: compute " + part(compute) + "  exposed transfer " +
                       part(transfer) + "  exposed wait " + part(wait);
    if (unsplit > 0) line += "  exposed, not split " + part(unsplit);
    // Communication alone was recorded, so the rest need not be idle.
    const bool only_communication = compute == 0 && memory == 0 && communication > 0;
    line += "  copies " + part(memory) + (only_communication ? "  not recorded " : "  idle ") + part(idle);
    if (communication > 0) line += "  overlap " + Percent(overlap / communication);
    page_.AddParagraph(kUseful, line, 2, Tone::kTitle);
    const EfficiencyRow& e = r_.efficiency;
    if (e.factors.parallel) {
      line = absl::StrFormat(
          "POP parallel efficiency %.2f = load balance %.2f x communication %.2f x orchestration %.2f",
          *e.factors.parallel, e.factors.load_balance.value_or(0), e.factors.communication.value_or(0),
          e.factors.orchestration.value_or(0));
      std::string balance;
      for (const auto& [name, value] : {std::pair("stages", e.load_balance_stage),
                                        {"replicas", e.load_balance_data},
                                        {"shards", e.load_balance_tensor}}) {
        if (value && e.factors.load_balance && *value < 0.995)
          balance += absl::StrFormat("%s %s %.2f", balance.empty() ? "; balance of" : ",", name, *value);
      }
      line += balance;
      if (e.transfer && e.serialisation)
        line += absl::StrFormat("; serialisation %.2f, transfer %.2f", *e.serialisation, *e.transfer);
      if (e.critical_communication_ns_per_step && r_.slowdown.lost_ns_per_step &&
          *e.critical_communication_ns_per_step > 0.1 * *r_.slowdown.lost_ns_per_step) {
        line += absl::StrFormat("; slow transfers cost %s per step",
                                LengthText(*e.critical_communication_ns_per_step));
      }
      page_.AddParagraph(kAside, line, 2, Tone::kTitle);
    }
  }

  void NotTheCause() {
    if (r_.not_the_cause.empty()) return;
    std::string line = "NOT THE CAUSE";
    for (size_t i = 0; i < r_.not_the_cause.size() && i < kMostInnocents; ++i)
      line += (i > 0 ? ";  " : "  ") + r_.not_the_cause[i];
    page_.AddParagraph(kUseful, line, 2, Tone::kTitle);
  }

  // Says when the first straggler began, and its excess before.
  void Trend() {
    if (r_.stragglers.empty() || r_.steps.size() < analysis::kLeastSteps) return;
    const StragglerRow& s = r_.stragglers[0];
    // Stops on changing ranks have no begin.
    if (s.kind == "job" && s.cause == "host_pause") return;
    const bool begins = s.since_step && *s.since_step > r_.steps.front().step;
    const bool ends = s.until_step.has_value();
    if (!begins && !ends && s.affected_steps >= kNearlyAll) return;
    std::string line = "TREND " + StragglerName(r_, s);
    if (begins && s.excess_before_ns && s.excess_since_ns) {
      const auto since = std::count_if(r_.steps.begin(), r_.steps.end(),
                                       [&](const StepRow& step) { return step.step >= *s.since_step; });
      const bool always =
          s.affected_steps * static_cast<double>(r_.steps.size()) >= kNearlyAll * static_cast<double>(since);
      line += absl::StrFormat(" %s per step %s before step %d, %s %s", LengthText(*s.excess_before_ns),
                              s.kind == "job" ? "more than usual" : "beyond its peers", *s.since_step,
                              LengthText(*s.excess_since_ns),
                              always ? "from then on" : "in the later steps that show it");
    } else {
      line += begins ? absl::StrFormat(" since step %d", *s.since_step) : " from the first step on";
    }
    if (ends) line += absl::StrFormat("; last seen in step %d", *s.until_step);
    if (s.affected_steps < kNearlyAll)
      line += absl::StrFormat("; it costs time in %.0f%% of the steps", 100 * s.affected_steps);
    page_.AddParagraph(kImportant, line, 2, Tone::kTitle);
  }

  // Reports losses and unmatched communication, which weaken the numbers.
  void Trust() {
    uint64_t lost = 0;
    std::string stages;
    for (const LossRow& l : r_.capture.losses) {
      if (l.records == 0) continue;
      lost += l.records;
      if (stages.find(l.stage) == std::string::npos) stages += (stages.empty() ? "" : ", ") + l.stage;
    }
    if (lost > 0)
      page_.AddParagraph(
          kImportant,
          absl::StrFormat("LOST %d records (at: %s): the numbers above are without them", lost, stages), 2,
          Tone::kWarn);
    const MatchingRow& m = r_.capture.matching;
    // The edges of a window always cut a few collectives.
    if (m.matched_fraction.value_or(1) < kNearlyAll || m.conflicts > 0) {
      page_.AddParagraph(
          kImportant,
          absl::StrFormat(
              "UNMATCHED %d communication kernels have no partners on every rank of their "
              "group, so waiting and transfer are not separated%s",
              m.unmatched,
              m.conflicts > 0 ? absl::StrFormat("; %d contradict their partners", m.conflicts) : ""),
          2, Tone::kWarn);
    }
    for (const std::string& note : FoldNotes(r_.capture.notes))
      page_.AddParagraph(kAside, "NOTE " + note, 2, Tone::kWarn);
  }

  // Prints the actions. Those that can wait are called tuning.
  void Do() {
    const std::vector<Recommendation> actions = MakeRecommendations(r_);
    for (size_t i = 0; i < actions.size() && i < kMostActions; ++i) {
      const Priority priority = actions[i].can_wait ? kAside : i == 0 ? kAlways : kImportant;
      page_.AddParagraph(priority, (actions[i].can_wait ? "TUNE " : "DO ") + actions[i].text, 2,
                         Tone::kTitle);
    }
  }

  // Prints the command that computes the gain of fixing the first straggler.
  void Try() {
    if (options_.source.empty() || r_.stragglers.empty()) return;
    const StragglerRow& s = r_.stragglers[0];
    // Transfers over a rank's links are not work of the rank.
    const bool of_links = s.cause == "slow_link";
    std::string fix;
    if (s.kind == "host" && s.hosts.size() == 1 && !of_links) {
      fix = "host=" + s.hosts[0];
    } else if (s.kind == "rank" || s.kind == "host" || s.kind == "stage") {
      for (size_t i = 0; i < s.ranks.size() && i < kRanksOfACommand; ++i) {
        absl::StrAppend(&fix, i > 0 ? "," : "", of_links ? "link=" : "rank=", s.ranks[i].value());
      }
      if (s.ranks.size() > kRanksOfACommand) return;
    }
    if (fix.empty()) return;
    page_.AddParagraph(kUseful, "TRY lockstep whatif " + Quoted(options_.source) + " --fix " + Quoted(fix), 2,
                       Tone::kTitle);
  }

  // Names the file and the ranks to look at: the culprit, and the rank that waited most.
  void Open() {
    if (r_.stragglers.empty() || r_.stragglers[0].ranks.empty()) return;
    const StragglerRow& s = r_.stragglers[0];
    const RankRow* culprit = RankRowOf(r_, s.ranks[0]);
    if (culprit == nullptr) return;
    std::string file = culprit->source_file;
    if (options_.has_traces && !options_.source.empty()) file = options_.source + "/merged.pftrace";
    if (file.empty()) return;
    const RankRow* victim = nullptr;
    for (const RankRow& r : r_.ranks) {
      const bool named = std::find(s.ranks.begin(), s.ranks.end(), r.rank) != s.ranks.end();
      if (!named && (victim == nullptr || r.exposed_wait > victim->exposed_wait)) victim = &r;
    }
    // Perfetto reads no SQLite.
    if (!absl::EndsWith(file, ".pftrace") && !absl::EndsWith(file, ".json") &&
        !absl::EndsWith(file, ".json.gz"))
      return;
    std::string line = "OPEN " + file + " in ui.perfetto.dev";
    if (options_.has_traces) {
      line += absl::StrFormat(": rank %d", culprit->rank.value());
      if (victim != nullptr) line += absl::StrFormat(" beside rank %d, which waited", victim->rank.value());
    }
    if (s.since_step) line += absl::StrFormat(", step %d", *s.since_step);
    page_.AddParagraph(kUseful, line, 2, Tone::kTitle);
  }

  // Quotes a word for a shell.
  static std::string Quoted(const std::string& word) {
    const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 ||
             std::string_view("-_./=,:+@%").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (plain) return word;
    std::string out = "'";
    for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  }

  const Report& r_;
  const TextOptions& options_;
  TextPage page_;
  FirstLine first_;
  size_t top_;
};

}  // namespace

std::string RenderText(const Report& report, const TextOptions& options) {
  return Writer(report, options).Run();
}

std::string VerdictSentence(const Report& report) { return MakeFirstLine(report).text; }

}  // namespace lockstep::report
