#include "report/text/fold_notes.h"

#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/ids.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

constexpr std::string_view kRankWord = "rank ";
constexpr size_t kMostRanksOfANote = 8;

struct Parts {
  std::string_view before;
  RankId rank;
  std::string_view after;
};

std::optional<Parts> PartsOf(std::string_view note) {
  for (size_t at = note.find(kRankWord); at != std::string_view::npos; at = note.find(kRankWord, at + 1)) {
    int32_t rank = 0;
    const char* const digits = note.data() + at + kRankWord.size();
    const auto [end, error] = std::from_chars(digits, note.data() + note.size(), rank);
    if (error != std::errc() || (at > 0 && note[at - 1] != ' ')) continue;
    return Parts{note.substr(0, at), RankId(rank), note.substr(static_cast<size_t>(end - note.data()))};
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> FoldNotes(std::span<const std::string> notes) {
  std::map<std::pair<std::string_view, std::string_view>, std::vector<RankId>> ranks;
  for (const std::string& note : notes) {
    if (const auto parts = PartsOf(note)) ranks[{parts->before, parts->after}].push_back(parts->rank);
  }
  std::vector<std::string> folded;
  for (const std::string& note : notes) {
    const auto parts = PartsOf(note);
    if (!parts) {
      folded.push_back(note);
      continue;
    }
    std::vector<RankId>& all = ranks[{parts->before, parts->after}];
    if (all.empty()) continue;  // it is in an earlier line
    folded.push_back(std::string(parts->before) + RankList(all, kMostRanksOfANote) +
                     std::string(parts->after));
    all.clear();
  }
  return folded;
}

}  // namespace lockstep::report
