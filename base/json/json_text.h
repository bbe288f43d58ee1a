// JsonText builds JSON text piece by piece. The writer of Kineto traces uses it.
#ifndef LOCKSTEP_BASE_JSON_JSON_TEXT_H_
#define LOCKSTEP_BASE_JSON_JSON_TEXT_H_

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "base/json/json_string.h"
#include "base/time.h"

namespace lockstep {

// A string value to be escaped. Invalid UTF-8 bytes become question marks.
struct Quoted {
  std::string_view text;
};

// Collects text and passes it to the sink in large pieces. It keeps the first error of the sink and then
// writes nothing more. One thread at a time may use it.
class JsonText {
 public:
  // `sink` must outlive this object.
  explicit JsonText(ByteSink& sink) : sink_(sink) { text_.reserve(kFlushAt + 4096); }

  // Adds text unchanged, integers in decimal, Nanos as microseconds with three decimals, and Quoted as a JSON
  // string.
  template <typename... Pieces>
  void Add(const Pieces&... pieces) {
    (Put(pieces), ...);
  }

  // Call it after each row.
  void FlushIfLarge() {
    if (text_.size() >= kFlushAt) Flush();
  }
  absl::Status Finish() {
    Flush();
    return status_;
  }

 private:
  void Put(std::string_view raw) { text_.append(raw); }

  template <typename T>
  requires(std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>) void Put(T value) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  // Writes the shortest text that reads back as the same value.
  void Put(std::floating_point auto value) {
    char digits[48];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  void Put(Nanos ns) {
    const bool negative = ns < Nanos();
    const uint64_t magnitude = negative ? -static_cast<uint64_t>(ns.ns()) : static_cast<uint64_t>(ns.ns());
    if (negative) text_.push_back('-');
    Put(magnitude / 1000);
    const auto fraction = static_cast<int>(magnitude % 1000);
    const char decimals[4] = {'.', static_cast<char>('0' + fraction / 100),
                              static_cast<char>('0' + fraction / 10 % 10),
                              static_cast<char>('0' + fraction % 10)};
    text_.append(decimals, sizeof decimals);
  }

  void Put(Quoted quoted) { AppendJsonString(quoted.text, text_, "?"); }

  static constexpr size_t kFlushAt = 128 * 1024;

  void Flush() {
    if (status_.ok()) status_ = sink_.Append(text_);
    text_.clear();
  }

  ByteSink& sink_;
  std::string text_;
  absl::Status status_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_JSON_JSON_TEXT_H_
