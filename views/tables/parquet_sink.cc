#include "views/tables/parquet_sink.h"

#include "absl/strings/str_cat.h"
#include "views/tables/parquet_encoding.h"
#include "views/tables/thrift_compact.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr int32_t kZstd = 6;
constexpr int32_t kUtf8 = 0;  // as a "converted type", for readers without logical types
constexpr int kStringType = 1;

void AddSchema(const Table& table, ThriftCompact& out) {
  out.BeginList(2, ThriftCompact::Element::kStruct, table.columns.size() + 1);
  out.BeginElement();
  out.Binary(4, table.name);
  out.I32(5, static_cast<int32_t>(table.columns.size()));
  out.EndStruct();
  for (const Column& column : table.columns) {
    out.BeginElement();
    out.I32(1, static_cast<int32_t>(ParquetTypeOf(column.type)));
    out.I32(3, column.may_be_null ? 1 : 0);
    out.Binary(4, column.name);
    if (column.type == CellType::kText) {
      out.I32(6, kUtf8);
      out.BeginStruct(10);
      out.BeginStruct(kStringType);
      out.EndStruct();
      out.EndStruct();
    }
    out.EndStruct();
  }
}

std::string Bytes(const Column& column, int64_t value) {
  std::string bytes;
  AddLittleEndian(static_cast<uint64_t>(value), column.type == CellType::kInt32 ? 4 : 8, bytes);
  return bytes;
}

void AddStatistics(const Column& column, const ParquetChunk& chunk, ThriftCompact& out) {
  out.BeginStruct(12);
  out.I64(3, static_cast<int64_t>(chunk.nulls));
  if (chunk.most) out.Binary(5, Bytes(column, *chunk.most));
  if (chunk.least) out.Binary(6, Bytes(column, *chunk.least));
  out.EndStruct();
}

void AddEncodings(const ParquetChunk& chunk, ThriftCompact& out) {
  out.BeginList(2, ThriftCompact::Element::kI32, chunk.dictionary_at ? 3 : 2);
  // The encodings of levels, dictionary and values.
  out.I32Element(static_cast<int32_t>(ParquetEncoding::kRle));
  if (chunk.dictionary_at) out.I32Element(static_cast<int32_t>(ParquetEncoding::kPlain));
  out.I32Element(static_cast<int32_t>(chunk.encoding));
}

// Says that the minimum and maximum of each column follow the order of its type.
void AddColumnOrders(const Table& table, ThriftCompact& out) {
  out.BeginList(7, ThriftCompact::Element::kStruct, table.columns.size());
  for (size_t i = 0; i < table.columns.size(); ++i) {
    out.BeginElement();
    out.BeginStruct(1);
    out.EndStruct();
    out.EndStruct();
  }
}

void AddProperty(std::string_view key, std::string_view value, ThriftCompact& out) {
  out.BeginElement();
  out.Binary(1, key);
  out.Binary(2, value);
  out.EndStruct();
}

}  // namespace

absl::Status ParquetSink::Put(std::string_view bytes) {
  at_ += bytes.size();
  return sink_.Append(bytes);
}

absl::Status ParquetSink::Append(const Batch& batch) {
  if (at_ == 0) {
    if (absl::Status s = Put(kMagic); !s.ok()) return s;
  }
  RowGroup& group = groups_.emplace_back();
  group.rows = batch.rows;
  for (size_t i = 0; i < batch.columns.size(); ++i) {
    Placed& placed = group.columns.emplace_back();
    placed.at = at_;
    if (absl::Status s = chunks_.Write(table_.columns[i], batch.columns[i], placed.chunk); !s.ok()) return s;
    placed.compressed_bytes = placed.chunk.bytes.size();
    if (absl::Status s = Put(placed.chunk.bytes); !s.ok()) return s;
    placed.chunk.bytes = std::string();
  }
  return absl::OkStatus();
}

absl::Status ParquetSink::Finish() {
  if (at_ == 0) {
    if (absl::Status s = Put(kMagic); !s.ok()) return s;
  }
  std::string footer = Footer();
  AddLittleEndian(footer.size(), 4, footer);
  footer.append(kMagic);
  return Put(footer);
}

std::string ParquetSink::Footer() const {
  ThriftCompact out;
  out.I32(1, 2);
  AddSchema(table_, out);
  uint64_t rows = 0;
  for (const RowGroup& group : groups_) rows += group.rows;
  out.I64(3, static_cast<int64_t>(rows));
  out.BeginList(4, ThriftCompact::Element::kStruct, groups_.size());
  for (const RowGroup& group : groups_) {
    uint64_t bytes = 0;
    out.BeginElement();
    out.BeginList(1, ThriftCompact::Element::kStruct, group.columns.size());
    for (size_t i = 0; i < group.columns.size(); ++i) {
      const Placed& placed = group.columns[i];
      const ParquetChunk& chunk = placed.chunk;
      const Column& column = table_.columns[i];
      bytes += chunk.uncompressed_bytes;
      out.BeginElement();
      out.I64(2, static_cast<int64_t>(placed.at));
      out.BeginStruct(3);
      out.I32(1, static_cast<int32_t>(ParquetTypeOf(column.type)));
      AddEncodings(chunk, out);
      out.BeginList(3, ThriftCompact::Element::kBinary, 1);
      out.BinaryElement(column.name);
      out.I32(4, kZstd);
      out.I64(5, static_cast<int64_t>(group.rows));
      out.I64(6, static_cast<int64_t>(chunk.uncompressed_bytes));
      out.I64(7, static_cast<int64_t>(placed.compressed_bytes));
      out.I64(9, static_cast<int64_t>(placed.at + chunk.data_at));
      if (chunk.dictionary_at) out.I64(11, static_cast<int64_t>(placed.at + *chunk.dictionary_at));
      AddStatistics(column, chunk, out);
      out.EndStruct();
      out.EndStruct();
    }
    out.I64(2, static_cast<int64_t>(bytes));
    out.I64(3, static_cast<int64_t>(group.rows));
    out.EndStruct();
  }
  out.BeginList(5, ThriftCompact::Element::kStruct, table_.columns.size() + 1);
  AddProperty("lockstep.table", table_.meaning, out);
  for (const Column& column : table_.columns)
    AddProperty(absl::StrCat("lockstep.column.", std::string(column.name)), column.meaning, out);
  out.Binary(6, "Lockstep (tables version 1)");
  AddColumnOrders(table_, out);
  return out.Take();
}

}  // namespace lockstep::views
