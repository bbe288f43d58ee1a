// The data of a page: one JSON document and long rows of numbers, compressed. The result has only letters
// that cannot end the HTML element around them.
#ifndef LOCKSTEP_WEB_PAGE_PACKED_DATA_H_
#define LOCKSTEP_WEB_PAGE_PACKED_DATA_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace lockstep::web {

// The position of a row among all numbers, and its length.
struct NumbersAt {
  size_t first = 0;
  size_t count = 0;
};

class PackedData {
 public:
  // Adds a row, rounded to 13 significant bits. This is more than a picture shows, and compresses to half the
  // size. NaN means unknown.
  NumbersAt AddRounded(std::span<const float> values);
  // Adds a row without rounding.
  NumbersAt AddExact(std::span<const float> values);

  // Returns base64 of gzip of four parts: the JSON's length in bytes (32 bits, little-endian), the JSON,
  // spaces up to a multiple of 4, and all numbers (32-bit floats, little-endian). Returns kInternal if zlib
  // has no memory.
  absl::StatusOr<std::string> Seal(std::string json) const;

 private:
  std::string numbers_;
};

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_PACKED_DATA_H_
