// Reads the bytes of a fuzzer's input as a script: operations, numbers and texts, from the front to the end.
// At the end all numbers are 0 and all texts are empty, so that every input is a valid script.
#ifndef LOCKSTEP_BASE_FUZZ_INPUT_FIXTURE_H_
#define LOCKSTEP_BASE_FUZZ_INPUT_FIXTURE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace lockstep {

class FuzzInput {
 public:
  // `data` outlives this.
  FuzzInput(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return left_.empty(); }
  // Returns a little-endian number of sizeof(T) bytes.
  template <typename T = uint8_t>
  T Number() {
    T value{};
    const std::string_view bytes = Bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  // Returns a number from 0 to `limit` - 1 out of one byte.
  size_t Below(size_t limit) { return Number() % limit; }
  bool Flag() { return (Number() & 1) != 0; }
  // Returns a text that begins with its length: one byte, or two if `most` exceeds 255.
  std::string_view Text(size_t most = 255) {
    const size_t length = most > 255 ? Number<uint16_t>() : Number<uint8_t>();
    return Bytes(std::min(length, most));
  }
  std::string_view Bytes(size_t length) {
    const std::string_view bytes = left_.substr(0, length);
    left_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view Rest() { return Bytes(left_.size()); }

 private:
  std::string_view left_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FUZZ_INPUT_FIXTURE_H_
