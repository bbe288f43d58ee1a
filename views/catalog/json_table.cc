#include "views/catalog/json_table.h"

#include "base/json/json_out.h"

namespace lockstep::views {
namespace {

void AddCell(const Column& column, const Cells& cells, size_t row, JsonOut& out) {
  if (cells.IsNull(row)) return out.Null();
  switch (column.type) {
    case CellType::kBool:
      return out.Value(cells.numbers()[row] != 0);
    case CellType::kDouble:
      return out.Value(cells.doubles()[row]);
    case CellType::kText:
      return out.Value(cells.texts()[row]);
    default:
      return out.Value(cells.numbers()[row]);
  }
}

}  // namespace

std::string JsonTable(std::string_view name, const MadeView& view) {
  JsonOut out;
  const Grid& grid = view.grid;
  out.BeginObject();
  out.Member("view", name);
  out.Key("columns").BeginArray();
  for (const Column& column : grid.table().columns) {
    out.BeginObject();
    out.Member("name", column.name);
    out.Member("unit", column.unit);
    out.Member("meaning", column.meaning);
    out.EndObject();
  }
  out.EndArray();
  out.Key("rows").BeginArray();
  for (size_t place = 0; place < grid.rows(); ++place) {
    out.BeginObject();
    for (size_t c = 0; c < grid.table().columns.size(); ++c) {
      out.Key(grid.table().columns[c].name);
      AddCell(grid.table().columns[c], grid.cells(c), grid.RowAt(place), out);
    }
    out.EndObject();
  }
  out.EndArray();
  out.Member("notes", view.notes);
  out.EndObject();
  return out.Take();
}

}  // namespace lockstep::views
