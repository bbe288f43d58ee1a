#include "formats/python/python_marshal.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

using Kind = PythonValue::Kind;
using Pointer = std::shared_ptr<const PythonValue>;

constexpr int kDeepest = 64;
constexpr uint8_t kReferenced = 0x80;  // the value gets the next reference number, which 'r' may name

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  // Null: the end mark of a dict, or an error.
  Pointer Read(int depth) {
    if (depth > kDeepest) return Fail("nested too deeply");
    const size_t start = at_;
    const std::optional<uint8_t> tag = Byte();
    if (!tag) return Fail("is truncated");
    const auto type = static_cast<char>(*tag & ~kReferenced);
    if (type == '0') return nullptr;
    if (type == 'r') return Referenced();
    // The value gets its number before the values inside it.
    const size_t number = references_.size();
    const bool referenced = (*tag & kReferenced) != 0;
    if (referenced) references_.push_back(nullptr);
    auto value = std::make_shared<PythonValue>();
    if (!Fill(type, depth, *value)) {
      return error_.empty() ? Fail(absl::StrCat("unknown type ", static_cast<int>(*tag), " at byte ", start))
                            : nullptr;
    }
    if (referenced) references_[number] = value;
    return value;
  }

  const std::string& error() const { return error_; }

 private:
  Pointer Fail(const std::string& why) {
    if (error_.empty()) error_ = absl::StrCat(why, ", byte ", at_);
    return nullptr;
  }

  std::optional<uint8_t> Byte() {
    if (at_ >= bytes_.size()) return std::nullopt;
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  // Reads a little-endian number.
  template <typename T>
  std::optional<T> Number() {
    if (bytes_.size() - at_ < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::optional<std::string_view> Take(uint64_t size) {
    if (size > bytes_.size() - at_) return std::nullopt;
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }

  Pointer Referenced() {
    const std::optional<uint32_t> number = Number<uint32_t>();
    // A value that is still being read would contain itself.
    if (!number || *number >= references_.size() || references_[*number] == nullptr)
      return Fail("an invalid reference");
    return references_[*number];
  }

  bool Fill(char type, int depth, PythonValue& value) {
    switch (type) {
      case 'N':
        return true;
      case 'T':
      case 'F':
        value.kind = Kind::kBool;
        value.number = type == 'T' ? 1 : 0;
        return true;
      case 'i':
        value.kind = Kind::kInt;
        return Set(Number<int32_t>(), value.number);
      case 'I':
        value.kind = Kind::kInt;
        return Set(Number<int64_t>(), value.number);
      case 'l':
        value.kind = Kind::kInt;
        return Long(value.number);
      case 'g':
        value.kind = Kind::kFloat;
        return Set(Number<double>(), value.real);
      case 'f':
        value.kind = Kind::kFloat;
        return FloatText(value.real);
      case 's':
        value.kind = Kind::kBytes;
        return Text(Number<uint32_t>(), value.text);
      case 't':
      case 'u':
      case 'a':
      case 'A':
        value.kind = Kind::kText;
        return Text(Number<uint32_t>(), value.text);
      case 'z':
      case 'Z':
        value.kind = Kind::kText;
        return Text(Byte(), value.text);
      case ')':
        value.kind = Kind::kTuple;
        return Items(Byte(), depth, value);
      case '(':
      case '[':
        value.kind = type == '(' ? Kind::kTuple : Kind::kList;
        return Items(Number<uint32_t>(), depth, value);
      case '{':
        value.kind = Kind::kDict;
        return Pairs(depth, value);
      default:
        return false;
    }
  }

  template <typename From, typename To>
  static bool Set(const std::optional<From>& from, To& to) {
    if (!from) return false;
    to = *from;
    return true;
  }

  // Reads digits of 15 bits, the least significant first. The sign is that of their count.
  bool Long(int64_t& number) {
    const std::optional<int32_t> count = Number<int32_t>();
    if (!count || *count == std::numeric_limits<int32_t>::min()) return false;
    __int128 sum = 0;
    for (int32_t i = 0; i < std::abs(*count); ++i) {
      const std::optional<uint16_t> digit = Number<uint16_t>();
      if (!digit || *digit > 0x7FFF) return false;
      if (15 * i < 64)
        sum += static_cast<__int128>(*digit) << (15 * i);
      else if (*digit != 0)
        sum = std::numeric_limits<int64_t>::max();
    }
    sum = std::min<__int128>(sum, std::numeric_limits<int64_t>::max());
    number = static_cast<int64_t>(*count < 0 ? -sum : sum);
    return true;
  }

  bool FloatText(double& real) {
    const auto size = Byte();
    const auto text = size ? Take(*size) : std::nullopt;
    return text && std::from_chars(text->data(), text->data() + text->size(), real).ec == std::errc();
  }

  template <typename Size>
  bool Text(const std::optional<Size>& size, std::string& text) {
    const auto taken = size ? Take(*size) : std::nullopt;
    if (taken) text = *taken;
    return taken.has_value();
  }

  template <typename Size>
  bool Items(const std::optional<Size>& size, int depth, PythonValue& value) {
    // Each item takes at least one byte.
    if (!size || *size > bytes_.size() - at_) return false;
    for (uint64_t i = 0; i < *size; ++i) {
      Pointer item = Read(depth + 1);
      if (item == nullptr) return false;
      value.items.push_back(std::move(item));
    }
    return true;
  }

  bool Pairs(int depth, PythonValue& value) {
    while (Pointer key = Read(depth + 1)) {
      Pointer held = Read(depth + 1);
      if (held == nullptr) return false;
      value.items.push_back(std::move(key));
      value.items.push_back(std::move(held));
    }
    return error_.empty();
  }

  const std::string_view bytes_;
  size_t at_ = 0;
  std::vector<Pointer> references_;
  std::string error_;
};

static_assert(std::endian::native == std::endian::little);

}  // namespace

absl::StatusOr<Pointer> ReadMarshal(std::string_view bytes) {
  Reader reader(bytes);
  Pointer value = reader.Read(0);
  if (value != nullptr) return value;
  return absl::DataLossError(reader.error().empty() ? "is empty" : reader.error());
}

}  // namespace lockstep::formats
