#include "report/first_line.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
// A loss below this share of the step can wait until the morning.
constexpr double kWakeFrom = 0.05;
// A team is also paged for a further straggler that costs this share of what the first one costs.
constexpr double kAlsoPaged = 0.1;
// More hosts are not named in the page.
constexpr size_t kMostHosts = 4;

bool ByDesign(const std::string& kind) {
  return kind == "exposed_transfer" || kind == "exposed_wait" || kind == "pipeline_bubble";
}

bool Believed(const StragglerRow& s) { return s.verdict != "undecided"; }
bool OfAllRanks(const StragglerRow& s) { return s.kind == "job"; }

enum class Team { kTraining, kHardware, kNetwork, kCluster };

std::string TeamName(Team team) {
  switch (team) {
    case Team::kTraining:
      return "the training owner";
    case Team::kHardware:
      return "the hardware team";
    case Team::kNetwork:
      return "the network team";
    case Team::kCluster:
      return "the cluster operators";
  }
  return "";
}

std::string UrgencyInWords(Urgency urgency) {
  switch (urgency) {
    case Urgency::kNobody:
      return "nobody";
    case Urgency::kNobodyYet:
      return "nobody yet: ";
    case Urgency::kMorning:
      return "in the morning: ";
    case Urgency::kNow:
      return "now: ";
  }
  return "";
}

bool IsUnknown(const std::string& cause) {
  return cause == "unknown" || cause == "victim" || cause == "common";
}

// The teams that can fix a cause, the one to wake first.
std::vector<Team> TeamsFor(const std::string& cause) {
  for (const std::string_view hardware : {"gpu_clock", "gpu_memory", "slow_link", "copy"}) {
    if (cause == hardware) return {Team::kHardware};
  }
  if (cause == "congestion") return {Team::kNetwork};
  if (cause == "cpu_contention" || cause == "host_launch") return {Team::kCluster, Team::kTraining};
  if (cause == "data_loader") return {Team::kTraining, Team::kCluster};
  return {Team::kTraining};
}

std::string PageForShared(const std::string& kind) {
  if (kind == "input") return "the training owner (input pipeline). Not the hardware team";
  if (kind == "exposed_transfer") return "the training owner, then the network team";
  return "the training owner. Not the hardware team";
}

class LineMaker {
 public:
  explicit LineMaker(const Report& report) : r_(report) {}

  FirstLine Run() {
    FirstLine line = Choose();
    if (r_.capture.partial) line.text = "PARTIAL " + line.text;
    if (line.urgency == Urgency::kNow && CanWait(line)) line.urgency = Urgency::kMorning;
    line.page = UrgencyInWords(line.urgency) + line.page + ".";
    return line;
  }

 private:
  bool CanWait(const FirstLine& line) const {
    const double shared = line.shared != nullptr ? line.shared->lost_ns_per_step : 0;
    const double lost = std::max({StragglersGain(), shared, Unowned()});
    return lost < kWakeFrom * r_.slowdown.step_ns.value_or(0);
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
    if (shared == nullptr)
      return {.text = "NO STRAGGLER FOUND; nothing could be judged: " + n.why + ". " +
                      Capitalized(n.what_would_tell)};
    FirstLine line = SlowJob(*shared, nullptr);
    line.text += "; no rank could be judged: " + n.why;
    line.urgency = Urgency::kNobodyYet;
    line.page = n.what_would_tell;
    return line;
  }

  static std::string Capitalized(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
  }

  FirstLine TooFewSteps() const {
    FirstLine line{
        .headline = Headline::kTooFewSteps, .urgency = Urgency::kNobodyYet, .page = "capture more steps"};
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
        one ? absl::StrFormat("the only recorded rank, %d,", r_.ranks[0].rank.value()) : "all ranks";
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
    FirstLine line{.headline = Headline::kSlowJob,
                   .urgency = Urgency::kNow,
                   .page = PageForShared(s.kind),
                   .tone = Tone::kBad,
                   .shared = &s};
    line.text = "SLOW JOB: " + SharedLossInWords(s.kind) + ". " + Capitalized(SharedText(s));
    if (straggler != nullptr)
      line.text += "; also " + StragglerName(r_, *straggler) + ": " + CauseInWords(straggler->cause) + ", " +
                   GainText(r_, straggler->gain_ns_per_step.value_or(0), std::nullopt) +
                   GainWithOthers(straggler->gain_ns_per_step.value_or(0));
    return line;
  }

  // The teams for the first straggler `s`, and for others that cost a notable part of what it costs.
  std::string PageFor(const StragglerRow& s) const {
    const auto cost = [](const StragglerRow& of) {
      return std::max(of.gain_ns_per_step.value_or(0), of.lost_ns_per_step);
    };
    std::vector<Team> teams;
    std::map<Team, std::vector<std::string>> hosts;
    bool unknown = false;
    for (const StragglerRow& other : r_.stragglers) {
      if (!Believed(other) || cost(other) < kAlsoPaged * cost(s)) continue;
      unknown = unknown || IsUnknown(other.cause);
      for (const Team team : TeamsFor(other.cause)) {
        AddNew(team, teams);
        for (const std::string& host : other.hosts) AddNew(host, hosts[team]);
      }
    }
    std::string text;
    for (const Team team : teams) {
      absl::StrAppend(&text, text.empty() ? "" : ", then ", TeamName(team));
      if (team == Team::kTraining && s.cause == "data_loader") text += " (input pipeline)";
      if (team == Team::kHardware || team == Team::kCluster) text += HostsText(hosts[team]);
    }
    if (IsUnknown(s.cause)) return text + ": the cause is not known";
    const Team asleep = teams[0] == Team::kTraining ? Team::kHardware : Team::kTraining;
    if (unknown || std::find(teams.begin(), teams.end(), asleep) != teams.end()) return text;
    return text + ". Not " + TeamName(asleep);
  }

  template <typename T>
  static void AddNew(const T& value, std::vector<T>& values) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }

  static std::string HostsText(const std::vector<std::string>& hosts) {
    if (hosts.empty() || hosts.size() > kMostHosts) return "";
    return absl::StrCat(hosts.size() > 1 ? " (hosts " : " (host ", absl::StrJoin(hosts, ", "), ")");
  }

  FirstLine Straggler(const StragglerRow& s, double unowned) const {
    FirstLine line{.headline = OfAllRanks(s) ? Headline::kSlowJob : Headline::kStraggler,
                   .urgency = Urgency::kNow,
                   .page = PageFor(s),
                   .tone = Tone::kBad};
    line.text = absl::StrFormat("%s %s: %s, %s.", OfAllRanks(s) ? "SLOW JOB" : "STRAGGLER",
                                StragglerName(r_, s), CauseInWords(s.cause), s.verdict);
    line.entries = {0};
    if (s.gain_ns_per_step) {
      const FixRow* fix = BestWithOthers(*s.gain_ns_per_step);
      if (fix != nullptr) line.entries = fix->entries;
      line.text += fix != nullptr ? " Fixing it alone gains " : " Fixing it gains ";
      line.text += GainText(r_, *s.gain_ns_per_step, s.gain_interval) + " per step" +
                   GainWithOthers(*s.gain_ns_per_step);
    }
    if (const size_t others = r_.stragglers.size() - line.entries.size(); others > 0)
      line.text += absl::StrFormat("; %d more below", others);
    if (unowned > 0) line.text += "; " + UnownedText(unowned);
    return line;
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

  std::string GainWithOthers(double alone) const {
    const FixRow* best = BestWithOthers(alone);
    if (best == nullptr) return "";
    std::vector<RankId> others;
    for (uint32_t e : best->entries) {
      if (e > 0) others.insert(others.end(), r_.stragglers[e].ranks.begin(), r_.stragglers[e].ranks.end());
    }
    return "; with " + RankList(others, 3) +
           " too: " + GainText(r_, best->gain_ns_per_step, best->gain_interval);
  }

  FirstLine Unexplained(double unowned, const StragglerRow* straggler) const {
    FirstLine line{.headline = Headline::kUnexplained,
                   .urgency = Urgency::kNow,
                   .page = "the training owner: the cause is not known"};
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
    std::string text = r_.ranks.size() == 1
                           ? "NO STRAGGLER FOUND: there is only one rank, and no other to compare it with"
                           : "NO STRAGGLER FOUND: no rank is seen to hold the others back" + floor;
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
