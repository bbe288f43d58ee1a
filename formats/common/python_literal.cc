#include "formats/common/python_literal.h"

namespace lockstep::formats {
namespace {

constexpr int kDeepest = 16;
constexpr size_t kMostValues = 4096;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<PythonLiteral> Whole() {
    auto value = Value(0);
    SkipBlanks();
    return value && at_ == text_.size() ? std::move(value) : std::nullopt;
  }

 private:
  void SkipBlanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    SkipBlanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::optional<PythonLiteral> Value(int depth) {
    if (depth > kDeepest || ++values_ > kMostValues) return std::nullopt;
    SkipBlanks();
    if (at_ >= text_.size()) return std::nullopt;
    switch (text_[at_]) {
      case '\'':
      case '"': {
        auto text = Text();
        if (!text) return std::nullopt;
        return PythonLiteral{.kind = PythonLiteral::Kind::kText, .text = std::move(*text)};
      }
      case '[':
        return List(depth, '[', ']');
      case '(':
        return List(depth, '(', ')');
      case '{':
        return Dict(depth);
      default:
        return Word();
    }
  }

  std::optional<std::string> Text() {
    SkipBlanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return std::nullopt;
    std::string out;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == quote) {
        ++at_;
        return out;
      }
      // An escape keeps only its character; the paths in PyProf's markers need no more.
      if (text_[at_] == '\\' && ++at_ == text_.size()) return std::nullopt;
      out += text_[at_];
    }
    return std::nullopt;
  }

  std::optional<PythonLiteral> Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && std::string_view(",:[](){} '\"").find(text_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == begin) return std::nullopt;
    return PythonLiteral{.text = std::string(text_.substr(begin, at_ - begin))};
  }

  std::optional<PythonLiteral> List(int depth, char open, char close) {
    PythonLiteral list{.kind = PythonLiteral::Kind::kList};
    Take(open);
    while (!Take(close)) {
      auto item = Value(depth + 1);
      if (!item) return std::nullopt;
      list.items.push_back(std::move(*item));
      if (!Take(',') && !Ends(close)) return std::nullopt;
    }
    return list;
  }

  std::optional<PythonLiteral> Dict(int depth) {
    PythonLiteral dict{.kind = PythonLiteral::Kind::kDict};
    Take('{');
    while (!Take('}')) {
      auto key = Text();
      if (!key || !Take(':')) return std::nullopt;
      auto value = Value(depth + 1);
      if (!value) return std::nullopt;
      dict.keys.push_back(std::move(*key));
      dict.items.push_back(std::move(*value));
      if (!Take(',') && !Ends('}')) return std::nullopt;
    }
    return dict;
  }

  bool Ends(char close) {
    SkipBlanks();
    return at_ < text_.size() && text_[at_] == close;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t values_ = 0;
};

}  // namespace

const PythonLiteral* PythonLiteral::Find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::optional<PythonLiteral> ParsePython(std::string_view text) { return Parser(text).Whole(); }

}  // namespace lockstep::formats
