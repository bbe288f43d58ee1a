#include "cli/top/top_screen.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "aggregator/captures/selection.h"
#include "aggregator/notice/slowdown_text.h"
#include "analysis/explain/causes.h"
#include "base/log/clean_text.h"
#include "base/time.h"
#include "cli/top/top_table.h"
#include "report/text_layout.h"

namespace lockstep::cli {
namespace {

using analysis::LengthText;
using report::Tone;

constexpr size_t kNarrowest = 60;
constexpr size_t kMostGroups = 3;
constexpr size_t kMostSlowdowns = 3;
// Changes below this fraction of a step are shown as flat, because they are noise.
constexpr double kFlat = 0.02;

constexpr const char* kKeys = "q quit  s sort  p pause  arrows scroll  ? help";
constexpr const char* kHelp[] = {
    "A sample is a short capture of all ranks at once; the screen shows the newest. Between samples the job "
    "runs untouched.",
    "",
    "STEP           length of a step in the sample; beside it the mean over all steps since the sample "
    "before, traced or not",
    "ABOVE TYPICAL  what the rank's own work costs the job per step, beyond what is typical of its peers",
    "SELF           its own time per step, without waiting",
    "WAIT TRANSFER IDLE   part of the time in which its device did only that",
    "OVERLAP        part of its communication that was hidden behind computing",
    "LOST           records that were lost in the sample; the footer says where",
    "SKEW           between the first and the last rank that comes to a collective",
    "SLOWER, HANG   what the aggregator noticed in all steps, also between samples (lockstep status has "
    "more)",
    "",
    "q  quit            s  sort by the next column       p  pause: no samples either, until pressed again",
    "up down  scroll    page up, page down, home, end    ?  this page, and back",
};

class Screen {
 public:
  Screen(const TopModel& model, const TopScreenOptions& options)
      : model_(model), o_(options), width_(std::max(options.width, kNarrowest)) {}

  std::vector<std::string> Run() {
    if (o_.page == TopPage::kHelp) return Help();
    Head();
    if (const v1::Sample* sample = model_.last()) {
      Step(*sample);
      Notice();
      Verdict(*sample);
    } else {
      Notice();
    }
    Pause();
    std::vector<std::string> foot;
    if (const v1::Sample* sample = model_.last()) foot = Foot(*sample);
    if (o_.page != TopPage::kText) foot.push_back(Fitted(Keys(), width_));
    if (model_.last() != nullptr) Tables(foot.size());
    Fit(foot);
    return std::move(lines_);
  }

 private:
  std::vector<std::string> Help() {
    for (const char* line : kHelp) Say(line, 15, Tone::kPlain);
    Fit({Fitted("? back  q quit", width_)});
    return std::move(lines_);
  }

  // Adds a paragraph whose first word has the given tone.
  void Say(const std::string& text, size_t hang, Tone tone) {
    if (text.empty()) return lines_.emplace_back(), void();
    report::TextLayout layout(static_cast<int>(width_), o_.color == TopColor::kColored);
    layout.Line(text, hang, tone);
    for (const auto line : absl::StrSplit(layout.Take(), '\n', absl::SkipEmpty())) lines_.emplace_back(line);
  }

  void Head() {
    const v1::Sample* s = model_.last();
    std::string line = absl::StrCat("lockstep top  job ", model_.pace().job_name());
    if (s != nullptr) {
      absl::StrAppend(&line, "  ", s->ranks_size(), s->ranks_size() == 1 ? " rank" : " ranks");
      if (s->world_size() > s->ranks_size()) absl::StrAppend(&line, " of ", s->world_size());
      absl::StrAppend(&line, " on ", s->hosts(), s->hosts() == 1 ? " host" : " hosts",
                      absl::StrFormat("  watched %s", Clock(s->elapsed_ns())));
    }
    if (o_.page == TopPage::kHeld) line += "  PAUSED";
    Say(line, 2, Tone::kTitle);
    if (s == nullptr) return Say("waiting for the first sample", 2, Tone::kPlain);
    if (s->missing_ranks_size() == 0) return;
    const std::vector<int32_t> missing(s->missing_ranks().begin(), s->missing_ranks().end());
    Say(absl::StrCat("MISSING rank", missing.size() == 1 ? " " : "s ", aggregator::RankList(missing)), 2,
        Tone::kWarn);
  }

  static std::string Clock(int64_t ns) {
    const int64_t seconds = ns / 1'000'000'000;
    return seconds < 3600 ? absl::StrFormat("%d:%02d", seconds / 60, seconds % 60)
                          : absl::StrFormat("%d:%02d:%02d", seconds / 3600, seconds / 60 % 60, seconds % 60);
  }

  void Step(const v1::Sample& s) {
    if (!s.has_step_ns()) return;
    std::string line = s.steps() == 0 ? "STEP unknown: nothing tells steps apart"
                                      : absl::StrCat("STEP ", LengthText(s.step_ns()));
    if (const auto since = model_.StepSinceSampleNs()) {
      absl::StrAppend(&line, " (all since the last sample: ", LengthText(*since),
                      absl::StrFormat(", %.3g/s)", 1e9 / *since));
    }
    if (s.has_last_step()) absl::StrAppend(&line, "  at step ", s.last_step());
    // The trend gets its own line if it would not fit into this one.
    constexpr size_t kMostTrend = 40;
    const std::string trend =
        s.steps() == 0 ? "" : Sparkline(model_.StepTrend(std::min(kMostTrend, width_ - 10)), o_.letters);
    Say(line, 2, Tone::kTitle);
    if (trend.empty()) return;
    if (Columns(line) + 2 + Columns(trend) <= width_) return absl::StrAppend(&lines_.back(), "  ", trend);
    lines_.push_back(absl::StrCat("  trend ", trend));
  }

  // The aggregator noticed these in all steps, also outside samples.
  void Notice() {
    const v1::JobNotice& notice = model_.notice();
    for (const v1::JobHang& hang : notice.hangs())
      Say(absl::StrCat("HANG ", hang.sentence(), CaptureOf(hang)), 2, Tone::kBad);
    size_t slow = 0;
    for (const v1::Slowdown& s : notice.steps().slowdowns()) {
      if (s.ended_unix_ns() != 0 || ++slow > kMostSlowdowns) continue;
      Say(absl::StrCat("SLOWER ", aggregator::SlowdownText(s), CaptureOf(s)), 2, Tone::kBad);
    }
    if (slow > kMostSlowdowns)
      Say(absl::StrCat("  and ", slow - kMostSlowdowns, " more: lockstep status"), 2, Tone::kPlain);
    // One value has no trend.
    if (notice.steps().trend_ns_size() >= 2) MinuteTrend(notice.steps());
  }

  void MinuteTrend(const v1::JobSteps& steps) {
    const std::string before = "  all steps, by minute: ";
    const std::string after = absl::StrCat(" ", LengthText(static_cast<double>(*steps.trend_ns().rbegin())));
    const int room = static_cast<int>(width_ - std::min(width_, before.size() + after.size()));
    std::vector<std::optional<double>> minutes;
    for (int i = std::max(0, steps.trend_ns_size() - room); i < steps.trend_ns_size(); ++i)
      minutes.emplace_back(static_cast<double>(steps.trend_ns(i)));
    lines_.push_back(absl::StrCat(before, Sparkline(minutes, o_.letters), after));
  }
  template <typename Noticed>
  static std::string CaptureOf(const Noticed& noticed) {
    return noticed.capture().empty() ? "" : absl::StrCat("; capture ", noticed.capture());
  }

  void Verdict(const v1::Sample& s) {
    const bool bad = absl::StartsWith(s.verdict(), "STRAGGLER");
    const bool good = absl::StartsWith(s.verdict(), "HEALTHY");
    Say(s.verdict(), 2, bad ? Tone::kBad : good ? Tone::kGood : Tone::kWarn);
    std::string line = " ";
    if (const TopAgreement a = model_.Agreement(); a.of > 0) {
      absl::StrAppend(&line, " ", a.agree, " of the last ", a.of,
                      a.of == 1 ? " sample says so" : " samples say so");
    }
    if (s.has_lost_ns_per_step())
      absl::StrAppend(&line, line.size() > 1 ? "; " : " ", "lost ", LengthText(s.lost_ns_per_step()),
                      " per step");
    if (s.has_ratio()) absl::StrAppend(&line, absl::StrFormat(", SLOWDOWN %.3fx", s.ratio()));
    if (s.has_ideal_step_ns()) absl::StrAppend(&line, ", ideal step ", LengthText(s.ideal_step_ns()));
    if (line.size() > 1) Say(line, 2, Tone::kPlain);
    for (int i = 1; i < std::min(s.stragglers_size(), 3); ++i) {
      const v1::SampleStraggler& other = s.stragglers(i);
      const std::vector<int32_t> ranks(other.ranks().begin(), other.ranks().end());
      Say(absl::StrCat("  also ", other.kind() == "rank" ? "" : absl::StrCat(other.kind(), " of "), "rank",
                       ranks.size() == 1 ? " " : "s ", aggregator::RankList(ranks), ": ", other.cause(), ", ",
                       other.verdict(), ", ", LengthText(other.lost_ns_per_step())),
          2, Tone::kPlain);
    }
  }

  void Pause() {
    if (model_.ended())
      return Say(absl::StrCat("ENDED the job has ended, after ", model_.samples(), " samples"), 2,
                 Tone::kTitle);
    const v1::SamplingPause* pause = model_.pause();
    if (pause == nullptr) return;
    Say(absl::StrCat(pause->gave_way() ? "STEPPED BACK another capture comes first: " : "NO SAMPLE ",
                     pause->reason()),
        2, Tone::kWarn);
  }

  void Tables(size_t foot) {
    const v1::Sample& s = *model_.last();
    std::vector<std::string> groups = GroupTable(s, kMostGroups, width_);
    const std::vector<const v1::SampleRank*> ranks = model_.Ranks(o_.sort);
    size_t rows = std::min(o_.rows, ranks.size());
    if (o_.page != TopPage::kText) {
      // Lines for the blank lines above the tables and the foot, and for the table's title.
      size_t used = lines_.size() + 3 + foot;
      if (!groups.empty() && used + groups.size() + 1 + 3 <= o_.height)
        used += groups.size() + 1;
      else
        groups.clear();
      rows = o_.height > used ? std::min(o_.height - used, ranks.size()) : 0;
    }
    const size_t first = std::min(o_.scroll, ranks.size() - std::min(rows, ranks.size()));
    Append(RankTable(
        {ranks.begin() + static_cast<ptrdiff_t>(first), ranks.begin() + static_cast<ptrdiff_t>(first + rows)},
        o_.sort, width_));
    if (o_.page == TopPage::kText && rows < ranks.size())
      lines_.push_back(absl::StrCat("  and ", ranks.size() - rows, " more: --rows"));
    Append(groups);
  }

  void Append(const std::vector<std::string>& table) {
    if (table.empty()) return;
    lines_.emplace_back();
    for (size_t i = 0; i < table.size(); ++i) {
      const std::string line = CleanText(table[i]);
      lines_.push_back(i == 0 && o_.color == TopColor::kColored ? absl::StrCat("\x1b[1m", line, "\x1b[0m")
                                                                : line);
    }
  }

  std::vector<std::string> Foot(const v1::Sample& s) const {
    const v1::SamplingPace& pace = model_.pace();
    std::string line = absl::StrFormat("sampled %.3g s every %.3g s", Nanos(pace.window_ns()).seconds(),
                                       Nanos(pace.every_ns()).seconds());
    if (pace.every_ns() > 0) {
      absl::StrAppend(
          &line, " (",
          report::Percent(static_cast<double>(pace.window_ns()) / static_cast<double>(pace.every_ns())),
          " of the time)");
    }
    if (pace.watchers() > 1) absl::StrAppend(&line, " for ", pace.watchers(), " who watch");
    absl::StrAppend(&line, "; sample ", s.number(),
                    absl::StrFormat(" was ready after %.2f s", Nanos(s.took_ns()).seconds()));
    if (s.clock_bound_ns() > 0)
      absl::StrAppend(&line, "; clocks within ", LengthText(static_cast<double>(s.clock_bound_ns())));
    absl::StrAppend(&line, "; ", s.records(), " records, ");
    uint64_t lost = 0;
    std::string stages;
    for (const v1::Loss& loss : s.losses()) {
      lost += loss.records();
      absl::StrAppend(&stages, stages.empty() ? " (" : ", ", loss.stage(), " ", loss.records());
    }
    absl::StrAppend(&line, lost == 0 ? "none lost" : absl::StrCat(lost, " LOST", stages, ")"));
    report::TextLayout layout(static_cast<int>(width_), false);
    layout.Line(line);
    return absl::StrSplit(layout.Take(), '\n', absl::SkipEmpty());
  }

  std::string Keys() const { return absl::StrCat(kKeys, "  by ", TopSortName(o_.sort)); }

  // Puts the foot at the bottom of the terminal and removes other lines if necessary.
  void Fit(const std::vector<std::string>& foot) {
    if (o_.page != TopPage::kText) {
      const size_t room = o_.height > foot.size() ? o_.height - foot.size() : 0;
      lines_.resize(std::max<size_t>(room, 1));
      lines_.insert(lines_.end(), foot.begin(), foot.end());
      lines_.resize(std::min(lines_.size(), std::max<size_t>(o_.height, 1)));
      return;
    }
    if (!foot.empty()) lines_.emplace_back();
    lines_.insert(lines_.end(), foot.begin(), foot.end());
  }

  const TopModel& model_;
  const TopScreenOptions& o_;
  const size_t width_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> RenderTop(const TopModel& model, const TopScreenOptions& options) {
  return Screen(model, options).Run();
}

std::string Sparkline(const std::vector<std::optional<double>>& values, TopLetters letters) {
  constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 8> kMarks = {"_", ".", "-", "~", "=", "+", "*", "#"};
  const auto& marks = letters == TopLetters::kUnicode ? kBlocks : kMarks;
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const auto& value : values) {
    if (!value) continue;
    low = std::min(low, *value);
    high = std::max(high, *value);
  }
  // Without a least range, noise would fill the whole height.
  const double range = std::max(high - low, kFlat * high);
  std::string out;
  for (const auto& value : values) {
    const double part = value && range > 0 ? (*value - low) / range : 0;
    out += value ? marks[std::min<size_t>(static_cast<size_t>(part * 8), 7)] : " ";
  }
  return out;
}

}  // namespace lockstep::cli
