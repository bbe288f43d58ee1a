#include <cassert>
#include <cstring>
#include <vector>

#include "wire/columns/columns.h"
#include "wire/columns/frame.h"
#include "wire/columns/varint.h"

namespace lockstep::columns {
namespace {

constexpr uint32_t kFirstCapacity = 512;

}  // namespace

struct BlockBuilder::Impl {
  explicit Impl(Kind k) : kind(k), schema(Schema(k)) {}

  uint64_t* column(size_t c) { return values.data() + c * stride; }

  // Stores the columns one after the other. Every Append writes to all columns; padding of one cache line
  // keeps their ends out of one cache set.
  void Grow() {
    const uint32_t wider = capacity == 0 ? kFirstCapacity : capacity * 4;
    const size_t wider_stride = wider + 8;
    std::vector<uint64_t> moved(wider_stride * schema.size());
    for (size_t c = 0; c < schema.size() && rows > 0; ++c) {
      std::memcpy(moved.data() + c * wider_stride, column(c), rows * sizeof(uint64_t));
    }
    values = std::move(moved);
    capacity = wider;
    stride = wider_stride;
  }

  const Kind kind;
  const std::span<const Column> schema;
  std::vector<uint64_t> values;
  size_t stride = 0;
  uint32_t capacity = 0;
  uint32_t rows = 0;
  std::vector<uint8_t> raw;  // reused between blocks
};

namespace {

bool IsConstant(const uint64_t* values, uint32_t rows) {
  // Most columns that are not constant differ early. The OR over the rest vectorises.
  if (rows > 1 && values[1] != values[0]) return false;
  uint64_t difference = 0;
  for (uint32_t i = 0; i < rows; ++i) difference |= values[i] ^ values[0];
  return difference == 0;
}

uint8_t* PutColumn(uint8_t* out, Encoding encoding, const uint64_t* values, uint32_t rows) {
  if (IsConstant(values, rows)) {
    *out++ = static_cast<uint8_t>(ColumnMode::kConstant);
    return PutVarint(out, values[0]);
  }
  *out++ = static_cast<uint8_t>(ColumnMode::kRows);
  if (encoding == Encoding::kPlain) {
    for (uint32_t i = 0; i < rows; ++i) out = PutVarint(out, values[i]);
    return out;
  }
  uint64_t before = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    out = PutVarint(out, ZigZag(values[i] - before));
    before = values[i];
  }
  return out;
}

}  // namespace

BlockBuilder::BlockBuilder(Kind kind) : impl_(std::make_unique<Impl>(kind)) {
  assert(!impl_->schema.empty() && "kString has EncodeStrings");
}
BlockBuilder::BlockBuilder(BlockBuilder&&) noexcept = default;
BlockBuilder& BlockBuilder::operator=(BlockBuilder&&) noexcept = default;
BlockBuilder::~BlockBuilder() = default;

Kind BlockBuilder::kind() const { return impl_->kind; }
uint32_t BlockBuilder::rows() const { return impl_->rows; }

void BlockBuilder::Append(std::span<const uint64_t> row) {
  Impl& b = *impl_;
  assert(row.size() == b.schema.size());
  assert(b.rows < kMaxRows);
  if (b.rows == b.capacity) [[unlikely]]
    b.Grow();
  uint64_t* cell = b.values.data() + b.rows;
  for (uint64_t value : row) {
    *cell = value;
    cell += b.stride;
  }
  ++b.rows;
}

void BlockBuilder::Encode(uint64_t epoch, uint64_t first_sequence, std::string& out) {
  Impl& b = *impl_;
  if (b.rows == 0) return;
  b.raw.resize(1 + b.schema.size() * (1 + kMaxVarintBytes * size_t{b.rows}));
  uint8_t* end = b.raw.data();
  *end++ = static_cast<uint8_t>(b.schema.size());
  for (size_t c = 0; c < b.schema.size(); ++c)
    end = PutColumn(end, b.schema[c].encoding, b.column(c), b.rows);

  BlockHeader header{};
  header.magic = kBlockMagic;
  header.version = kBlockVersion;
  header.kind = static_cast<uint16_t>(b.kind);
  header.rows = b.rows;
  header.epoch = epoch;
  header.first_sequence = first_sequence;
  AppendFrame(header, {b.raw.data(), static_cast<size_t>(end - b.raw.data())}, out);
  b.rows = 0;
}

void EncodeStrings(uint64_t epoch, std::span<const StringDefinition> strings, std::string& out) {
  std::vector<uint8_t> raw;
  while (!strings.empty()) {
    raw.clear();
    uint32_t rows = 0;
    for (const StringDefinition& s : strings) {
      assert(s.text.size() <= kMaxRawBytes - 2 * kMaxVarintBytes);
      if (rows == kMaxRows || raw.size() + s.text.size() + 2 * kMaxVarintBytes > kMaxRawBytes) break;
      uint8_t prefix[2 * kMaxVarintBytes];
      uint8_t* const end = PutVarint(PutVarint(prefix, s.id), s.text.size());
      raw.insert(raw.end(), +prefix, end);
      raw.insert(raw.end(), s.text.begin(), s.text.end());
      ++rows;
    }
    BlockHeader header{};
    header.magic = kBlockMagic;
    header.version = kBlockVersion;
    header.kind = static_cast<uint16_t>(Kind::kString);
    header.rows = rows;
    header.epoch = epoch;
    AppendFrame(header, raw, out);
    strings = strings.subspan(rows);
  }
}

}  // namespace lockstep::columns
