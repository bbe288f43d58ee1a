// Recognises names that mark training steps: "ProfilerStep#12", "step 12", "Iteration_12". The client and the
// analysis share this rule. The client may begin and end a capture at such a range, and the analysis divides
// a capture into steps by them. The client uses this header, so it needs no library.
#ifndef LOCKSTEP_BASE_STEP_NAME_H_
#define LOCKSTEP_BASE_STEP_NAME_H_

#include <cstdint>
#include <string_view>

namespace lockstep {

// A name is a word for a step in any case, then blanks, '_', '#' or ':', then only a number of at most 18
// digits. Returns true for a step, with its number in *number. "ProfilerStep#" followed by other text counts
// as number 0.
constexpr bool NamesStep(std::string_view name, uint64_t* number) {
  constexpr std::string_view kProfiler = "ProfilerStep#";
  constexpr std::string_view kWords[] = {"iteration", "step", "iter"};
  const auto digits = [number](std::string_view text) {
    if (text.empty() || text.size() > 18) return false;
    uint64_t value = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return false;
      value = value * 10 + static_cast<uint64_t>(c - '0');
    }
    *number = value;
    return true;
  };
  if (name.starts_with(kProfiler)) {
    if (!digits(name.substr(kProfiler.size()))) *number = 0;
    return true;
  }
  for (const std::string_view word : kWords) {
    if (name.size() <= word.size()) continue;
    bool same = true;
    for (size_t i = 0; i < word.size(); ++i) {
      const char c = name[i];
      same &= (c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) == word[i];
    }
    if (!same) continue;
    std::string_view rest = name.substr(word.size());
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '_' || rest[0] == '#' || rest[0] == ':'))
      rest.remove_prefix(1);
    return digits(rest);
  }
  return false;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_STEP_NAME_H_
