#include <algorithm>

#include "absl/strings/str_cat.h"
#include "wire/columns/columns.h"
#include "wire/columns/frame.h"
#include "wire/columns/varint.h"

namespace lockstep::columns {
namespace {

// More columns than any kind will ever have. It bounds the memory that a block can take.
constexpr size_t kMostColumns = 64;

absl::Status Damaged(Kind kind, const std::string& what) {
  return absl::DataLossError(absl::StrCat("a block of ", KindName(kind), " rows is damaged: ", what));
}

const uint8_t* GetColumn(const uint8_t* in, const uint8_t* end, Encoding encoding, uint64_t* values,
                         uint32_t rows) {
  if (encoding == Encoding::kPlain) {
    for (uint32_t i = 0; i < rows; ++i) {
      in = GetVarint(in, end, values[i]);
      if (in == nullptr) return nullptr;
    }
    return in;
  }
  uint64_t before = 0;
  for (uint32_t i = 0; i < rows; ++i) {
    uint64_t coded = 0;
    in = GetVarint(in, end, coded);
    if (in == nullptr) return nullptr;
    before += UnZigZag(coded);
    values[i] = before;
  }
  return in;
}

absl::Status GetRows(const std::string& raw, DecodedBlock& block) {
  const uint8_t* in = reinterpret_cast<const uint8_t*>(raw.data());
  const uint8_t* const end = in + raw.size();
  const std::span<const Column> schema = Schema(block.kind);
  if (in == end) return Damaged(block.kind, "it is empty");
  const size_t stored_columns = *in++;
  if (stored_columns > kMostColumns)
    return Damaged(block.kind, absl::StrCat("it states ", stored_columns, " columns"));

  block.columns.resize(schema.size());
  for (size_t c = stored_columns; c < schema.size(); ++c) block.columns[c].assign(block.rows, 0);
  std::vector<uint64_t> unknown;  // a column that a later version appended
  for (size_t c = 0; c < stored_columns; ++c) {
    std::vector<uint64_t>& column = c < schema.size() ? block.columns[c] : unknown;
    const Column about = c < schema.size() ? schema[c] : Column{"of a later version", Encoding::kPlain};
    if (in == end) return Damaged(block.kind, absl::StrCat("it ends before column ", about.name));
    const auto mode = static_cast<ColumnMode>(*in++);
    if (mode == ColumnMode::kConstant) {
      uint64_t value = 0;
      in = GetVarint(in, end, value);
      if (in != nullptr) column.assign(block.rows, value);
    } else if (mode == ColumnMode::kRows && static_cast<size_t>(end - in) >= block.rows) {
      column.resize(block.rows);
      in = GetColumn(in, end, about.encoding, column.data(), block.rows);
    } else {
      in = nullptr;
    }
    if (in == nullptr) return Damaged(block.kind, absl::StrCat("column ", about.name, " cannot be read"));
  }
  if (in != end) return Damaged(block.kind, "bytes follow the last column");
  return absl::OkStatus();
}

absl::Status GetStrings(DecodedBlock& block) {
  const std::string& raw = block.text_storage;
  const uint8_t* in = reinterpret_cast<const uint8_t*>(raw.data());
  const uint8_t* const end = in + raw.size();
  // A definition takes at least two bytes, so a forged row count cannot cause a large allocation.
  if (raw.size() / 2 < block.rows) return Damaged(block.kind, "it is too short for its rows");
  block.strings.reserve(block.rows);
  for (uint32_t i = 0; i < block.rows; ++i) {
    uint64_t id = 0;
    uint64_t length = 0;
    in = GetVarint(in, end, id);
    if (in != nullptr) in = GetVarint(in, end, length);
    if (in == nullptr || id > UINT32_MAX || length > static_cast<size_t>(end - in)) {
      return Damaged(block.kind, absl::StrCat("definition ", i, " cannot be read"));
    }
    block.strings.push_back({static_cast<uint32_t>(id), {reinterpret_cast<const char*>(in), length}});
    in += length;
  }
  if (in != end) return Damaged(block.kind, "bytes follow the last definition");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> Decode(std::span<const std::byte> bytes, DecodedBlock& block, size_t* skip) {
  block.strings.clear();
  block.rows = 0;
  absl::StatusOr<Frame> frame = ReadFrame(bytes, skip);
  if (!frame.ok()) return frame.status();
  block.kind = static_cast<Kind>(frame->header.kind);
  block.epoch = frame->header.epoch;
  block.first_sequence = frame->header.first_sequence;

  const bool strings = block.kind == Kind::kString;
  if (!strings) {
    // This check precedes any allocation: no block with this number of rows can be larger.
    const uint64_t most = 1 + kMostColumns * (1 + kMaxVarintBytes * uint64_t{frame->header.rows});
    if (frame->header.raw_bytes > most) return Damaged(block.kind, "it is too large for its rows");
  }
  // A short string keeps its bytes inside the object, and `strings` would dangle after a move. The reserve
  // prevents that.
  block.text_storage.reserve(std::max<size_t>(frame->header.raw_bytes, 64));
  absl::Status status = Inflate(*frame, block.text_storage);
  if (!status.ok()) return status;
  block.rows = frame->header.rows;
  status = strings ? GetStrings(block) : GetRows(block.text_storage, block);
  if (strings) block.columns.clear();
  if (!status.ok()) {
    block.rows = 0;
    block.strings.clear();
    return status;
  }
  return frame->bytes;
}

}  // namespace lockstep::columns
