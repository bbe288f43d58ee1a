#include "views/tables/parquet_chunk.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "views/tables/parquet_encoding.h"
#include "views/tables/thrift_compact.h"

namespace lockstep::views {
namespace {

// A fast level is enough, because columns of differences and indices hardly compress further.
constexpr int kZstdLevel = 1;
constexpr size_t kPlainPageBytes = 1 << 20;
constexpr size_t kMostDictionaryBytes = 1 << 20;
constexpr size_t kMostPageBytes = std::numeric_limits<int32_t>::max();

// Adds the definition levels, which say which cells are not null. Their length comes first.
void AddLevels(const Column& column, const Cells& cells, size_t first, size_t rows,
               std::vector<uint32_t>& scratch, std::string& page) {
  if (!column.may_be_null) return;
  const auto from = cells.present().begin() + static_cast<ptrdiff_t>(first);
  scratch.assign(from, from + static_cast<ptrdiff_t>(rows));
  std::string levels;
  AddHybrid(scratch, 1, levels);
  AddLittleEndian(levels.size(), 4, page);
  page.append(levels);
}

// Returns the values without those of nulls.
template <typename T>
std::span<const T> Present(const Cells& cells, const std::vector<T>& values, std::vector<T>& scratch) {
  if (cells.nulls() == 0) return values;
  scratch.clear();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!cells.IsNull(i)) scratch.push_back(values[i]);
  }
  return scratch;
}

// Each distinct text once, in the order of its first row, and the index of each row that has a text.
struct Dictionary {
  std::vector<std::string_view> texts;
  std::vector<uint32_t> indices;
};

// nullopt: a dictionary does not pay off, because too many texts are distinct.
std::optional<Dictionary> DictionaryOf(const Cells& cells) {
  Dictionary out;
  absl::flat_hash_map<std::string_view, uint32_t> places;
  size_t bytes = 0;
  const size_t most = cells.size() / 2 + 16;
  for (size_t row = 0; row < cells.size(); ++row) {
    if (cells.IsNull(row)) continue;
    const std::string_view text = cells.texts()[row];
    const auto found = places.try_emplace(text, static_cast<uint32_t>(out.texts.size()));
    if (found.second) {
      out.texts.push_back(text);
      bytes += text.size() + 4;
      if (out.texts.size() > most || bytes > kMostDictionaryBytes) return std::nullopt;
    }
    out.indices.push_back(found.first->second);
  }
  return out;
}

}  // namespace

struct ParquetChunkWriter::PageKind {
  bool dictionary = false;
  size_t values = 0;  // of a data page: number of rows, nulls included
  ParquetEncoding encoding = ParquetEncoding::kPlain;
};

ParquetType ParquetTypeOf(CellType type) {
  switch (type) {
    case CellType::kBool:
      return ParquetType::kBoolean;
    case CellType::kInt32:
      return ParquetType::kInt32;
    case CellType::kInt64:
      return ParquetType::kInt64;
    case CellType::kDouble:
      return ParquetType::kDouble;
    case CellType::kText:
      return ParquetType::kByteArray;
  }
  return ParquetType::kByteArray;
}

absl::Status ParquetChunkWriter::Write(const Column& column, const Cells& cells, ParquetChunk& chunk) {
  chunk.nulls = cells.nulls();
  if (column.type == CellType::kText) return WriteTexts(column, cells, chunk);
  page_.clear();
  AddLevels(column, cells, 0, cells.size(), small_, page_);
  if (column.type == CellType::kDouble) {
    AddPlainDoubles(Present(cells, cells.doubles(), doubles_), page_);
    return AddDataPage(page_, cells.size(), chunk);
  }
  const std::span<const int64_t> numbers = Present(cells, cells.numbers(), numbers_);
  if (column.type == CellType::kBool) {
    AddPlainBits(numbers, page_);
    return AddDataPage(page_, cells.size(), chunk);
  }
  if (!numbers.empty()) {
    chunk.least = *std::min_element(numbers.begin(), numbers.end());
    chunk.most = *std::max_element(numbers.begin(), numbers.end());
  }
  if (column.type == CellType::kInt32) {
    AddPlain32(numbers, page_);
  } else {
    chunk.encoding = ParquetEncoding::kDeltaBinaryPacked;
    AddDeltaPacked(numbers, page_);
  }
  return AddDataPage(page_, cells.size(), chunk);
}

absl::Status ParquetChunkWriter::WriteTexts(const Column& column, const Cells& cells, ParquetChunk& chunk) {
  const std::optional<Dictionary> dictionary = DictionaryOf(cells);
  if (!dictionary) return WritePlainTexts(column, cells, chunk);
  if (absl::Status s = WriteDictionary(dictionary->texts, chunk); !s.ok()) return s;
  chunk.encoding = ParquetEncoding::kRleDictionary;
  page_.clear();
  AddLevels(column, cells, 0, cells.size(), small_, page_);
  const int bit_width = dictionary->texts.size() < 2 ? 1 : BitWidth(dictionary->texts.size() - 1);
  page_.push_back(static_cast<char>(bit_width));
  AddHybrid(dictionary->indices, bit_width, page_);
  return AddDataPage(page_, cells.size(), chunk);
}

absl::Status ParquetChunkWriter::WriteDictionary(std::span<const std::string_view> texts,
                                                 ParquetChunk& chunk) {
  page_.clear();
  for (const std::string_view text : texts) AddPlainText(text, page_);
  chunk.dictionary_at = chunk.bytes.size();
  return AddPage(page_, {.dictionary = true, .values = texts.size()}, chunk);
}

absl::Status ParquetChunkWriter::WritePlainTexts(const Column& column, const Cells& cells,
                                                 ParquetChunk& chunk) {
  size_t first = 0;
  while (first < cells.size()) {
    size_t end = first;
    for (size_t bytes = 0; end < cells.size() && bytes < kPlainPageBytes; ++end)
      bytes += cells.texts()[end].size() + 4;
    page_.clear();
    AddLevels(column, cells, first, end - first, small_, page_);
    for (size_t row = first; row < end; ++row) {
      if (!cells.IsNull(row)) AddPlainText(cells.texts()[row], page_);
    }
    if (absl::Status s = AddDataPage(page_, end - first, chunk); !s.ok()) return s;
    first = end;
  }
  return absl::OkStatus();
}

absl::Status ParquetChunkWriter::AddDataPage(std::string_view page, size_t rows, ParquetChunk& chunk) {
  // Only the first data page sets data_at. After a dictionary, data_at is not 0, because a page with its
  // header is not empty.
  const uint64_t dictionary_end = chunk.dictionary_at ? chunk.bytes.size() : 0;
  if (chunk.data_at == 0) chunk.data_at = dictionary_end;
  return AddPage(page, {.values = rows, .encoding = chunk.encoding}, chunk);
}

absl::Status ParquetChunkWriter::AddPage(std::string_view page, const PageKind& kind, ParquetChunk& chunk) {
  if (page.size() > kMostPageBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a page has ", page.size(), " bytes, but Parquet allows ", kMostPageBytes, " bytes; export as csv"));
  }
  compressed_.resize(ZSTD_compressBound(page.size()));
  const size_t size = zstd_ == nullptr
                          ? 0
                          : ZSTD_compressCCtx(zstd_.get(), compressed_.data(), compressed_.size(),
                                              page.data(), page.size(), kZstdLevel);
  if (zstd_ == nullptr || ZSTD_isError(size) != 0)
    return absl::ResourceExhaustedError("cannot compress: zstd is out of memory");
  ThriftCompact header;
  header.I32(1, kind.dictionary ? 2 : 0);
  header.I32(2, static_cast<int32_t>(page.size()));
  header.I32(3, static_cast<int32_t>(size));
  header.BeginStruct(kind.dictionary ? 7 : 5);
  header.I32(1, static_cast<int32_t>(kind.values));
  header.I32(2, static_cast<int32_t>(kind.encoding));
  if (!kind.dictionary) {
    header.I32(3, static_cast<int32_t>(ParquetEncoding::kRle));
    header.I32(4, static_cast<int32_t>(ParquetEncoding::kRle));
  }
  header.EndStruct();
  const std::string head = header.Take();
  chunk.bytes.append(head).append(compressed_, 0, size);
  chunk.uncompressed_bytes += head.size() + page.size();
  return absl::OkStatus();
}

}  // namespace lockstep::views
