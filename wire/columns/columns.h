// Compact columns: how records travel from daemon to aggregator and lie on disk (records/), byte for byte the
// same.
//
// A block holds up to kMaxRows rows of one kind, each row the same few integers (schema.h). Columns are
// stored one after the other, delta and varint coded, and the whole payload is zstd-compressed. A kString
// block holds string definitions instead. A block decodes alone. Document: docs/formats/columns.md. Golden
// file: tests/golden/columns/. Version rule: BlockHeader.version; a decoder refuses a newer one by name;
// columns are only ever appended to a schema, and a row decoded from an older block has 0 in the columns it
// lacks.
//
// Threads: none of this is shared; use one BlockBuilder per thread. Bytes given to Decode are hostile: every
// size is checked before it is used or allocated (kMaxRawBytes).
#ifndef LOCKSTEP_COMMON_COLUMNS_COLUMNS_H_
#define LOCKSTEP_COMMON_COLUMNS_COLUMNS_H_

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

// Little-endian, directly in front of the payload.
struct BlockHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;  // Kind
  uint32_t rows;
  uint32_t raw_bytes;       // payload before compression
  uint32_t stored_bytes;    // payload as it follows
  uint32_t checksum;        // CRC-32 (zlib's) of this header with 0 here, then of the stored payload
  uint64_t epoch;           // of the string ids in this block
  uint64_t first_sequence;  // of the first row, counted per client process from 0 in drain order; 0 in
                            // kString blocks
};
static_assert(sizeof(BlockHeader) == 40);

// Collects rows of one kind and encodes them.
class BlockBuilder {
 public:
  explicit BlockBuilder(Kind kind);
  BlockBuilder(BlockBuilder&&) noexcept;
  BlockBuilder& operator=(BlockBuilder&&) noexcept;
  ~BlockBuilder();

  Kind kind() const;
  uint32_t rows() const;
  bool full() const { return rows() >= kDefaultRows; }
  // `row` has one value per column of Schema(kind), signed values as two's complement. Never more than
  // kMaxRows rows: call Encode once full().
  void Append(std::span<const uint64_t> row);
  // Appends the encoded block (header and payload) to `out` and empties the builder. Nothing happens with no
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
// Appends one kString block; several where one would exceed kMaxRows or kMaxRawBytes, none for no strings.
void EncodeStrings(uint64_t epoch, std::span<const StringDefinition> strings, std::string& out);

struct DecodedBlock {
  Kind kind = Kind::kString;
  uint64_t epoch = 0;
  uint64_t first_sequence = 0;
  uint32_t rows = 0;
  // columns[c][row]; one vector per column of Schema(kind). Empty for kString.
  std::vector<std::vector<uint64_t>> columns;
  // kString only; the texts point into `text_storage` (a moved block stays valid, a copied one does not).
  std::vector<StringDefinition> strings;
  std::string text_storage;
};

// Decodes the block at the start of `bytes` into `block` (reused between calls) and returns the bytes it
// took. kOutOfRange: `bytes` ends inside the block (a truncated file). kDataLoss: it is damaged.
// kUnimplemented: newer version or unknown kind; `*skip`, when given, is then its length where that is known,
// else 0.
absl::StatusOr<size_t> Decode(std::span<const std::byte> bytes, DecodedBlock& block, size_t* skip = nullptr);

}  // namespace lockstep::columns

#endif  // LOCKSTEP_COMMON_COLUMNS_COLUMNS_H_
