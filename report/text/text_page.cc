#include "report/text/text_page.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::report {
namespace {

constexpr int kUsualWidth = 100;
constexpr int kNarrowest = 40;

}  // namespace

TextPage::TextPage(const TextOptions& options)
    : line_width_(options.width),
      color_(options.color),
      width_(std::max(options.width, kNarrowest)),
      lines_(options.lines) {}

void TextPage::AddParagraph(Priority priority, std::string_view text, size_t hang, Tone tone) {
  TextLayout layout(line_width_, color_);
  layout.Line(text, hang, tone);
  paragraphs_.push_back({layout.Take(), priority});
}

std::string TextPage::Take() {
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  std::ptrdiff_t total = 0;
  for (const Paragraph& p : paragraphs_) total += lines(p.lines);
  const std::ptrdiff_t most = std::max<std::ptrdiff_t>(lines_, std::ptrdiff_t{lines_} * kUsualWidth / width_);
  if (lines_ > 0 && total > most) {
    const std::ptrdiff_t all = total;
    for (const Priority least : {Priority::kAside, Priority::kUseful, Priority::kImportant}) {
      // One line says that others are left out.
      for (size_t i = paragraphs_.size(); i > 0 && total > most - 1; --i) {
        if (paragraphs_[i - 1].priority != least) continue;
        total -= lines(paragraphs_[i - 1].lines);
        paragraphs_[i - 1].lines.clear();
      }
    }
    if (all > total)
      AddParagraph(Priority::kAlways, "MORE " + std::to_string(all - total) +
                                          " lines are left out on a terminal: pipe the output into less");
  }
  std::string out;
  for (const Paragraph& p : paragraphs_) out += p.lines;
  return out;
}

}  // namespace lockstep::report
