// ParquetChunkWriter writes one column of one row group as Parquet's pages.
#ifndef LOCKSTEP_VIEWS_TABLES_PARQUET_CHUNK_H_
#define LOCKSTEP_VIEWS_TABLES_PARQUET_CHUNK_H_

#include <zstd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "views/tables/table.h"

namespace lockstep::views {

// The values are those of the specification.
enum class ParquetType : int32_t { kBoolean = 0, kInt32 = 1, kInt64 = 2, kDouble = 5, kByteArray = 6 };
enum class ParquetEncoding : int32_t { kPlain = 0, kRle = 3, kDeltaBinaryPacked = 5, kRleDictionary = 8 };

ParquetType ParquetTypeOf(CellType type);

// A value that no value of the chunk is below or above.
struct ParquetBound {
  std::string bytes;
  bool exact = true;  // false: no value of the chunk equals it
};

// Offsets count from the first byte of the chunk.
struct ParquetChunk {
  std::string bytes;
  uint64_t uncompressed_bytes = 0;
  std::optional<uint64_t> dictionary_at;
  uint64_t data_at = 0;
  ParquetEncoding encoding = ParquetEncoding::kPlain;
  size_t values = 0;  // rows; for lists: elements and empty lists
  size_t nulls = 0;
  // Bounds of the values, encoded for the statistics. nullopt: the column has no bounds, or no value.
  std::optional<ParquetBound> least, most;
};

// Compresses pages with zstd. One thread; one writer serves a whole file.
class ParquetChunkWriter {
 public:
  ParquetChunkWriter() : zstd_(ZSTD_createCCtx(), &ZSTD_freeCCtx) {}

  // kResourceExhausted: a text is too large for a page, or there is no memory for the compression.
  absl::Status Write(const Column& column, const Cells& cells, ParquetChunk& chunk);

 private:
  struct PageKind;

  absl::Status WriteLists(const Column& column, const Cells& cells, ParquetChunk& chunk);
  absl::Status WriteTexts(const Column& column, const Cells& cells, ParquetChunk& chunk);
  absl::Status WriteDictionary(std::span<const std::string_view> texts, ParquetChunk& chunk);
  absl::Status WritePlainTexts(const Column& column, const Cells& cells, ParquetChunk& chunk);
  // Adds `page` with its header. It holds `values` values, nulls included.
  absl::Status AddDataPage(std::string_view page, size_t values, ParquetChunk& chunk);
  absl::Status AddPage(std::string_view page, const PageKind& kind, ParquetChunk& chunk);

  std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd_;
  std::string page_;
  std::string compressed_;
  std::vector<uint32_t> small_;   // levels, then indices
  std::vector<int64_t> numbers_;  // values that are not null
  std::vector<double> doubles_;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_PARQUET_CHUNK_H_
