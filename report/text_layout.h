// TextLayout formats the lines of a report for a terminal: wrapped to a width, with one colour per meaning.
#ifndef LOCKSTEP_REPORT_TEXT_LAYOUT_H_
#define LOCKSTEP_REPORT_TEXT_LAYOUT_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::report {

enum class Tone { kPlain, kBad, kGood, kWarn, kTitle };

class TextLayout {
 public:
  TextLayout(int width, bool color) : width_(width < 40 ? 40 : width), color_(color) {}

  // Adds one paragraph. Continuation lines are indented by `hang`. `tone` colours the first word.
  void Line(std::string_view text, size_t hang = 2, Tone tone = Tone::kPlain);
  std::string Take() { return std::move(out_); }

 private:
  std::string Paint(std::string_view text, Tone tone) const;

  int width_;
  bool color_;
  std::string out_;
};

// Formats a length with its unit, such as "12.1 ms" (analysis::LengthText).
std::string Text(Nanos length);
std::string Percent(double fraction);
// Returns "rank 3", or "ranks 3, 4 and 2 more".
std::string RankList(const std::vector<RankId>& ranks, size_t most);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_TEXT_LAYOUT_H_
