#include "base/json/json_out.h"

#include <charconv>
#include <cmath>

namespace lockstep {
namespace {

// Returns the length in bytes of the well-formed UTF-8 sequence at `at`, 0 if there is none.
size_t Utf8Length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool beyond = first == 0xF4 && byte(1) >= 0x90;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

void AppendText(std::string_view text, std::string& out) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else if (const size_t length = Utf8Length(text, i); length > 0) {
      out += text.substr(i, length);
      i += length;
      continue;
    } else {
      out += "\xEF\xBF\xBD";
    }
    ++i;
  }
  out += '"';
}

template <typename T>
void AppendNumber(T number, std::string& out) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  out.append(buffer, end);
}

}  // namespace

JsonOut& JsonOut::Key(std::string_view name) {
  Before();
  AppendText(name, out_);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

void JsonOut::Before() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  if (levels_.back().any) out_ += ',';
  levels_.back().any = true;
  NewLine();
}

void JsonOut::NewLine() {
  if (layout_ == Layout::kOneLine) {
    if (out_.back() == ',') out_ += ' ';
    return;
  }
  out_ += '\n';
  out_.append(levels_.size() * 2, ' ');
}

void JsonOut::Open(char bracket) {
  Before();
  out_ += bracket;
  levels_.push_back({.array = bracket == '['});
}

void JsonOut::Close(char bracket) {
  const bool any = levels_.back().any;
  levels_.pop_back();
  if (any) NewLine();
  out_ += bracket;
}

void JsonOut::Value(std::string_view text) {
  Before();
  AppendText(text, out_);
}

void JsonOut::Value(int64_t number) {
  Before();
  AppendNumber(number, out_);
}

void JsonOut::Value(uint64_t number) {
  Before();
  AppendNumber(number, out_);
}

void JsonOut::Value(double number) {
  if (!std::isfinite(number)) return Null();
  Before();
  AppendNumber(number, out_);
}

void JsonOut::Value(bool yes) {
  Before();
  out_ += yes ? "true" : "false";
}

void JsonOut::Null() {
  Before();
  out_ += "null";
}

std::string JsonOut::Take() {
  out_ += '\n';
  return std::move(out_);
}

}  // namespace lockstep
