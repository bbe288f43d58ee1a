#include "report/text_layout.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "analysis/explain/causes.h"
#include "base/log/clean_text.h"

namespace lockstep::report {
namespace {

std::string_view Code(Tone tone) {
  switch (tone) {
    case Tone::kBad:
      return "\x1b[1;31m";
    case Tone::kGood:
      return "\x1b[1;32m";
    case Tone::kWarn:
      return "\x1b[1;33m";
    case Tone::kTitle:
      return "\x1b[1m";
    case Tone::kPlain:
      return "";
  }
  return "";
}

}  // namespace

std::string TextLayout::Paint(std::string_view text, Tone tone) const {
  if (!color_ || tone == Tone::kPlain) return std::string(text);
  return std::string(Code(tone)) + std::string(text) + "\x1b[0m";
}

void TextLayout::Line(std::string_view raw, size_t hang, Tone tone) {
  // A job chooses its own name, for example.
  const std::string text = CleanText(raw);
  const auto width = static_cast<size_t>(width_);
  size_t at = 0;
  bool first = true;
  do {
    const size_t indent = first ? 0 : hang;
    size_t length = text.size() - at;
    if (indent + length > width) {
      length = width - indent;
      const size_t blank = text.rfind(' ', at + length);
      if (blank != std::string::npos && blank > at + indent) length = blank - at;
    }
    std::string line(indent, ' ');
    const std::string piece = text.substr(at, length);
    if (first) {
      const size_t word =
          std::min(piece.find(' ') == std::string::npos ? piece.size() : piece.find(' '), piece.size());
      line += Paint(piece.substr(0, word), tone) + piece.substr(word);
    } else {
      line += piece;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out_ += line + "\n";
    at += length;
    while (at < text.size() && text[at] == ' ') ++at;
    first = false;
  } while (at < text.size());
}

std::string Text(Nanos length) { return analysis::LengthText(static_cast<double>(length.ns())); }

std::string Percent(double fraction) {
  const double p = 100 * fraction;
  return absl::StrFormat("%.*f%%", std::fabs(p) < 9.95 ? 1 : 0, p);
}

std::string RankList(const std::vector<RankId>& ranks, size_t most) {
  std::string list;
  for (size_t i = 0; i < ranks.size() && i < most; ++i) {
    list += (i > 0 ? ", " : "") + std::to_string(ranks[i].value());
  }
  if (ranks.size() > most) return absl::StrFormat("%d ranks (%s, ...)", ranks.size(), list);
  return (ranks.size() == 1 ? "rank " : "ranks ") + list;
}

}  // namespace lockstep::report
