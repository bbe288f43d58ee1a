// A value as Python's repr() spells it, out of bytes that nobody vouches for: what PyProf writes into NVTX
// ranges.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_PYTHON_LITERAL_H_
#define LOCKSTEP_AGGREGATOR_TRACE_PYTHON_LITERAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::trace {

struct PythonValue {
  enum class Kind : uint8_t {
    kWord,
    kText,
    kList,
    kDict
  };  // kWord: a number, True, None, …; tuples are lists
  Kind kind = Kind::kWord;
  std::string text;                // of words and texts
  std::vector<PythonValue> items;  // of lists; of dicts the values
  std::vector<std::string> keys;   // of dicts

  // Null: it is no dict, or has no such key.
  const PythonValue* Find(std::string_view key) const;
};

// nullopt: it is none, or lies deeper than 16 levels, or has more than 4096 values.
std::optional<PythonValue> ParsePython(std::string_view text);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_PYTHON_LITERAL_H_
