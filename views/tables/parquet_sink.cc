#include "views/tables/parquet_sink.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "views/tables/parquet_encoding.h"
#include "views/tables/thrift_compact.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr int32_t kZstd = 6;
enum class Repetition : int32_t { kRequired = 0, kOptional = 1, kRepeated = 2 };

// The specification's numbers of a type of values: one for readers without logical types, and one that
// selects the member of its union.
struct LogicalType {
  int32_t converted;
  int logical;
};
constexpr LogicalType kString = {.converted = 0, .logical = 1};
constexpr LogicalType kList = {.converted = 3, .logical = 3};

// A list is a group of one repeated group, which has one element.
constexpr std::string_view kListNames[] = {"list", "element"};

void AddLogicalType(LogicalType type, ThriftCompact& out) {
  out.I32(6, type.converted);
  out.BeginStruct(10);
  out.BeginStruct(type.logical);
  out.EndStruct();
  out.EndStruct();
}

void AddLeaf(std::string_view name, CellType type, Repetition repetition, ThriftCompact& out) {
  out.BeginElement();
  out.I32(1, static_cast<int32_t>(ParquetTypeOf(type)));
  out.I32(3, static_cast<int32_t>(repetition));
  out.Binary(4, name);
  if (type == CellType::kText) AddLogicalType(kString, out);
  out.EndStruct();
}

void AddListSchema(const Column& column, ThriftCompact& out) {
  out.BeginElement();
  out.I32(3, static_cast<int32_t>(Repetition::kRequired));
  out.Binary(4, column.name);
  out.I32(5, 1);
  AddLogicalType(kList, out);
  out.EndStruct();
  out.BeginElement();
  out.I32(3, static_cast<int32_t>(Repetition::kRepeated));
  out.Binary(4, kListNames[0]);
  out.I32(5, 1);
  out.EndStruct();
  AddLeaf(kListNames[1], column.type, Repetition::kRequired, out);
}

void AddSchema(const Table& table, ThriftCompact& out) {
  const auto lists = std::count_if(table.columns.begin(), table.columns.end(),
                                   [](const Column& c) { return c.shape == CellShape::kList; });
  out.BeginList(2, ThriftCompact::Element::kStruct,
                1 + table.columns.size() + std::size(kListNames) * static_cast<size_t>(lists));
  out.BeginElement();
  out.Binary(4, table.name);
  out.I32(5, static_cast<int32_t>(table.columns.size()));
  out.EndStruct();
  for (const Column& column : table.columns) {
    if (column.shape == CellShape::kList) {
      AddListSchema(column, out);
    } else {
      AddLeaf(column.name, column.type, column.may_be_null ? Repetition::kOptional : Repetition::kRequired,
              out);
    }
  }
}

void AddPath(const Column& column, ThriftCompact& out) {
  const bool list = column.shape == CellShape::kList;
  out.BeginList(3, ThriftCompact::Element::kBinary, list ? 1 + std::size(kListNames) : 1);
  out.BinaryElement(column.name);
  if (!list) return;
  for (const std::string_view name : kListNames) out.BinaryElement(name);
}

void AddStatistics(const Column& column, const ParquetChunk& chunk, ThriftCompact& out) {
  // Readers disagree on nulls of lists: some count an empty list.
  if (column.shape == CellShape::kList) return;
  out.BeginStruct(12);
  out.I64(3, static_cast<int64_t>(chunk.nulls));
  if (chunk.most) out.Binary(5, chunk.most->bytes);
  if (chunk.least) out.Binary(6, chunk.least->bytes);
  if (chunk.most) out.Bool(7, chunk.most->exact);
  if (chunk.least) out.Bool(8, chunk.least->exact);
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
      AddPath(column, out);
      out.I32(4, kZstd);
      out.I64(5, static_cast<int64_t>(chunk.values));
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
  out.Binary(6, absl::StrCat("Lockstep (tables version ", kTablesVersion, ")"));
  AddColumnOrders(table_, out);
  return out.Take();
}

}  // namespace lockstep::views
