#include "views/tables/tables.h"

#include "absl/strings/str_cat.h"

namespace lockstep::views {
namespace {

struct ColumnRow {
  const Table* table;
  const Column* column;
};

std::string TypeName(const Column& column) {
  constexpr std::string_view kNames[] = {"bool", "int32", "int64", "double", "text"};
  return absl::StrCat(std::string(kNames[static_cast<size_t>(column.type)]),
                      column.shape == CellShape::kList ? "[]" : "");
}

std::vector<ColumnOf<ColumnRow>> ColumnsOfColumns() {
  using R = ColumnRow;
  return {
      Make<R>("table_name", "", "table with the column", [](const R& r) { return r.table->name; }),
      Make<R>("column_name", "", "name of the column", [](const R& r) { return r.column->name; }),
      Make<R>("type", "", "bool, int32, int64, double, text; followed by [] for a list",
              [](const R& r) { return TypeName(*r.column); }),
      Make<R>(
          "unit", "", "unit; null: none",
          [](const R& r) { return r.column->unit.empty() ? std::nullopt : std::optional(r.column->unit); }),
      Make<R>("may_be_null", "", "true if null occurs, which means unknown or not applicable, never 0",
              [](const R& r) { return r.column->may_be_null; }),
      Make<R>("meaning", "", "description of the column", [](const R& r) { return r.column->meaning; }),
  };
}

}  // namespace

std::unique_ptr<TableSource> ColumnsTable(const Sources& sources) {
  std::vector<ColumnRow> rows;
  for (const auto& source : sources) {
    for (const Column& column : source->table().columns) rows.push_back({&source->table(), &column});
  }
  return std::make_unique<RowsTable<ColumnRow>>(TableTitle{"columns", "The columns of all other tables."},
                                                std::move(rows), ColumnsOfColumns());
}

Sources AllTables() {
  Sources sources;
  AddReportTables(sources);
  AddCollectiveTables(sources);
  AddEventTables(sources);
  AddNcclTables(sources);
  sources.push_back(ColumnsTable(sources));
  return sources;
}

}  // namespace lockstep::views
