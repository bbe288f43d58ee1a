#include "formats/files/trace_spans.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

// Stamps of damaged files may be anywhere, so differences are computed without overflow.
double Seconds(HostTime t) { return static_cast<double>(t.ns()) * 1e-9; }

// The time that both have in common. Negative: the time between them.
double CommonSeconds(const HostInterval& a, const HostInterval& b) {
  return Seconds(std::min(a.end, b.end)) - Seconds(std::max(a.start, b.start));
}

// Divides the files that are still without a span, around the rank that has the most of them.
class Division {
 public:
  explicit Division(std::span<const SpanFile> files) : files_(files) {
    for (size_t i = 0; i < files.size(); ++i) of_rank_[files[i].rank].push_back(i);
    for (auto& [rank, places] : of_rank_) SortByTime(places);
  }

  std::vector<std::vector<size_t>> Take() {
    while (!of_rank_.empty()) AddSpansOfOneRank();
    std::sort(spans_.begin(), spans_.end(), [this](const auto& a, const auto& b) {
      return files_[a.front()].rows.start < files_[b.front()].rows.start;
    });
    for (std::vector<size_t>& span : spans_) std::sort(span.begin(), span.end());
    return std::move(spans_);
  }

 private:
  void SortByTime(std::vector<size_t>& places) const {
    std::stable_sort(places.begin(), places.end(),
                     [this](size_t a, size_t b) { return files_[a].rows.start < files_[b].rows.start; });
  }

  void AddSpansOfOneRank() {
    const auto reference =
        std::max_element(of_rank_.begin(), of_rank_.end(),
                         [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const std::vector<size_t> begun = std::move(reference->second);
    of_rank_.erase(reference);
    const size_t first = spans_.size();
    for (const size_t place : begun) spans_.push_back({place});
    for (auto it = of_rank_.begin(); it != of_rank_.end();) {
      AddRank(it->second, begun, first);
      it = it->second.empty() ? of_rank_.erase(it) : std::next(it);
    }
  }

  // Moves the files that belong to the new spans from `places` into them.
  void AddRank(std::vector<size_t>& places, const std::vector<size_t>& begun, size_t first) {
    const double reach = Reach(begun);
    std::set<size_t> taken;
    std::erase_if(places, [&](size_t place) {
      std::optional<size_t> best;
      double most = -reach;
      for (size_t i = 0; i < begun.size(); ++i) {
        const double common = CommonSeconds(files_[begun[i]].rows, files_[place].rows);
        if (common > most) best = i, most = common;
      }
      if (!best || !taken.insert(*best).second) return false;
      spans_[first + *best].push_back(place);
      return true;
    });
  }

  // Returns the largest distance at which a file without an overlap still belongs to a span.
  double Reach(const std::vector<size_t>& begun) const {
    double shortest = std::numeric_limits<double>::infinity();
    for (size_t i = 1; i < begun.size(); ++i) {
      shortest =
          std::min(shortest, Seconds(files_[begun[i]].rows.start) - Seconds(files_[begun[i - 1]].rows.start));
    }
    return shortest / 2;
  }

  std::span<const SpanFile> files_;
  std::map<RankId, std::vector<size_t>> of_rank_;
  std::vector<std::vector<size_t>> spans_;
};

HostTime BeginOf(std::span<const SpanFile> files, const std::vector<size_t>& span) {
  HostTime begin = HostTime::Max();
  for (const size_t place : span) begin = std::min(begin, files[place].rows.start);
  return begin;
}

// Returns "2021-06-08 09:04:49 UTC".
std::string TimeText(HostTime time) {
  constexpr int64_t kSecond = 1'000'000'000;
  const time_t seconds = time.ns() / kSecond;
  tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[sizeof "2021-06-08 09:04:49 UTC" + 16];
  return std::string(text, std::strftime(text, sizeof text, "%F %T UTC", &utc));
}

std::string ListSpans(std::span<const SpanFile> files, const std::vector<std::vector<size_t>>& spans) {
  constexpr size_t kMost = 10;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, spans.size()); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ", i + 1, " begins ", TimeText(BeginOf(files, spans[i])));
  if (spans.size() > kMost) absl::StrAppend(&text, ", …");
  return text;
}

size_t CountRanks(std::span<const SpanFile> files) {
  std::set<RankId> ranks;
  for (const SpanFile& file : files) ranks.insert(file.rank);
  return ranks.size();
}

}  // namespace

bool AtSameTime(const HostInterval& a, const HostInterval& b) {
  const double shorter = std::min(Seconds(a.end) - Seconds(a.start), Seconds(b.end) - Seconds(b.start));
  return CommonSeconds(a, b) >= shorter / 2;
}

std::vector<std::vector<size_t>> DivideIntoSpans(std::span<const SpanFile> files) {
  return Division(files).Take();
}

absl::StatusOr<ChosenSpan> ChooseSpan(std::span<const SpanFile> files,
                                      const std::vector<std::vector<size_t>>& spans, SpanChoice choice) {
  const size_t last = spans.size() - 1;
  if (choice.kind == SpanChoice::Kind::kNumber &&
      (choice.number < 1 || choice.number > static_cast<int>(spans.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("--span ", choice.number, ": the traces have ",
                                                   spans.size(), spans.size() == 1 ? " span" : " spans", "; ",
                                                   ListSpans(files, spans)));
  }
  if (spans.size() == 1) return ChosenSpan{};
  const size_t ranks = CountRanks(files);
  ChosenSpan chosen{last, ""};
  std::string why;
  if (choice.kind == SpanChoice::Kind::kNumber) {
    chosen.span = static_cast<size_t>(choice.number) - 1;
  } else if (choice.kind == SpanChoice::Kind::kLastOfAllRanks) {
    for (size_t i = spans.size(); i-- > 0;) {
      if (spans[i].size() > spans[chosen.span].size()) chosen.span = i;
    }
    why = spans[chosen.span].size() == ranks ? " that all ranks have" : " that most ranks have";
  }
  const std::vector<size_t>& span = spans[chosen.span];
  chosen.note =
      absl::StrCat(spans.size(), " spans found; reading ",
                   choice.kind == SpanChoice::Kind::kNumber ? "" : absl::StrCat("the last", why, ", "),
                   "span ", chosen.span + 1, ", begin ", TimeText(BeginOf(files, span)));
  if (span.size() < ranks)
    absl::StrAppend(&chosen.note, ", which has ", span.size(), " of ", ranks, " ranks");
  absl::StrAppend(&chosen.note, "; choose with --span 1..", spans.size());
  return chosen;
}

absl::Status CheckOnlySpan(SpanChoice choice) {
  if (choice.kind != SpanChoice::Kind::kNumber || choice.number == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--span ", choice.number, ": this input has 1 span; leave out --span"));
}

}  // namespace lockstep::formats
