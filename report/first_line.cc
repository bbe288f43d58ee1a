#include "report/first_line.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "report/actions.h"

namespace lockstep::report {
namespace {

using analysis::LengthText;

// Shares of the step from which a shared loss leads. A bubble of half the step has fewer microbatches than
// stages.
constexpr double kIdleLeads = 0.05, kTransfersLead = 0.3, kBubbleLeads = 0.5;
// A loss that belongs to the job's design leads only if it is this many times what the stragglers cost.
constexpr double kDesignTimes = 5;
// Lost time without an owner leads from this share of the lost time, and of the step, on.
constexpr double kUnownedShare = 0.2, kUnownedOfStep = 0.02;
// A rank for which this share of the others waits is mentioned, if they wait for this share of the step.
constexpr double kMostOthers = 0.5, kNotableWait = 0.01;

bool ByDesign(const std::string& kind) {
  return kind == "exposed_transfer" || kind == "exposed_wait" || kind == "pipeline_bubble";
}

bool Believed(const StragglerRow& s) { return s.verdict != "undecided"; }
bool OfAllRanks(const StragglerRow& s) { return s.kind == "job"; }

// The team that can fix a cause, and what need not be woken.
std::string PageFor(const std::string& cause, const std::string& host) {
  const std::string at = host.empty() ? "" : " (host " + host + ")";
  for (const std::string_view hardware : {"gpu_clock", "gpu_memory", "slow_link", "copy"}) {
    if (cause == hardware) return "the hardware team" + at + ". Not the training owner.";
  }
  if (cause == "congestion") return "the network team. Not the training owner.";
  if (cause == "cpu_contention" || cause == "host_launch")
    return "the cluster operators" + at + ", then the training owner.";
  if (cause == "unknown" || cause == "victim" || cause == "common")
    return "the training owner first: the cause is not known.";
  return "the training owner. Not the hardware team.";
}

std::string PageForShared(const std::string& kind) {
  if (kind == "input") return "the training owner (input pipeline). Not the hardware team.";
  if (kind == "exposed_transfer") return "the training owner, then the network team.";
  return "the training owner. Not the hardware team.";
}

class LineMaker {
 public:
  explicit LineMaker(const Report& report) : r_(report) {}

  FirstLine Run() {
    FirstLine line = Choose();
    if (r_.capture.partial) line.text = "PARTIAL " + line.text;
    return line;
  }

 private:
  FirstLine Choose() const {
    if (r_.ranks.empty())
      return {.text = "NO STRAGGLER FOUND; nothing was recorded: no rank left any device activity"};
    // More steps would not show the kernels of such graphs.
    if (r_.capture.steps < analysis::kLeastSteps && r_.capture.graphs_not_visible.empty())
      return TooFewSteps();
    const SharedLossRow* shared = LargestSharedLoss();
    if (!r_.not_judged.empty() && r_.not_judged[0].what == kEverything) return NothingJudged(shared);
    const StragglerRow* straggler =
        !r_.stragglers.empty() && Believed(r_.stragglers[0]) ? &r_.stragglers[0] : nullptr;
    const double gain = StragglersGain(), lost = shared != nullptr ? shared->lost_ns_per_step : 0;
    const double unowned = Unowned();
    const double times = shared != nullptr && ByDesign(shared->kind) ? kDesignTimes : 1;
    if (shared != nullptr && lost >= unowned && (straggler == nullptr || lost > times * gain))
      return SlowJob(*shared, straggler);
    if (straggler != nullptr && gain >= unowned) return Straggler(*straggler, unowned);
    if (unowned > 0) return Unexplained(unowned, straggler);
    if (!r_.stragglers.empty()) return Undecided(r_.stragglers[0]);
    if (r_.slowdown.step_ns && !r_.slowdown.ideal_step_ns)
      return {.text = "NO STRAGGLER FOUND; what is lost is not known: no step is typical of this job"};
    return Nothing();
  }

  // The largest shared loss that may lead. Null: there is none.
  const SharedLossRow* LargestSharedLoss() const {
    for (const SharedLossRow& s : r_.shared_losses) {
      const double leads = s.kind == "pipeline_bubble" ? kBubbleLeads
                           : ByDesign(s.kind)          ? kTransfersLead
                                                       : kIdleLeads;
      if (s.share_of_step >= leads && s.lost_ns_per_step > r_.slowdown.noise_floor_ns_per_step.value_or(0))
        return &s;
    }
    return nullptr;
  }

  // The largest gain of fixing any set of stragglers.
  double StragglersGain() const {
    double gain = 0;
    for (const StragglerRow& s : r_.stragglers) {
      if (Believed(s)) gain = std::max({gain, s.gain_ns_per_step.value_or(0), s.lost_ns_per_step});
    }
    for (const FixRow& f : r_.fixes) gain = std::max(gain, f.gain_ns_per_step);
    return gain;
  }

  // The lost time that neither stragglers nor chance explain; 0 if it is small.
  double Unowned() const {
    const SlowdownRow& s = r_.slowdown;
    if (!s.lost_ns_per_step || !s.step_ns) return 0;
    double listed = 0;
    for (const StragglerRow& straggler : r_.stragglers) listed += straggler.lost_ns_per_step;
    // Fixing a straggler may also save what the split charges to others.
    const double unowned =
        std::min(s.unlisted_ns_per_step.value_or(0) + s.unexplained_ns_per_step.value_or(0),
                 *s.lost_ns_per_step - s.noise_ns_per_step.value_or(0) - std::max(listed, StragglersGain()));
    const bool large = unowned > kUnownedShare * *s.lost_ns_per_step &&
                       unowned > std::max(kUnownedOfStep * *s.step_ns, s.noise_floor_ns_per_step.value_or(0));
    return large ? unowned : 0;
  }

  std::string UnownedText(double unowned) const {
    return absl::StrFormat("%s of the %s lost per step have no owner", LengthText(unowned),
                           LengthText(*r_.slowdown.lost_ns_per_step));
  }

  // `shared`: the leading shared loss, or null. It is known without comparing ranks.
  FirstLine NothingJudged(const SharedLossRow* shared) const {
    const NotJudgedRow& n = r_.not_judged[0];
    if (shared == nullptr)
      return {.text = "NO STRAGGLER FOUND; nothing could be judged: " + n.why + ". " +
                      Capitalized(n.what_would_tell)};
    FirstLine line = SlowJob(*shared, nullptr);
    line.text += "; no rank could be judged: " + n.why;
    return line;
  }

  static std::string Capitalized(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  FirstLine TooFewSteps() const {
    FirstLine line{.headline = Headline::kTooFewSteps};
    line.text = absl::StrFormat(
        "TOO FEW STEPS: %d step%s recorded whole, a verdict needs %d: capture %d more.", r_.capture.steps,
        r_.capture.steps == 1 ? "" : "s", analysis::kLeastSteps, analysis::kLeastSteps - r_.capture.steps);
    double waited = 0;
    const RankRow* most = MostWaitedFor(&waited);
    const SharedLossRow* shared = r_.shared_losses.empty() ? nullptr : &r_.shared_losses[0];
    std::string waiting;
    if (most != nullptr && waited >= kNotableWait * r_.slowdown.step_ns.value_or(0))
      waiting = absl::StrFormat("the others wait for rank %d, mean %s per waiting rank and step",
                                most->rank.value(), LengthText(waited));
    if (shared != nullptr && shared->lost_ns_per_step >= waited) {
      line.text +=
          " So far the largest share: " + SharedText(*shared) + (waiting.empty() ? "" : "; " + waiting);
      if (!ByDesign(shared->kind)) line.page = PageForShared(shared->kind);
    } else if (!waiting.empty()) {
      line.text += " So far " + waiting;
      if (shared != nullptr) line.text += "; " + SharedText(*shared);
    }
    return line;
  }

  // The rank that caused the most waiting, and the mean waiting of each other rank per step.
  const RankRow* MostWaitedFor(double* mean) const {
    const RankRow* most = nullptr;
    for (const RankRow& r : r_.ranks) {
      if (r.caused_wait > Nanos() && (most == nullptr || r.caused_wait > most->caused_wait)) most = &r;
    }
    if (most == nullptr || r_.ranks.size() < 2) return nullptr;
    *mean = static_cast<double>(most->caused_wait.ns()) /
            std::max(1.0, static_cast<double>(r_.capture.steps)) / static_cast<double>(r_.ranks.size() - 1);
    return most;
  }

  static std::string SharedText(const SharedLossRow& s) {
    return absl::StrFormat("%s %s of each step (%s)", SharedSentence(s.kind), Percent(s.share_of_step),
                           LengthText(s.lost_ns_per_step));
  }

  static std::string SharedSentence(const std::string& kind) {
    if (kind == "input") return "all ranks wait for input";
    if (kind == "host_launch") return "all GPUs wait for launches";
    if (kind == "exposed_transfer") return "all ranks transfer data that nothing hides";
    if (kind == "exposed_wait") return "all ranks wait for each other";
    if (kind == "pipeline_bubble") return "the stages wait for each other";
    if (kind == "copies") return "all GPUs copy that nothing hides";
    return "all GPUs idle, for a reason that was not recorded,";
  }

  FirstLine SlowJob(const SharedLossRow& s, const StragglerRow* straggler) const {
    FirstLine line{
        .headline = Headline::kSlowJob, .page = PageForShared(s.kind), .tone = Tone::kBad, .shared = &s};
    line.text = "SLOW JOB: " + SharedLossInWords(s.kind) + ". " + Capitalized(SharedText(s));
    if (straggler != nullptr)
      line.text += "; also " + StragglerName(r_, *straggler) + ": " + CauseInWords(straggler->cause) + ", " +
                   GainText(r_, straggler->gain_ns_per_step.value_or(0), std::nullopt) +
                   GainWithOthers(straggler->gain_ns_per_step.value_or(0));
    return line;
  }

  FirstLine Straggler(const StragglerRow& s, double unowned) const {
    const std::string host = s.hosts.size() == 1 ? s.hosts[0] : "";
    FirstLine line{.headline = OfAllRanks(s) ? Headline::kSlowJob : Headline::kStraggler,
                   .page = PageFor(s.cause, host),
                   .tone = Tone::kBad};
    line.text = absl::StrFormat("%s %s: %s, %s.", OfAllRanks(s) ? "SLOW JOB" : "STRAGGLER",
                                StragglerName(r_, s), CauseInWords(s.cause), s.verdict);
    if (s.gain_ns_per_step)
      line.text += " Fixing it gains " + GainText(r_, *s.gain_ns_per_step, s.gain_interval) + " per step" +
                   GainWithOthers(*s.gain_ns_per_step);
    if (r_.stragglers.size() > 1) line.text += absl::StrFormat("; %d more below", r_.stragglers.size() - 1);
    if (unowned > 0) line.text += "; " + UnownedText(unowned);
    return line;
  }

  // Fixing the first straggler alone gains little if others delay the job as much. Returns the gain of fixing
  // them together; empty: it is not larger.
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
    return ", together with " + RankList(others, 3) + " " +
           GainText(r_, best->gain_ns_per_step, best->gain_interval);
  }

  FirstLine Unexplained(double unowned, const StragglerRow* straggler) const {
    FirstLine line{.headline = Headline::kUnexplained, .page = "the training owner: the cause is not known."};
    line.text = "UNEXPLAINED " + UnownedText(unowned);
    if (straggler != nullptr)
      line.text += "; " + StragglerName(r_, *straggler) + " gains " +
                   GainText(r_, straggler->gain_ns_per_step.value_or(0), std::nullopt) + ": " +
                   CauseInWords(straggler->cause);
    return line;
  }

  FirstLine Undecided(const StragglerRow& s) const {
    FirstLine line;
    line.text = absl::StrFormat("NO STRAGGLER FOUND for certain. Undecided: %s, %s", StragglerName(r_, s),
                                CauseInWords(s.cause));
    if (s.gain_ns_per_step)
      line.text += "; fixing it gains " + GainText(r_, *s.gain_ns_per_step, s.gain_interval) + " per step";
    if (r_.stragglers.size() > 1) line.text += absl::StrFormat("; %d more below", r_.stragglers.size() - 1);
    return line;
  }

  FirstLine Nothing() const {
    std::string floor;
    if (r_.slowdown.noise_floor_ns_per_step)
      floor = absl::StrFormat(" by more than %s per step (noise floor)",
                              LengthText(*r_.slowdown.noise_floor_ns_per_step));
    const std::string waiting = UnexplainedWaiting();
    if (r_.not_judged.empty() && waiting.empty() && !r_.capture.partial) {
      FirstLine line{.headline = Headline::kHealthy, .tone = Tone::kGood};
      line.text =
          "HEALTHY no rank holds the others back" + floor + "; all ranks, hosts and links were judged";
      if (!r_.shared_losses.empty()) line.text += ". By design " + SharedText(r_.shared_losses[0]);
      return line;
    }
    std::string text = "NO STRAGGLER FOUND: no rank is seen to hold the others back" + floor;
    std::string unjudged;
    for (const NotJudgedRow& n : r_.not_judged)
      absl::StrAppend(&unjudged, unjudged.empty() ? "" : ", ", n.what);
    if (!unjudged.empty()) text += "; not judged: " + unjudged;
    if (r_.capture.partial) text += "; not judged: what was not recorded of " + NotRecorded();
    return {.text = text + waiting};
  }

  std::string NotRecorded() const {
    std::vector<RankId> ranks = r_.capture.missing_ranks;
    for (const IncompleteRow& row : r_.capture.incomplete) {
      if (std::find(ranks.begin(), ranks.end(), row.rank) == ranks.end()) ranks.push_back(row.rank);
    }
    return ranks.empty() ? "the job" : RankList(ranks, 8);
  }

  // Waiting for one rank that no fix of it would save contradicts "healthy".
  std::string UnexplainedWaiting() const {
    if (!r_.waiting || r_.waiting->causers.empty() || !r_.slowdown.step_ns) return "";
    const WaitingCauserRow& c = r_.waiting->causers[0];
    if (!c.mean_wait_ns_per_step ||
        static_cast<double>(c.victims) < kMostOthers * static_cast<double>(r_.ranks.size() - 1))
      return "";
    const double mean = *c.mean_wait_ns_per_step;
    if (mean < std::max(kNotableWait * *r_.slowdown.step_ns, r_.slowdown.noise_floor_ns_per_step.value_or(0)))
      return "";
    return absl::StrFormat("; but %d ranks wait for rank %d, mean %s per waiting rank and step", c.victims,
                           c.rank.value(), LengthText(mean));
  }

  const Report& r_;
};

}  // namespace

const RankRow* RankRowOf(const Report& report, RankId rank) {
  const auto row = std::find_if(report.ranks.begin(), report.ranks.end(),
                                [&](const RankRow& r) { return r.rank == rank; });
  return row == report.ranks.end() ? nullptr : &*row;
}

std::string StragglerName(const Report& report, const StragglerRow& s) {
  if (s.kind == "data") return s.ranks.empty() ? "the data" : "data of " + RankList(s.ranks, 3);
  if (s.kind == "job")
    return s.ranks.empty() || s.ranks.size() == report.ranks.size()
               ? "all ranks"
               : "the job (" + RankList(s.ranks, 3) + ")";
  if (s.kind == "host" && s.hosts.size() == 1)
    return absl::StrFormat("host %s (%d ranks)", s.hosts[0], s.ranks.size());
  if (s.kind == "stage") return absl::StrFormat("one stage (%s)", RankList(s.ranks, 3));
  std::string name = RankList(s.ranks, 3);
  if (s.kind == "group" && s.ranks.size() > 1)
    return (s.verdict == "undecided" ? "one of " : "group of ") + name;
  if (s.ranks.size() == 1) {
    if (const RankRow* row = RankRowOf(report, s.ranks[0]))
      name += absl::StrFormat(" (%s GPU %d)", row->host, row->device);
  }
  return name;
}

std::string GainText(const Report& report, double gain, const std::optional<Range>& interval) {
  std::string text = LengthText(gain);
  if (report.slowdown.step_ns && *report.slowdown.step_ns > 0)
    text += " (" + Percent(gain / *report.slowdown.step_ns) + ")";
  if (interval) text += absl::StrFormat(" [%s, %s]", LengthText(interval->low), LengthText(interval->high));
  return text;
}

std::string SharedLossInWords(const std::string& kind) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"input", "data loader"},
      {"host_launch", "late launches"},
      {"exposed_transfer", "communication that nothing hides"},
      {"exposed_wait", "ranks wait in turns"},
      {"pipeline_bubble", "pipeline bubble"},
      {"copies", "copies that nothing hides"},
      {"idle_other", "idle GPUs"}};
  for (const auto& [name, words] : kWords) {
    if (name == kind) return std::string(words);
  }
  return kind;
}

FirstLine MakeFirstLine(const Report& report) { return LineMaker(report).Run(); }

}  // namespace lockstep::report
