// TextPage collects paragraphs for a terminal, and leaves out the least important ones if the page is full.
#ifndef LOCKSTEP_REPORT_TEXT_PAGE_H_
#define LOCKSTEP_REPORT_TEXT_PAGE_H_

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
  // Takes width and colour from `options`.
  explicit TextPage(const TextOptions& options);

  // Adds one paragraph; `hang` and `tone` as in TextLayout::Line.
  void AddParagraph(Priority priority, std::string_view text, size_t hang = 2, Tone tone = Tone::kPlain);
  // Adds one line and cuts its end if it is too long.
  void AddShortLine(Priority priority, std::string text, Tone tone = Tone::kPlain);
  // Returns the page: twenty lines at the usual width, more on a narrower terminal. Paragraphs of the lowest
  // priority are left out first, from the end.
  std::string Take();

 private:
  struct Paragraph {
    std::string lines;
    Priority priority;
  };

  int line_width_;
  bool color_;
  int width_;  // of the page, at least kNarrowest
  std::vector<Paragraph> paragraphs_;
};

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_TEXT_PAGE_H_
