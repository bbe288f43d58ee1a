// JsonOut writes one JSON document. Members keep the order of the calls, and numbers read back as the same
// value. It indents by two spaces, and replaces invalid UTF-8 by U+FFFD.
#ifndef LOCKSTEP_BASE_JSON_JSON_OUT_H_
#define LOCKSTEP_BASE_JSON_JSON_OUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep {

class JsonOut {
 public:
  // kOneLine is for files with one document per line.
  enum class Layout : uint8_t { kIndented, kOneLine };
  explicit JsonOut(Layout layout = Layout::kIndented) : layout_(layout) {}

  // Names the next value inside an object.
  JsonOut& Key(std::string_view name);

  void BeginObject() { Open('{'); }
  void EndObject() { Close('}'); }
  void BeginArray() { Open('['); }
  void EndArray() { Close(']'); }

  void Value(std::string_view text);
  void Value(const char* text) { Value(std::string_view(text)); }
  void Value(int64_t number);
  void Value(uint64_t number);
  void Value(int32_t number) { Value(static_cast<int64_t>(number)); }
  void Value(uint32_t number) { Value(static_cast<uint64_t>(number)); }
  // NaN and infinities become null, because JSON has neither.
  void Value(double number);
  void Value(bool yes);
  void Value(Nanos length) { Value(length.ns()); }
  void Value(RankId rank) { Value(static_cast<int64_t>(rank.value())); }
  void Null();
  template <typename T>
  void Value(const std::optional<T>& value) {
    value ? Value(*value) : Null();
  }
  template <typename T>
  void Value(const std::vector<T>& values) {
    BeginArray();
    for (const T& v : values) Value(v);
    EndArray();
  }

  template <typename T>
  void Member(std::string_view name, const T& value) {
    Key(name).Value(value);
  }

  std::string Take();

 private:
  void Open(char bracket);
  void Close(char bracket);
  void Before();
  void NewLine();

  struct Level {
    bool any = false;
    bool array = false;
  };
  const Layout layout_;
  std::string out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_JSON_JSON_OUT_H_
