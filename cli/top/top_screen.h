// Formats one screen of `lockstep top` as lines of text. Pure functions.
#ifndef LOCKSTEP_CLI_TOP_TOP_SCREEN_H_
#define LOCKSTEP_CLI_TOP_TOP_SCREEN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "cli/top/top_model.h"

namespace lockstep::cli {

// kUnicode: the terminal can show UTF-8.
enum class TopLetters { kAscii, kUnicode };
enum class TopColor { kPlain, kColored };
// kText: the whole content, for a pipe. The others fill a terminal and list the keys.
enum class TopPage { kText, kLive, kHeld, kHelp };

struct TopScreenOptions {
  size_t width = 100;  // columns; at least 60 are used
  size_t height = 24;  // lines; no limit for kText
  TopColor color = TopColor::kPlain;
  TopLetters letters = TopLetters::kUnicode;
  TopPage page = TopPage::kText;
  TopSort sort = TopSort::kAboveTypical;
  size_t rows = 10;   // rows in the table of ranks; on a terminal as many as fit
  size_t scroll = 0;  // number of ranks above the first shown one
};

// Returns at most `height` lines of at most `width` columns.
std::vector<std::string> RenderTop(const TopModel& model, const TopScreenOptions& options);

// Returns one character per value, scaled from the lowest to the highest. An unknown value is a blank.
std::string Sparkline(const std::vector<std::optional<double>>& values, TopLetters letters);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_SCREEN_H_
