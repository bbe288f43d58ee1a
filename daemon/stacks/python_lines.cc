#include "daemon/stacks/python_lines.h"

#include <cstddef>

namespace lockstep::daemon {
namespace {

constexpr int64_t kBytesOfInstruction = 2;

// Lines are added without a sign, because a damaged table may hold any numbers.
int32_t Plus(int32_t line, int32_t delta) {
  return static_cast<int32_t>(static_cast<uint32_t>(line) + static_cast<uint32_t>(delta));
}

uint8_t Byte(std::string_view table, size_t i) { return static_cast<uint8_t>(table[i]); }

// Pairs of bytes: instructions in bytes from the pair before, and lines from it (signed).
int32_t InPairs(std::string_view table, int32_t line, int64_t instruction) {
  int64_t begin = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    begin += Byte(table, i);
    if (begin > instruction) break;
    line = Plus(line, static_cast<int8_t>(table[i + 1]));
  }
  return line;
}

// Pairs of bytes: length of the range in bytes, and lines from the range before (signed). -128: no line.
int32_t InRanges(std::string_view table, int32_t line, int64_t instruction) {
  constexpr int8_t kNoLine = -128;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = static_cast<int8_t>(table[i + 1]);
    if (delta != kNoLine) line = Plus(line, delta);
    end += Byte(table, i);
    if (instruction < end) return delta == kNoLine ? 0 : line;
  }
  return 0;
}

// Entries of a first byte with the highest bit set, and bytes without it. The first byte: kind in bits 3 to
// 6, and the number of instructions less one in bits 0 to 2. Numbers have six bits per byte, the lowest
// first, and a seventh in all but the last. Source: CPython, InternalDocs/code_objects.md.
int32_t InLocations(std::string_view table, int32_t line, int64_t instruction) {
  constexpr uint8_t kFirst = 0x80;
  enum Kind : uint8_t { kOneLine = 10, kTwoLines = 12, kNoColumns = 13, kLong = 14, kNone = 15 };
  int64_t end = 0;
  for (size_t i = 0; i < table.size();) {
    const uint8_t first = Byte(table, i++);
    const auto kind = static_cast<uint8_t>(first >> 3 & 0xF);
    end += (int64_t{first & 7} + 1) * kBytesOfInstruction;
    if (kind >= kOneLine && kind <= kTwoLines) line = Plus(line, kind - kOneLine);
    if (kind == kNoColumns || kind == kLong) {
      uint32_t number = 0;
      for (int shift = 0; i < table.size() && shift < 32; shift += 6) {
        const uint8_t next = Byte(table, i++);
        number |= uint32_t{next & 0x3Fu} << shift;
        if ((next & 0x40) == 0) break;
      }
      const auto magnitude = static_cast<int32_t>(number >> 1);
      line = Plus(line, (number & 1) != 0 ? -magnitude : magnitude);
    }
    while (i < table.size() && (Byte(table, i) & kFirst) == 0) ++i;
    if (instruction < end) return kind == kNone ? 0 : line;
  }
  return 0;
}

}  // namespace

int32_t LineOf(PythonLayout::Lines format, std::string_view table, int32_t first_line, int64_t instruction) {
  switch (format) {
    case PythonLayout::Lines::kPairs:
      return InPairs(table, first_line, instruction);
    case PythonLayout::Lines::kRanges:
      return InRanges(table, first_line, instruction);
    case PythonLayout::Lines::kLocations:
      return InLocations(table, first_line, instruction);
  }
  return 0;
}

}  // namespace lockstep::daemon
