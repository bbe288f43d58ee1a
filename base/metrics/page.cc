#include "base/metrics/page.h"

#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/json/utf8.h"

namespace lockstep::metrics {
namespace {

void Append(std::initializer_list<std::string_view> pieces, std::string& out) {
  for (const std::string_view piece : pieces) out.append(piece);
}

enum class Where { kHelp, kLabelValue };

void AppendEscaped(std::string_view text, Where where, std::string& out) {
  while (!text.empty()) {
    // Prometheus refuses a whole page with one invalid byte.
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out += '?';
    } else if (text[0] == '\n') {
      out += "\\n";
    } else if (text[0] == '\\') {
      out += "\\\\";
    } else if (text[0] == '"' && where == Where::kLabelValue) {
      out += "\\\"";
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

// A double would round, because counters of nanoseconds exceed its 53 bits.
std::string SecondsText(Nanos value) {
  constexpr uint64_t kPerSecond = 1'000'000'000;
  const bool negative = value < Nanos();
  const uint64_t ns =
      negative ? uint64_t{0} - static_cast<uint64_t>(value.ns()) : static_cast<uint64_t>(value.ns());
  std::string fraction = absl::StrCat(kPerSecond + ns % kPerSecond).substr(1);
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return absl::StrCat(negative ? "-" : "", ns / kPerSecond, fraction.empty() ? "" : ".", fraction);
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

Page::Family Page::Begin(std::string_view name, const char* type, std::string_view help) {
  Append({"# HELP ", name, " "}, text_);
  AppendEscaped(help, Where::kHelp, text_);
  Append({"\n# TYPE ", name, " ", type, "\n"}, text_);
  open_ = name;
  return {*this, name};
}

const Page::Family& Page::Family::Write(std::string_view value, Labels labels) const {
  assert(page_.open_ == name_ && "a family's samples stand together");
  std::string& out = page_.text_;
  out.append(name_);
  std::string_view before = "{";
  for (const Label& label : labels) {
    Append({before, label.name, "=\""}, out);
    AppendEscaped(label.value, Where::kLabelValue, out);
    before = "\",";
  }
  Append({labels.size() == 0 ? " " : "\"} ", value, "\n"}, out);
  return *this;
}

const Page::Family& Page::Family::Count(uint64_t value, Labels labels) const {
  return Write(absl::StrCat(value), labels);
}
const Page::Family& Page::Family::Seconds(Nanos value, Labels labels) const {
  return Write(SecondsText(value), labels);
}
const Page::Family& Page::Family::Number(double value, Labels labels) const {
  return Write(NumberText(value), labels);
}

void Page::Histogram(std::string_view name, std::string_view help, const DurationHistogram& histogram) {
  Begin(name, "histogram", help);
  uint64_t below = 0;
  for (size_t i = 0; i < DurationHistogram::kBounds.size(); ++i) {
    below += histogram.in_bucket(i);
    Append({name, "_bucket{le=\"", SecondsText(DurationHistogram::kBounds[i]), "\"} ", std::to_string(below),
            "\n"},
           text_);
  }
  const std::string count = std::to_string(histogram.count());
  Append({name, "_bucket{le=\"+Inf\"} ", count, "\n", name, "_sum ", SecondsText(histogram.sum()), "\n", name,
          "_count ", count, "\n"},
         text_);
}

}  // namespace lockstep::metrics
