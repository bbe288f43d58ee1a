// What a page carries: one JSON document and long rows of numbers behind it, compressed, in letters that no
// text can get out of.
#ifndef LOCKSTEP_AGGREGATOR_HTML_PACKED_DATA_H_
#define LOCKSTEP_AGGREGATOR_HTML_PACKED_DATA_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::html {

// Where a row of numbers lies among all, and how many they are.
struct NumbersAt {
  size_t first = 0;
  size_t count = 0;
};

class PackedData {
 public:
  // Rounded to 13 significant bits, which is more than a picture shows and compresses to half; NaN is
  // unknown.
  NumbersAt AddRounded(std::span<const float> values);
  // As they are.
  NumbersAt AddExact(std::span<const float> values);

  // Base64 of gzip of: the JSON's length in bytes (32 bits, little-endian), the JSON, spaces up to a multiple
  // of 4, all numbers (32-bit floats, little-endian). kInternal when zlib has no memory.
  absl::StatusOr<std::string> Seal(std::string json) const;

 private:
  std::string numbers_;
};

}  // namespace lockstep::html

#endif  // LOCKSTEP_AGGREGATOR_HTML_PACKED_DATA_H_
