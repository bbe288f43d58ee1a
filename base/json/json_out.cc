#include "base/json/json_out.h"

#include <charconv>
#include <cmath>

#include "base/json/json_string.h"

namespace lockstep {
namespace {

template <typename T>
void AppendNumber(T number, std::string& out) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number).ptr;
  out.append(buffer, end);
}

}  // namespace

JsonOut& JsonOut::Key(std::string_view name) {
  Before();
  AppendJsonString(name, out_);
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
  AppendJsonString(text, out_);
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
