// Numbers as a sentence lists them: ascending, each once, runs of them by their ends ("0-5, 7"). Pure, any
// thread.
#ifndef LOCKSTEP_COMMON_BASE_NUMBER_RUNS_H_
#define LOCKSTEP_COMMON_BASE_NUMBER_RUNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// So many in a row, two or more, are written as a run. Empty for none.
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

#endif  // LOCKSTEP_COMMON_BASE_NUMBER_RUNS_H_
