#include "report/text_page.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::report {
namespace {

// The number of lines of a page, for a terminal of kUsualWidth columns.
constexpr int kMostLines = 20;
constexpr int kUsualWidth = 100;
constexpr int kNarrowest = 40;

}  // namespace

TextPage::TextPage(const TextOptions& options)
    : line_width_(options.width), color_(options.color), width_(std::max(options.width, kNarrowest)) {}

void TextPage::AddParagraph(Priority priority, std::string_view text, size_t hang, Tone tone) {
  TextLayout layout(line_width_, color_);
  layout.Line(text, hang, tone);
  paragraphs_.push_back({layout.Take(), priority});
}

void TextPage::AddShortLine(Priority priority, std::string text, Tone tone) {
  const auto most = static_cast<size_t>(width_);
  if (text.size() > most) {
    size_t cut = text.rfind(' ', most - 4);
    if (cut == std::string::npos || cut < most / 2) cut = most - 4;
    text.resize(cut);
    text += " ...";
  }
  AddParagraph(priority, text, 2, tone);
}

std::string TextPage::Take() {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  std::ptrdiff_t total = 0;
  for (const Paragraph& p : paragraphs_) total += lines(p.lines);
  const std::ptrdiff_t most = std::max<std::ptrdiff_t>(kMostLines, kMostLines * kUsualWidth / width_);
  for (const Priority least : {Priority::kAside, Priority::kUseful, Priority::kImportant}) {
    for (size_t i = paragraphs_.size(); i > 0 && total > most; --i) {
      if (paragraphs_[i - 1].priority != least) continue;
      total -= lines(paragraphs_[i - 1].lines);
      paragraphs_[i - 1].lines.clear();
    }
  }
  std::string out;
  for (const Paragraph& p : paragraphs_) out += p.lines;
  return out;
}

}  // namespace lockstep::report
