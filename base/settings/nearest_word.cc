#include "base/settings/nearest_word.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

namespace lockstep::settings {
namespace {

// A word that needs more changes is not suggested.
constexpr size_t kMostChanges = 3;

// Returns how many characters to insert, remove or replace.
size_t Changes(std::string_view from, std::string_view to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0u);
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestWord(std::string_view word, const std::vector<std::string>& known) {
  std::string nearest;
  size_t least = std::min(kMostChanges, word.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const size_t changes = Changes(word, candidate);
    if (changes < least) {
      least = changes;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::string nearest = NearestWord(word, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace lockstep::settings
