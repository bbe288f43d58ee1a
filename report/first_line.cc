#include "report/first_line.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/diagnosis.h"
#include "analysis/explain/judged.h"
#include "report/actions.h"
#include "report/paging.h"
#include "report/row_words.h"

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
// A loss below this share of the step can wait until the morning.
constexpr double kWakeFrom = 0.05;
// If what leads is how the job is written, other losses from this share of the step on are mentioned.
constexpr double kNotableRest = 0.02;
// If what leads can wait, another loss must cost this share of the step to page a team at night.
constexpr double kWakeBeside = 0.1;
// A team is also paged for a further straggler that costs this share of the leading loss.
constexpr double kAlsoPaged = 0.1;
// More stragglers are not named in the line.
constexpr size_t kMostNamed = 3;

// True for losses between ranks. The others are a rank's own, and known without comparing ranks.
bool ByDesign(const std::string& kind) {
  return kind == "exposed_transfer" || kind == "exposed_wait" || kind == "pipeline_bubble";
}

// True for what the job's code makes slow every day. A slow network may also expose transfers.
bool CanWait(const std::string& kind) {
  return kind == "host_launch" || kind == "copies" || kind == "exposed_wait" || kind == "pipeline_bubble";
}

bool Believed(const StragglerRow& s) { return s.verdict != "undecided"; }
bool OfAllRanks(const StragglerRow& s) { return s.kind == "job"; }

std::string UrgencyInWords(Urgency urgency) {
  switch (urgency) {
    case Urgency::kNobody:
      return "nobody";
    case Urgency::kNobodyYet:
      return "nobody yet";
    case Urgency::kMorning:
      return "in the morning";
    case Urgency::kNow:
      return "now";
  }
  return "";
}

// Returns the cost of a straggler per step.
double CostOf(const StragglerRow& s) { return std::max(s.gain_ns_per_step.value_or(0), s.lost_ns_per_step); }

class LineMaker {
 public:
  explicit LineMaker(const Report& report) : r_(report) {}

  FirstLine Run() {
    FirstLine line = Choose();
    if (r_.capture.partial) line.text = "PARTIAL " + line.text;
    std::string why;
    if (line.urgency == Urgency::kNow) why = Schedule(line);
    if (line.urgency == Urgency::kNobody && !line.page.empty()) why = " on this evidence";
    line.page = UrgencyInWords(line.urgency) + why + (line.page.empty() ? "" : ": ") + line.page + ".";
    return line;
  }

 private:
  // Decides whether the page can wait. A loss counts by how certain it is, and what belongs to the job's
  // design can wait. Returns the reason in brackets, or nothing if the first line itself is the reason.
  std::string Schedule(FirstLine& line) const {
    const double step = r_.slowdown.step_ns.value_or(0), least = kWakeFrom * step;
    double faults = line.headline == Headline::kUnexplained ? Unowned() : 0, design = 0, expected = faults;
    if (line.shared != nullptr) {
      const double lost = line.shared->lost_ns_per_step;
      if (CanWait(line.shared->kind)) {
        design += lost;
      } else {
        faults += lost, expected += lost;
      }
    }
    double rest = faults;  // by the gains that the line and FIX show
    std::optional<uint32_t> fault;
    for (const uint32_t i : line.paged) {
      const StragglerRow& s = r_.stragglers[i];
      if (OfDesign(s)) {
        design += CostOf(s);
        continue;
      }
      rest += s.gain_ns_per_step.value_or(s.lost_ns_per_step);
      faults += CostOf(s), expected += CostOf(s) * s.confidence.value_or(1);
      if (!fault || CostOf(s) > CostOf(r_.stragglers[*fault])) fault = i;
    }
    const bool leads_by_design = line.shared != nullptr
                                     ? CanWait(line.shared->kind)
                                     : !line.entries.empty() && OfDesign(r_.stragglers[line.entries[0]]);
    if (expected < (leads_by_design ? kWakeBeside : kWakeFrom) * step) {
      line.urgency = Urgency::kMorning;
      if (design >= least && rest < kNotableRest * step) return " (it is how the job is written)";
      if (design >= least)
        return absl::StrFormat(" (most of it is how the job is written, the rest costs %s of the step)",
                               Percent(rest / step));
      return faults >= least ? " (it is not certain enough to wake anybody)"
                             : absl::StrFormat(" (it costs less than %.0f%% of the step)", 100 * kWakeFrom);
    }
    if (!leads_by_design || !fault) return "";
    line.wakes = fault;
    line.page = PageFor(line);
    const StragglerRow& s = r_.stragglers[*fault];
    return absl::StrFormat(" (%s%s: %s of the step)", CauseInWords(s.cause),
                           Began(s) ? absl::StrFormat(" since step %d", *s.since_step) : "",
                           Percent(CostOf(s) / step));
  }

  // True if it began inside the window.
  bool Began(const StragglerRow& s) const {
    return s.since_step && !r_.steps.empty() && *s.since_step > r_.steps.front().step;
  }

  // True for work that the job's code divides unevenly, unless it began inside the window.
  bool OfDesign(const StragglerRow& s) const {
    return !Began(s) && (s.cause == "stage_imbalance" || s.cause == "expert_imbalance" ||
                         s.cause == "sequence_imbalance" || s.cause == "checkpoint");
  }

  // The members of the returned line: `page` has the teams only, or what to capture.
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
    if (shared == nullptr) {
      FirstLine line{.text = "NO STRAGGLER FOUND; nothing could be judged: " + n.why};
      line.urgency = Urgency::kNobodyYet;
      line.page = n.what_would_tell;
      return line;
    }
    FirstLine line = SlowJob(*shared, nullptr);
    line.text += "; ranks could not be compared: " + n.why;
    line.urgency = Urgency::kNobodyYet;
    line.page = r_.capture.missing_ranks.empty()
                    ? n.what_would_tell
                    : "first get the records of " + RankList(r_.capture.missing_ranks, 3);
    if (!ByDesign(shared->kind)) {
      Pager pager;
      pager.AddSharedLoss(shared->kind);
      line.page += ", and follow the new report; if that is not possible, in the morning, " + pager.Teams();
    }
    return line;
  }

  static std::string Capitalized(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  FirstLine TooFewSteps() const {
    FirstLine line{
        .headline = Headline::kTooFewSteps, .urgency = Urgency::kNobodyYet, .page = "capture more steps"};
    line.text = absl::StrFormat("TOO FEW STEPS: %d step%s recorded whole, a verdict needs %d.",
                                r_.capture.steps, r_.capture.steps == 1 ? "" : "s", analysis::kLeastSteps);
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

  std::string SharedText(const SharedLossRow& s) const {
    return absl::StrFormat("%s %s of each step (%s)", SharedSentence(s.kind), Percent(s.share_of_step),
                           LengthText(s.lost_ns_per_step));
  }

  std::string SharedSentence(const std::string& kind) const {
    const bool one = r_.ranks.size() == 1;
    const std::string ranks =
        !one ? "all ranks"
             : absl::StrFormat("the only %srank, %d,", r_.capture.world_size > 1 ? "recorded " : "",
                               r_.ranks[0].rank.value());
    const std::string waits = one ? " waits" : " wait";
    if (kind == "input") return ranks + waits + " for input";
    if (kind == "host_launch") return ranks + waits + " for launches";
    if (kind == "exposed_transfer")
      return ranks + (one ? " transfers" : " transfer") + " data that nothing hides";
    if (kind == "exposed_wait") return ranks + waits + (one ? " for others" : " for each other");
    if (kind == "pipeline_bubble") return "the stages wait for each other";
    if (kind == "copies") return ranks + waits + " for copies";
    return ranks + (one ? " idles" : " idle") + ", for a reason that was not recorded,";
  }

  FirstLine SlowJob(const SharedLossRow& s, const StragglerRow* straggler) const {
    FirstLine line{
        .headline = Headline::kSlowJob, .urgency = Urgency::kNow, .tone = Tone::kBad, .shared = &s};
    line.text = "SLOW JOB: " + SharedLossInWords(s.kind) + ". " + Capitalized(SharedText(s)) +
                GpuHoursText(r_, s.lost_ns_per_step);
    if (straggler != nullptr) {
      const double alone = straggler->gain_ns_per_step.value_or(0);
      const FixRow* fix = BestWithOthers(alone);
      line.text += "; also " + EntriesText(fix != nullptr ? fix->entries : std::vector<uint32_t>{0}) + ", " +
                   GainText(r_, fix != nullptr ? fix->gain_ns_per_step : alone, std::nullopt);
      line.paged = Costly(s.lost_ns_per_step);
    }
    line.page = PageFor(line);
    return line;
  }

  // The believed stragglers that cost a notable part of `leading`, into Report::stragglers.
  std::vector<uint32_t> Costly(double leading) const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < r_.stragglers.size(); ++i) {
      if (Believed(r_.stragglers[i]) && CostOf(r_.stragglers[i]) >= kAlsoPaged * leading) out.push_back(i);
    }
    return out;
  }

  // The teams for the loss that leads `line`, and for its paged stragglers.
  std::string PageFor(const FirstLine& line) const {
    Pager pager;
    if (line.wakes) pager.AddStraggler(r_.stragglers[*line.wakes]);
    if (line.headline == Headline::kUnexplained) pager.AddUnexplained();
    if (line.shared != nullptr) pager.AddSharedLoss(line.shared->kind);
    for (const uint32_t i : line.paged) pager.AddStraggler(r_.stragglers[i]);
    return pager.Text();
  }

  // "rank 3 (n1 GPU 3): slow GPU", "host pauses on all ranks"
  std::string EntryText(const StragglerRow& s) const {
    const std::string name = StragglerName(r_, s), cause = CauseInWords(s.cause);
    return OfAllRanks(s) ? cause + " on " + name : name + ": " + cause;
  }

  // The stragglers that lead, those of one cause together: "rank 0 (GPU 0) and rank 4 (GPU 0): slow GPU,
  // sure".
  std::string EntriesText(const std::vector<uint32_t>& entries) const {
    std::string text;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) text += i + 1 < entries.size() ? ", " : " and ";
      if (i == kMostNamed && entries.size() > kMostNamed + 1)
        return text + absl::StrFormat("%d more", entries.size() - i);
      const StragglerRow& s = r_.stragglers[entries[i]];
      const StragglerRow* next = i + 1 < entries.size() ? &r_.stragglers[entries[i + 1]] : nullptr;
      const bool with_next = next != nullptr && !OfAllRanks(s) && !OfAllRanks(*next) &&
                             next->cause == s.cause && next->verdict == s.verdict && i + 1 != kMostNamed;
      text += with_next ? StragglerName(r_, s) : EntryText(s) + ", " + s.verdict;
    }
    return text;
  }

  FirstLine Straggler(const StragglerRow& s, double unowned) const {
    FirstLine line{.headline = OfAllRanks(s) ? Headline::kSlowJob : Headline::kStraggler,
                   .urgency = Urgency::kNow,
                   .tone = Tone::kBad};
    const FixRow* fix = s.gain_ns_per_step ? BestWithOthers(*s.gain_ns_per_step) : nullptr;
    line.entries = fix != nullptr ? fix->entries : std::vector<uint32_t>{0};
    line.paged = Costly(CostOf(s));
    for (const uint32_t i : line.entries) {
      if (std::find(line.paged.begin(), line.paged.end(), i) == line.paged.end()) line.paged.push_back(i);
    }
    line.page = PageFor(line);
    line.text = (OfAllRanks(s) ? "SLOW JOB: " : "STRAGGLER ") + EntriesText(line.entries) + ".";
    if (fix != nullptr) {
      line.text +=
          (fix->entries.size() == 2 ? std::string(" Fixing both gains ")
                                    : absl::StrFormat(" Fixing all %d gains ", fix->entries.size())) +
          GainText(r_, fix->gain_ns_per_step, fix->gain_interval) +
          " per step, fixing only the first gains " + GainText(r_, *s.gain_ns_per_step, std::nullopt) +
          (fix->entries.size() == 2 ? ", because the other is in the way too"
                                    : ", because the others are in the way too");
    } else if (s.gain_ns_per_step) {
      line.text += " Fixing it gains " + GainText(r_, *s.gain_ns_per_step, s.gain_interval) + " per step";
    }
    line.text += OthersText(line.entries);
    if (unowned > 0) line.text += "; " + UnownedText(unowned);
    return line;
  }

  // "; 3 smaller below, the largest costs 5%"
  std::string OthersText(const std::vector<uint32_t>& leading) const {
    double largest = 0;
    size_t others = 0;
    for (uint32_t i = 0; i < r_.stragglers.size(); ++i) {
      if (std::find(leading.begin(), leading.end(), i) != leading.end()) continue;
      largest = std::max(largest, CostOf(r_.stragglers[i]));
      ++others;
    }
    if (others == 0) return "";
    std::string text = absl::StrFormat("; %d smaller below", others);
    if (r_.slowdown.step_ns)
      absl::StrAppend(&text, others > 1 ? ", the largest costs " : ", which costs ",
                      Percent(largest / *r_.slowdown.step_ns));
    return text;
  }

  // Fixing the first straggler alone gains little if others delay the job as much. Returns the smallest fix
  // of several stragglers that gains twice as much; null: there is none.
  const FixRow* BestWithOthers(double alone) const {
    const FixRow* best = nullptr;
    for (const FixRow& f : r_.fixes) {
      const bool has_first = std::find(f.entries.begin(), f.entries.end(), 0u) != f.entries.end();
      if (!has_first || f.entries.size() < 2 || f.gain_ns_per_step < 2 * alone) continue;
      if (best == nullptr || f.entries.size() < best->entries.size()) best = &f;
    }
    return best;
  }

  FirstLine Unexplained(double unowned, const StragglerRow* straggler) const {
    FirstLine line{.headline = Headline::kUnexplained, .urgency = Urgency::kNow, .paged = Costly(unowned)};
    line.page = PageFor(line);
    line.text = "UNEXPLAINED " + UnownedText(unowned);
    if (straggler != nullptr)
      line.text += "; fixing " + EntryText(*straggler) + " gains " +
                   GainText(r_, straggler->gain_ns_per_step.value_or(0), std::nullopt);
    return line;
  }

  FirstLine Undecided(const StragglerRow& s) const {
    // Of two ranks, no number of steps tells which one is slow.
    FirstLine line{.urgency = Urgency::kNobodyYet,
                   .page = s.kind == "group" ? analysis::kCompareWithFast : "capture longer to decide"};
    line.text = "NO STRAGGLER FOUND yet. Undecided: " + EntryText(s);
    if (s.gain_ns_per_step)
      line.text +=
          "; fixing it would gain " + GainText(r_, *s.gain_ns_per_step, s.gain_interval) + " per step";
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
    std::string text = r_.ranks.size() == 1
                           ? "NO STRAGGLER FOUND: there is only one rank, and no other to compare it with"
                           : "NO STRAGGLER FOUND: no rank is seen to hold the others back" + floor;
    std::string unjudged;
    for (const NotJudgedRow& n : r_.not_judged)
      absl::StrAppend(&unjudged, unjudged.empty() ? "" : ", ", n.what);
    if (!unjudged.empty()) text += "; not judged: " + unjudged;
    if (r_.capture.partial) text += "; not judged: what was not recorded of " + NotRecorded();
    return {.text = text + waiting,
            .page = "if the job was faster before, compare with a capture of that time (lockstep diff)"};
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

FirstLine MakeFirstLine(const Report& report) { return LineMaker(report).Run(); }

}  // namespace lockstep::report
