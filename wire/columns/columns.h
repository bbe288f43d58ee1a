// Compact columns: the encoding of records from daemon to aggregator and on disk (records/), with identical
// bytes.
//
// A block holds up to kMaxRows rows of one kind. Every row of a kind has the same columns of integers
// (schema.h). The payload has one column after the other in delta and varint coding, compressed as a whole by
// zstd. A kString block holds string definitions instead. A block decodes without other blocks.
//
// Document: docs/formats/columns.md. Golden file: tests/golden/columns/. Version rule: BlockHeader.version
// states the version, and a decoder refuses a newer one with its number. A schema grows only at its end. A
// row of an older block has 0 in the columns that it lacks.
//
// No object here may be shared: use one BlockBuilder per thread. Decode does not trust its input: it checks
// every size before it uses or allocates it (kMaxRawBytes).
#ifndef LOCKSTEP_WIRE_COLUMNS_COLUMNS_H_
#define LOCKSTEP_WIRE_COLUMNS_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/columns/schema.h"

namespace lockstep::columns {

inline constexpr uint32_t kBlockMagic = 0x3142534C;  // "LSB1" in memory
inline constexpr uint16_t kBlockVersion = 2;
inline constexpr uint32_t kMaxRows = 1u << 16;
inline constexpr uint32_t kMaxRawBytes = 64u << 20;

// Little-endian. The payload follows directly.
struct BlockHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;  // Kind
  uint32_t rows;
  uint32_t raw_bytes;       // of the payload before compression
  uint32_t stored_bytes;    // of the payload as stored
  uint32_t checksum;        // CRC-32 (zlib's) of this header with 0 here, then of the stored payload
  uint64_t epoch;           // epoch of the string ids in this block
  uint64_t first_sequence;  // number of the first row, counted per client process from 0 in drain order; 0 in
                            // kString blocks
};
static_assert(sizeof(BlockHeader) == 40);

// Collects rows of one kind and encodes them. One thread at a time may use it.
class BlockBuilder {
 public:
  explicit BlockBuilder(Kind kind);
  BlockBuilder(BlockBuilder&&) noexcept;
  BlockBuilder& operator=(BlockBuilder&&) noexcept;
  ~BlockBuilder();

  Kind kind() const;
  uint32_t rows() const;
  bool full() const { return rows() >= kDefaultRows; }
  // `row` has one value per column of Schema(kind); signed values are two's complement. Call Encode when
  // full(): a block has at most kMaxRows rows.
  void Append(std::span<const uint64_t> row);
  // Appends the encoded block (header and payload) to `out` and empties the builder. It does nothing without
  // rows.
  void Encode(uint64_t epoch, uint64_t first_sequence, std::string& out);

  static constexpr uint32_t kDefaultRows = 8192;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct StringDefinition {
  uint32_t id;
  std::string_view text;
};
// Appends a kString block, or several if one would exceed kMaxRows or kMaxRawBytes. It appends nothing
// without strings.
void EncodeStrings(uint64_t epoch, std::span<const StringDefinition> strings, std::string& out);

struct DecodedBlock {
  Kind kind = Kind::kString;
  uint64_t epoch = 0;
  uint64_t first_sequence = 0;
  uint32_t rows = 0;
  // columns[c][row], with one vector per column of Schema(kind). Empty for kString.
  std::vector<std::vector<uint64_t>> columns;
  // Only for kString. The texts point into `text_storage`: they stay valid in a moved block, not in a copied
  // one.
  std::vector<StringDefinition> strings;
  std::string text_storage;
};

// Decodes the block at the start of `bytes` into `block`, which calls may reuse, and returns its length in
// bytes.
//
// kOutOfRange: `bytes` ends inside the block (a truncated file). kDataLoss: the block is damaged.
// kUnimplemented: the version is newer or the kind is unknown. `*skip`, if given, then receives the length of
// the block, or 0 if it is unknown.
absl::StatusOr<size_t> Decode(std::span<const std::byte> bytes, DecodedBlock& block, size_t* skip = nullptr);

}  // namespace lockstep::columns

#endif  // LOCKSTEP_WIRE_COLUMNS_COLUMNS_H_
