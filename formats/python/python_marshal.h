// Python's marshal format, versions 0 to 5, as far as profiles of cProfile use it: numbers, texts, tuples,
// lists and dicts, with references. Written from the format alone; code objects and the like are refused.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_PYTHON_MARSHAL_H_
#define LOCKSTEP_AGGREGATOR_TRACE_PYTHON_MARSHAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::trace {

struct PythonValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kBytes, kTuple, kList, kDict };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // of kBool and kInt; whole numbers of more than 63 bits are the nearest that fits
  double real = 0;
  std::string text;
  // What one value holds several times is there once, so that a file of a few bytes cannot grow in memory. Of
  // a dict: key, value, key, …
  std::vector<std::shared_ptr<const PythonValue>> items;
};

// The one value that `bytes` begin with. kDataLoss: no such value, with the byte's offset.
absl::StatusOr<std::shared_ptr<const PythonValue>> ReadMarshal(std::string_view bytes);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_PYTHON_MARSHAL_H_
