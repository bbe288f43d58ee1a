// A page of paragraphs on a terminal, of which the least important go when there is too much to say.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_TEXT_PAGE_H_
#define LOCKSTEP_AGGREGATOR_REPORT_TEXT_PAGE_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "report/text_layout.h"

namespace lockstep::report {

// How soon something is left out.
enum class Priority { kAlways, kImportant, kUseful, kAside };

class TextPage {
 public:
  // Width and colour are those of `options`.
  explicit TextPage(const TextOptions& options);

  // One paragraph; `hang` and `tone` as of TextLayout::Line.
  void Say(Priority priority, std::string_view text, size_t hang = 2, Tone tone = Tone::kPlain);
  // One line, the end of which may go.
  void SayShort(Priority priority, std::string text, Tone tone = Tone::kPlain);
  // What fits in twenty lines at the usual width, in as many more as it is narrower; what matters least is
  // left out first, from the end.
  std::string Take();

 private:
  struct Paragraph {
    std::string lines;
    Priority priority;
  };

  int line_width_;
  bool color_;
  int width_;  // of the page: never next to nothing
  std::vector<Paragraph> paragraphs_;
};

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_TEXT_PAGE_H_
