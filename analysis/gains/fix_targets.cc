#include "analysis/gains/fix_targets.h"

#include <charconv>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace lockstep::analysis {
namespace {

constexpr std::pair<std::string_view, FixKind> kKinds[] = {
    {"rank", FixKind::kRank}, {"host", FixKind::kHost},   {"stage", FixKind::kStage},
    {"link", FixKind::kLink}, {"group", FixKind::kGroup}, {"op", FixKind::kOperation}};

std::optional<FixKind> KindAt(std::string_view text) {
  for (const auto& [name, kind] : kKinds) {
    if (text.substr(0, name.size()) == name && text.substr(name.size(), 1) == "=") return kind;
  }
  return std::nullopt;
}

bool ToNumber(std::string_view text, int32_t* out) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stopped == end;
}

}  // namespace

std::optional<std::pair<int32_t, int32_t>> ParseRange(std::string_view text) {
  const size_t dash = text.find('-', 1);
  int32_t first = 0, last = 0;
  if (!ToNumber(text.substr(0, dash), &first)) return std::nullopt;
  if (dash == std::string_view::npos) return std::pair(first, first);
  if (!ToNumber(text.substr(dash + 1), &last) || last < first) return std::nullopt;
  return std::pair(first, last);
}

std::string_view FixKindName(FixKind kind) {
  for (const auto& [name, known] : kKinds) {
    if (known == kind) return name;
  }
  return "";
}

absl::StatusOr<std::vector<FixTarget>> ParseFixTargets(std::string_view text) {
  std::vector<FixTarget> targets;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = text.find(',', begin);
    while (end != std::string_view::npos && !KindAt(text.substr(end + 1))) end = text.find(',', end + 1);
    const std::string_view one = text.substr(begin, end == std::string_view::npos ? end : end - begin);
    const auto kind = KindAt(one);
    if (!kind)
      return absl::InvalidArgumentError(absl::StrCat("--fix ", std::string(text), ": '", std::string(one),
                                                     "' is not one of ", kFixGrammar));
    const std::string_view value = one.substr(one.find('=') + 1);
    if (value.empty())
      return absl::InvalidArgumentError(absl::StrCat("--fix ", std::string(text), ": no value follows '",
                                                     std::string(one), "'; use ", kFixGrammar));
    targets.push_back({*kind, std::string(value)});
    if (end == std::string_view::npos) break;
    begin = end + 1;
  }
  return targets;
}

}  // namespace lockstep::analysis
