// Reads Python's marshal format, versions 0 to 5, as far as cProfile uses it: numbers, texts, tuples, lists
// and dicts, with references. Code objects and other types are refused.
#ifndef LOCKSTEP_FORMATS_PYTHON_PYTHON_MARSHAL_H_
#define LOCKSTEP_FORMATS_PYTHON_PYTHON_MARSHAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::formats {

struct PythonValue {
  enum class Kind : uint8_t { kNone, kBool, kInt, kFloat, kText, kBytes, kTuple, kList, kDict };
  Kind kind = Kind::kNone;
  int64_t number = 0;  // of kBool and kInt; numbers beyond 64 bits are the nearest that fits
  double real = 0;
  std::string text;
  // A value that is referenced several times is stored once, so that a small file cannot need much memory.
  // For a dict: key, value, key, …
  std::vector<std::shared_ptr<const PythonValue>> items;
};

// Reads the one value at the start of `bytes`. kDataLoss: it cannot be read; the error has the byte's offset.
absl::StatusOr<std::shared_ptr<const PythonValue>> ReadMarshal(std::string_view bytes);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PYTHON_PYTHON_MARSHAL_H_
