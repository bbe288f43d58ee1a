#include "views/tables/parquet_encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "views/tables/thrift_compact.h"

namespace lockstep::views {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

// Packs values of up to 64 bits, the lowest bit first.
class BitPacker {
 public:
  explicit BitPacker(std::string& out) : out_(out) {}

  void Add(uint64_t value, int bits) {
    // At most seven bits are pending here, so a wide value is added in two parts.
    if (bits > 32) {
      Add(value & 0xFFFFFFFF, 32);
      value >>= 32;
      bits -= 32;
    }
    waiting_ |= value << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, waiting_ >>= 8)
      out_.push_back(static_cast<char>(waiting_));
  }
  void Finish() {
    if (count_ > 0) out_.push_back(static_cast<char>(waiting_));
    waiting_ = 0;
    count_ = 0;
  }

 private:
  std::string& out_;
  uint64_t waiting_ = 0;
  int count_ = 0;
};

void AddPackedRun(std::span<const uint32_t> values, int bit_width, std::string& out) {
  if (values.empty()) return;
  const size_t groups = (values.size() + 7) / 8;
  AddVarint(groups << 1 | 1, out);
  BitPacker packer(out);
  for (const uint32_t value : values) packer.Add(value, bit_width);
  for (size_t i = values.size(); i < groups * 8; ++i) packer.Add(0, bit_width);
  packer.Finish();
}

constexpr size_t kDeltaBlock = 128;
constexpr size_t kMiniblocks = 4;
constexpr size_t kMiniblock = kDeltaBlock / kMiniblocks;

// Differences wrap around, like the sums in a reader.
uint64_t Difference(int64_t a, int64_t b) { return static_cast<uint64_t>(a) - static_cast<uint64_t>(b); }

void AddDeltaBlock(std::span<const int64_t> deltas, std::string& out) {
  const int64_t least = *std::min_element(deltas.begin(), deltas.end());
  AddVarint(ZigZag(least), out);
  std::array<int, kMiniblocks> widths{};
  for (size_t i = 0; i < deltas.size(); ++i) {
    int& width = widths[i / kMiniblock];
    width = std::max(width, BitWidth(Difference(deltas[i], least)));
  }
  for (const int width : widths) out.push_back(static_cast<char>(width));
  for (size_t m = 0; m * kMiniblock < deltas.size(); ++m) {
    BitPacker packer(out);
    for (size_t i = m * kMiniblock; i < (m + 1) * kMiniblock; ++i) {
      packer.Add(i < deltas.size() ? Difference(deltas[i], least) : 0, widths[m]);
    }
    packer.Finish();
  }
}

}  // namespace

int BitWidth(uint64_t most) { return static_cast<int>(std::bit_width(most)); }

void AddLittleEndian(uint64_t value, int bytes, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
}

void AddHybrid(std::span<const uint32_t> values, int bit_width, std::string& out) {
  constexpr size_t kGroup = 8;  // packed parts are whole groups, except the last
  size_t packed_from = 0;
  size_t i = 0;
  while (i < values.size()) {
    size_t end = i + 1;
    while (end < values.size() && values[end] == values[i]) ++end;
    if (end - i < kGroup) {
      i += kGroup;
      continue;
    }
    AddPackedRun(values.subspan(packed_from, i - packed_from), bit_width, out);
    AddVarint((end - i) << 1, out);
    AddLittleEndian(values[i], (bit_width + 7) / 8, out);
    packed_from = i = end;
  }
  AddPackedRun(values.subspan(packed_from), bit_width, out);
}

void AddDeltaPacked(std::span<const int64_t> values, std::string& out) {
  AddVarint(kDeltaBlock, out);
  AddVarint(kMiniblocks, out);
  AddVarint(values.size(), out);
  AddVarint(ZigZag(values.empty() ? 0 : values[0]), out);
  std::array<int64_t, kDeltaBlock> deltas;
  for (size_t i = 1; i < values.size(); i += kDeltaBlock) {
    const size_t count = std::min(kDeltaBlock, values.size() - i);
    for (size_t d = 0; d < count; ++d)
      deltas[d] = static_cast<int64_t>(Difference(values[i + d], values[i + d - 1]));
    AddDeltaBlock({deltas.data(), count}, out);
  }
}

void AddPlain32(std::span<const int64_t> values, std::string& out) {
  for (const int64_t value : values) AddLittleEndian(static_cast<uint64_t>(value), 4, out);
}

void AddPlainDoubles(std::span<const double> values, std::string& out) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

void AddPlainBits(std::span<const int64_t> values, std::string& out) {
  BitPacker packer(out);
  for (const int64_t value : values) packer.Add(value != 0 ? 1 : 0, 1);
  packer.Finish();
}

void AddPlainText(std::string_view text, std::string& out) {
  AddLittleEndian(text.size(), 4, out);
  out.append(text);
}

}  // namespace lockstep::views
