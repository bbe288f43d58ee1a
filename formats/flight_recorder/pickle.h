// Reads Python's pickle format as data. It never imports or calls anything: an opcode that would do so is an
// error that names it. It reads what Python and PyTorch's C++ pickler write for numbers, texts, lists, tuples
// and dicts, in protocols 2 to 5.
#ifndef LOCKSTEP_FORMATS_FLIGHT_RECORDER_PICKLE_H_
#define LOCKSTEP_FORMATS_FLIGHT_RECORDER_PICKLE_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::formats {

// A parsed pickle. Values refer to each other by index, because a hostile pickle can contain itself. One
// thread at a time.
class Pickle {
 public:
  enum class Kind : uint8_t { kNone, kNumber, kReal, kText, kList, kDict };
  using Index = uint32_t;
  struct Value {
    Kind kind = Kind::kNone;
    int64_t number = 0;        // kNumber, also of a bool; the value of a kReal is not kept
    std::string_view text;     // kText, also of bytes; a part of the input
    std::vector<Index> items;  // kList, also of a tuple; kDict: key, value, key, value …
  };

  // `bytes` must outlive the result. kInvalidArgument: the place and the reason.
  static absl::StatusOr<Pickle> Parse(std::string_view bytes);

  const Value& root() const { return values_[root_]; }
  const Value& at(Index index) const { return values_[index]; }
  // Returns a dict's value for this key; null if it has none, or is not a dict.
  const Value* Find(const Value& dict, std::string_view key) const;
  // Return the member, or 0 or an empty text if it is missing or of another kind. A text of digits is a
  // number.
  int64_t Number(const Value& dict, std::string_view key) const;
  std::string_view Text(const Value& dict, std::string_view key) const;

 private:
  friend class PickleParser;
  std::vector<Value> values_;
  Index root_ = 0;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_FLIGHT_RECORDER_PICKLE_H_
