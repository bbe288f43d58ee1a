// Lines of a report on a terminal: wrapped to a width, with one colour per meaning.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_TEXT_LAYOUT_H_
#define LOCKSTEP_AGGREGATOR_REPORT_TEXT_LAYOUT_H_

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

  // One paragraph: what does not fit is continued below, indented by `hang`. The first word of it gets the
  // tone.
  void Line(std::string_view text, size_t hang = 2, Tone tone = Tone::kPlain);
  std::string Take() { return std::move(out_); }

 private:
  std::string Paint(std::string_view text, Tone tone) const;

  int width_;
  bool color_;
  std::string out_;
};

// Lengths of a few ms up as "12.1 ms"; see analysis::LengthText.
std::string Text(Nanos length);
std::string Percent(double fraction);
// "rank 3", "ranks 3, 4 and 2 more".
std::string RankList(const std::vector<RankId>& ranks, size_t most);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_TEXT_LAYOUT_H_
