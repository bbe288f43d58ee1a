#include "history/output/aligned_rows.h"

#include <algorithm>

namespace lockstep::history {
namespace {

// Characters, not bytes: every byte of UTF-8 that does not continue a character.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::string AlignedRows::Text() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < columns_.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent_, ' ');
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string blanks(widths[i] - WidthOf(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i] == Align::kRight ? blanks + row[i] : row[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace lockstep::history
