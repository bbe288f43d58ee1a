// TextPage collects paragraphs for a terminal, and leaves out the least important ones if the page is full.
#ifndef LOCKSTEP_REPORT_TEXT_TEXT_PAGE_H_
#define LOCKSTEP_REPORT_TEXT_TEXT_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "report/text_layout.h"

namespace lockstep::report {

// Importance of a paragraph. kAside is left out first, kAlways never.
enum class Priority { kAlways, kImportant, kUseful, kAside };

class TextPage {
 public:
  // Takes width, colour and number of lines from `options`.
  explicit TextPage(const TextOptions& options);

  // Adds one paragraph; `hang` and `tone` as in TextLayout::Line.
  void AddParagraph(Priority priority, std::string_view text, size_t hang = 2, Tone tone = Tone::kPlain);
  // Returns the page. Paragraphs of the lowest priority are left out first, from the end, and a last line
  // then says how many.
  std::string Take();
  // True if a paragraph of this text needs one line only.
  bool FitsOneLine(std::string_view text) const { return text.size() <= static_cast<size_t>(width_); }

 private:
  struct Paragraph {
    std::string lines;
    Priority priority;
  };

  int line_width_;
  bool color_;
  int width_;  // of the page, at least kNarrowest
  int lines_;  // at the usual width; 0: no limit
  std::vector<Paragraph> paragraphs_;
};

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_TEXT_TEXT_PAGE_H_
