// TextLines splits the bytes of a text file into lines.
#ifndef LOCKSTEP_FORMATS_COMMON_TEXT_LINES_H_
#define LOCKSTEP_FORMATS_COMMON_TEXT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/common/byte_source.h"

namespace lockstep::formats {

// One thread. Holds one block and the line that crosses its end.
class TextLines {
 public:
  enum class Result : uint8_t { kLine, kEnd, kTooLong, kDamaged };

  // `source` outlives it. `longest`: bytes of the longest line. `progress`, if not empty, receives the number
  // of bytes consumed.
  TextLines(ByteSource& source, size_t longest, std::function<void(uint64_t)> progress);

  // kLine: `line` is the next one, without its end; it is valid until the next call. The last line may lack
  // its end. kDamaged: the source's damage() says why the file ends here. After another result than kLine,
  // Next() must not be called again.
  Result Next(std::string_view& line);

  // Number of the line that Next() returned or refused, counted from 1.
  uint64_t number() const { return number_; }

  // True if the line that Next() returned is the last one and lacks its end.
  bool unfinished() const { return unfinished_; }

 private:
  void Refill();
  Result LastLine(std::string_view& line);

  ByteSource& source_;
  const size_t longest_;
  std::function<void(uint64_t)> progress_;
  std::vector<char> buffer_;
  size_t at_ = 0;        // begin of the next line
  size_t searched_ = 0;  // no line ends between `at_` and here
  size_t filled_ = 0;
  bool ended_ = false;
  bool unfinished_ = false;
  uint64_t number_ = 0;
};

// Quotes a word for an error, shortened and without control characters, because damaged text may hold any
// bytes.
std::string ShownWord(std::string_view word);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_TEXT_LINES_H_
