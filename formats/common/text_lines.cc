#include "formats/common/text_lines.h"

#include <cstring>
#include <span>
#include <utility>

namespace lockstep::formats {
namespace {

constexpr size_t kBlock = size_t{256} << 10;

std::string_view WithoutReturn(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace

TextLines::TextLines(ByteSource& source, size_t longest, std::function<void(uint64_t)> progress)
    : source_(source), longest_(longest), progress_(std::move(progress)), buffer_(kBlock) {}

TextLines::Result TextLines::Next(std::string_view& line) {
  while (true) {
    const char* const search = buffer_.data() + searched_;
    const auto* newline = static_cast<const char*>(std::memchr(search, '\n', filled_ - searched_));
    if (newline != nullptr) {
      const char* const begin = buffer_.data() + at_;
      line = WithoutReturn({begin, static_cast<size_t>(newline - begin)});
      at_ = searched_ = static_cast<size_t>(newline + 1 - buffer_.data());
      ++number_;
      return Result::kLine;
    }
    searched_ = filled_;
    if (ended_) return LastLine(line);
    if (filled_ - at_ > longest_) {
      ++number_;
      return Result::kTooLong;
    }
    Refill();
  }
}

void TextLines::Refill() {
  filled_ -= at_;
  std::memmove(buffer_.data(), buffer_.data() + at_, filled_);
  at_ = 0;
  searched_ = filled_;
  if (buffer_.size() - filled_ < kBlock / 2) buffer_.resize(buffer_.size() * 2);
  const size_t read = source_.Read(std::span(buffer_).subspan(filled_));
  if (progress_) progress_(source_.consumed());
  filled_ += read;
  ended_ = read == 0;
}

TextLines::Result TextLines::LastLine(std::string_view& line) {
  const bool damaged = !source_.damage().empty();
  if (!damaged && at_ == filled_) return Result::kEnd;
  ++number_;
  if (damaged) return Result::kDamaged;
  line = WithoutReturn({buffer_.data() + at_, filled_ - at_});
  at_ = searched_ = filled_;
  unfinished_ = true;
  return Result::kLine;
}

std::string ShownWord(std::string_view word) {
  constexpr size_t kShown = 40;
  std::string shown = "\"";
  for (const char c : word.substr(0, kShown)) shown.push_back(c >= ' ' && c <= '~' ? c : '?');
  return shown.append(word.size() > kShown ? "...\"" : "\"");
}

}  // namespace lockstep::formats
