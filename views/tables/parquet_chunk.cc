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
// Bounds of texts are cut, because kernels have names of several thousand characters.
constexpr size_t kMostBoundBytes = 64;
constexpr size_t kMostPageBytes = std::numeric_limits<int32_t>::max();

// The length comes before the levels, each of which is 0 or 1.
void AddLevels(std::span<const uint32_t> levels, std::string& page) {
  std::string encoded;
  AddHybrid(levels, 1, encoded);
  AddLittleEndian(encoded.size(), 4, page);
  page.append(encoded);
}

// Adds the definition levels, which say which cells are not null.
void AddPresence(const Column& column, const Cells& cells, size_t first, size_t rows,
                 std::vector<uint32_t>& scratch, std::string& page) {
  if (!column.may_be_null) return;
  const auto from = cells.present().begin() + static_cast<ptrdiff_t>(first);
  scratch.assign(from, from + static_cast<ptrdiff_t>(rows));
  AddLevels(scratch, page);
}

// Adds the levels of lists: an entry per element, and one per empty list. The repetition level is 0 where a
// list begins, and the definition level is 0 for an empty list. Returns the number of entries.
size_t AddListLevels(const Cells& cells, std::string& page) {
  std::vector<uint32_t> repetition, definition;
  for (size_t row = 0; row < cells.size(); ++row) {
    const auto [first, end] = cells.ElementsOf(row);
    repetition.push_back(0);
    definition.push_back(first == end ? 0 : 1);
    for (size_t i = first + 1; i < end; ++i) {
      repetition.push_back(1);
      definition.push_back(1);
    }
  }
  AddLevels(repetition, page);
  AddLevels(definition, page);
  return repetition.size();
}

std::string NumberBytes(CellType type, int64_t value) {
  std::string bytes;
  AddLittleEndian(static_cast<uint64_t>(value), type == CellType::kInt32 ? 4 : 8, bytes);
  return bytes;
}

// Returns the longest prefix of whole characters with at most kMostBoundBytes.
std::string_view PrefixOf(std::string_view text) {
  if (text.size() <= kMostBoundBytes) return text;
  size_t end = kMostBoundBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// Returns a short text that is not below `text`, in the order of bytes. nullopt: none was found.
std::optional<ParquetBound> UpperBound(std::string_view text) {
  std::string bound(PrefixOf(text));
  if (bound.size() == text.size()) return ParquetBound{std::move(bound)};
  // The next character after an ASCII character is one as well, except after the last of them.
  while (!bound.empty() && static_cast<unsigned char>(bound.back()) >= 0x7F) bound.pop_back();
  if (bound.empty()) return std::nullopt;
  ++bound.back();
  return ParquetBound{.bytes = std::move(bound), .exact = false};
}

void SetTextBounds(const Cells& cells, ParquetChunk& chunk) {
  std::optional<std::string_view> least, most;
  for (size_t row = 0; row < cells.size(); ++row) {
    if (cells.IsNull(row)) continue;
    const std::string_view text = cells.texts()[row];
    if (!least || text < *least) least = text;
    if (!most || text > *most) most = text;
  }
  if (!least) return;
  const std::string_view prefix = PrefixOf(*least);
  chunk.least = {.bytes = std::string(prefix), .exact = prefix.size() == least->size()};
  chunk.most = UpperBound(*most);
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
  size_t values = 0;  // nulls included
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
  if (column.shape == CellShape::kList) return WriteLists(column, cells, chunk);
  chunk.values = cells.size();
  chunk.nulls = cells.nulls();
  if (column.type == CellType::kText) return WriteTexts(column, cells, chunk);
  page_.clear();
  AddPresence(column, cells, 0, cells.size(), small_, page_);
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
    chunk.least = {NumberBytes(column.type, *std::min_element(numbers.begin(), numbers.end()))};
    chunk.most = {NumberBytes(column.type, *std::max_element(numbers.begin(), numbers.end()))};
  }
  if (column.type == CellType::kInt32) {
    AddPlain32(numbers, page_);
  } else {
    chunk.encoding = ParquetEncoding::kDeltaBinaryPacked;
    AddDeltaPacked(numbers, page_);
  }
  return AddDataPage(page_, cells.size(), chunk);
}

absl::Status ParquetChunkWriter::WriteLists(const Column& column, const Cells& cells, ParquetChunk& chunk) {
  page_.clear();
  chunk.values = AddListLevels(cells, page_);
  switch (column.type) {
    case CellType::kText:
      for (const std::string_view text : cells.texts()) AddPlainText(text, page_);
      break;
    case CellType::kDouble:
      AddPlainDoubles(cells.doubles(), page_);
      break;
    case CellType::kBool:
      AddPlainBits(cells.numbers(), page_);
      break;
    case CellType::kInt32:
      AddPlain32(cells.numbers(), page_);
      break;
    case CellType::kInt64:
      chunk.encoding = ParquetEncoding::kDeltaBinaryPacked;
      AddDeltaPacked(cells.numbers(), page_);
  }
  return AddDataPage(page_, chunk.values, chunk);
}

absl::Status ParquetChunkWriter::WriteTexts(const Column& column, const Cells& cells, ParquetChunk& chunk) {
  SetTextBounds(cells, chunk);
  const std::optional<Dictionary> dictionary = DictionaryOf(cells);
  if (!dictionary) return WritePlainTexts(column, cells, chunk);
  if (absl::Status s = WriteDictionary(dictionary->texts, chunk); !s.ok()) return s;
  chunk.encoding = ParquetEncoding::kRleDictionary;
  page_.clear();
  AddPresence(column, cells, 0, cells.size(), small_, page_);
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
    AddPresence(column, cells, first, end - first, small_, page_);
    for (size_t row = first; row < end; ++row) {
      if (!cells.IsNull(row)) AddPlainText(cells.texts()[row], page_);
    }
    if (absl::Status s = AddDataPage(page_, end - first, chunk); !s.ok()) return s;
    first = end;
  }
  return absl::OkStatus();
}

absl::Status ParquetChunkWriter::AddDataPage(std::string_view page, size_t values, ParquetChunk& chunk) {
  // Only the first data page sets data_at. After a dictionary, data_at is not 0, because a page with its
  // header is not empty.
  const uint64_t dictionary_end = chunk.dictionary_at ? chunk.bytes.size() : 0;
  if (chunk.data_at == 0) chunk.data_at = dictionary_end;
  return AddPage(page, {.values = values, .encoding = chunk.encoding}, chunk);
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
