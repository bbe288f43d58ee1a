// Formats numbers for a sentence: ascending, without duplicates, and a run of them by its ends ("0-5, 7"). It
// is a pure function, which any thread may call.
#ifndef LOCKSTEP_BASE_NUMBER_RUNS_H_
#define LOCKSTEP_BASE_NUMBER_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// A run has at least `shortest_run` numbers, and at least two. The text is empty without numbers.
inline std::string NumberRuns(std::vector<int32_t> numbers, size_t shortest_run) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string out;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i < shortest_run) end = i + 1;
    if (!out.empty()) out += ", ";
    out += std::to_string(numbers[i]);
    if (end - i > 1) out += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NUMBER_RUNS_H_
