// Short texts without allocation: sentences for the daemon, paths, numbers.
#ifndef LOCKSTEP_CLIENT_RECORD_TEXT_H_
#define LOCKSTEP_CLIENT_RECORD_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep::client {

// The text is zero-terminated and cut to fit.
template <size_t kCapacity>
class Text {
 public:
  constexpr Text() = default;
  Text& operator<<(const char* text) {
    if (text == nullptr) text = "(null)";
    return Append(text, std::strlen(text));
  }
  Text& operator<<(uint64_t number) {
    char reversed[20];
    size_t digits = 0;
    do {
      reversed[digits++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    while (digits > 0) Append(&reversed[--digits], 1);
    return *this;
  }
  Text& operator<<(uint32_t number) { return *this << static_cast<uint64_t>(number); }
  Text& Append(const char* text, size_t length) {
    const size_t fits = length < kCapacity - 1 - size_ ? length : kCapacity - 1 - size_;
    std::memcpy(text_ + size_, text, fits);
    size_ += fits;
    text_[size_] = '\0';
    return *this;
  }
  void Clear() {
    size_ = 0;
    text_[0] = '\0';
  }
  const char* c_str() const { return text_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  char text_[kCapacity] = {};
  size_t size_ = 0;
};

// One sentence with the reason of a failure. It fits State::text.
using Sentence = Text<240>;

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_TEXT_H_
