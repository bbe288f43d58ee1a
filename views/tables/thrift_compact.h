// ThriftCompact writes Thrift's compact protocol, as far as Parquet's headers need it: structs, field by
// field.
#ifndef LOCKSTEP_VIEWS_TABLES_THRIFT_COMPACT_H_
#define LOCKSTEP_VIEWS_TABLES_THRIFT_COMPACT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::views {

inline void AddVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
inline uint64_t ZigZag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}

// Writes one struct and the structs inside it. The fields of a struct come in the order of their numbers. One
// thread.
class ThriftCompact {
 public:
  enum class Element : uint8_t { kI32 = 5, kBinary = 8, kStruct = 12 };

  // Adds a field to the open struct.
  void I32(int field, int32_t value) { Header(field, 5), AddVarint(ZigZag(value), out_); }
  void I64(int field, int64_t value) { Header(field, 6), AddVarint(ZigZag(value), out_); }
  void Bool(int field, bool value) { Header(field, value ? 1 : 2); }
  void Binary(int field, std::string_view value) { Header(field, 8), BinaryElement(value); }

  void BeginStruct(int field) { Header(field, 12), fields_.push_back(0); }
  void EndStruct() { out_.push_back('\0'), fields_.pop_back(); }

  // `count` elements follow. An element that is a struct is between BeginElement() and EndStruct().
  void BeginList(int field, Element type, size_t count) {
    Header(field, 9);
    const bool small = count < 15;
    out_.push_back(static_cast<char>((small ? count : 15) << 4 | static_cast<uint8_t>(type)));
    if (!small) AddVarint(count, out_);
  }
  void BeginElement() { fields_.push_back(0); }
  void I32Element(int32_t value) { AddVarint(ZigZag(value), out_); }
  void BinaryElement(std::string_view value) { AddVarint(value.size(), out_), out_.append(value); }

  // Ends the outermost struct.
  std::string Take() {
    out_.push_back('\0');
    return std::move(out_);
  }

 private:
  void Header(int field, uint8_t type) {
    const int step = field - fields_.back();
    fields_.back() = field;
    if (step > 0 && step < 16) {
      out_.push_back(static_cast<char>(step << 4 | type));
    } else {
      out_.push_back(static_cast<char>(type));
      AddVarint(ZigZag(field), out_);
    }
  }

  std::string out_;
  std::vector<int> fields_ = {0};  // number of the last field of each open struct
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_THRIFT_COMPACT_H_
