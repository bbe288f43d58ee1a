// One screen of `lockstep top` as lines of text. Pure.
#ifndef LOCKSTEP_CLI_TOP_SCREEN_H_
#define LOCKSTEP_CLI_TOP_SCREEN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cli/top/top_model.h"

namespace lockstep::cli {

// kUnicode: the terminal shows UTF-8.
enum class TopLetters { kAscii, kUnicode };
enum class TopColor { kPlain, kColored };
// kText: all there is to say, for a pipe. The others fill a terminal and say which keys there are.
enum class TopPage { kText, kLive, kHeld, kHelp };

struct TopScreenOptions {
  size_t width = 100;  // at least 60 are used
  size_t height = 24;  // of kText: no limit
  TopColor color = TopColor::kPlain;
  TopLetters letters = TopLetters::kUnicode;
  TopPage page = TopPage::kText;
  TopSort sort = TopSort::kAboveTypical;
  size_t rows = 10;   // of the table of ranks; of the terminal as many as fit
  size_t scroll = 0;  // ranks above the first that is shown
};

// No line is wider than `width` columns, nor are there more than `height`.
std::vector<std::string> RenderTop(const TopModel& model, const TopScreenOptions& options);

// One character per value, the lowest and the highest of them at the ends; what is unknown is a blank.
std::string Sparkline(const std::vector<std::optional<double>>& values, TopLetters letters);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_SCREEN_H_
