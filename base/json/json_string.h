// Writes JSON strings. Names come from other processes and may hold any bytes.
#ifndef LOCKSTEP_BASE_JSON_JSON_STRING_H_
#define LOCKSTEP_BASE_JSON_JSON_STRING_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json/utf8.h"

namespace lockstep {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

// Appends `text` with quotes. Each byte that is not part of valid UTF-8 becomes `replacement`, so that the
// document stays readable.
inline void AppendJsonString(std::string_view text, std::string& out,
                             std::string_view replacement = kReplacementCharacter) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out.append(replacement);
    } else if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(text.front());
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (c < 0x20 || c == 0x7F) {
      out.append("\\u00");
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out.push_back('"');
}

inline std::string JsonQuoted(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_JSON_JSON_STRING_H_
