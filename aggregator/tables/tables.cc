#include "aggregator/tables/tables.h"

namespace lockstep::tables {
namespace {

struct ColumnRow {
  const Table* table;
  const Column* column;
};

std::string_view TypeName(CellType type) {
  constexpr std::string_view kNames[] = {"bool", "int32", "int64", "double", "text"};
  return kNames[static_cast<size_t>(type)];
}

std::vector<ColumnOf<ColumnRow>> ColumnsOfColumns() {
  using R = ColumnRow;
  return {
      Make<R>("table", "", "file that has the column", [](const R& r) { return r.table->name; }),
      Make<R>("column", "", "its name there", [](const R& r) { return r.column->name; }),
      Make<R>("type", "", "bool, int32, int64, double, text", [](const R& r) { return TypeName(r.column->type); }),
      Make<R>("unit", "", "null: none",
              [](const R& r) { return r.column->unit.empty() ? std::nullopt : std::optional(r.column->unit); }),
      Make<R>("may_be_null", "", "null is unknown or does not apply, never 0", [](const R& r) { return r.column->may_be_null; }),
      Make<R>("meaning", "", "in words", [](const R& r) { return r.column->meaning; }),
  };
}

class ColumnsSource final : public TableSource {
 public:
  explicit ColumnsSource(const Sources& sources) : columns_(ColumnsOfColumns()) {
    table_ = {.name = "columns", .meaning = "The columns of all other tables."};
    for (const ColumnOf<ColumnRow>& column : columns_) table_.columns.push_back(column.about);
    for (const auto& source : sources) {
      for (const Column& column : source->table().columns) rows_.push_back({&source->table(), &column});
    }
  }

  const Table& table() const override { return table_; }
  uint64_t ExpectedRows(const Input&) const override { return rows_.size(); }
  absl::Status Write(const Input&, TableSink& sink, const RowsWritten& written) const override {
    std::vector<RowSink<ColumnRow>::Fill> fills;
    for (const ColumnOf<ColumnRow>& column : columns_) fills.push_back(column.fill);
    RowSink<ColumnRow> out(sink, std::move(fills), written);
    for (const ColumnRow& row : rows_) out.Add(row);
    return out.Finish();
  }

 private:
  Table table_;
  std::vector<ColumnOf<ColumnRow>> columns_;
  std::vector<ColumnRow> rows_;
};

}  // namespace

std::unique_ptr<TableSource> ColumnsTable(const Sources& sources) { return std::make_unique<ColumnsSource>(sources); }

Sources AllTables() {
  Sources sources;
  AddReportTables(sources);
  AddCollectiveTables(sources);
  AddEventTables(sources);
  AddNcclTables(sources);
  sources.push_back(ColumnsTable(sources));
  return sources;
}

}  // namespace lockstep::tables
