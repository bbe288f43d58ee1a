#include "views/tables/grid.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/settings/nearest_word.h"

namespace lockstep::views {
namespace {

// Returns a < b for two cells that are not null.
bool Less(const Cells& cells, CellType type, size_t a, size_t b) {
  switch (type) {
    case CellType::kText:
      return cells.texts()[a] < cells.texts()[b];
    case CellType::kDouble:
      return cells.doubles()[a] < cells.doubles()[b];
    default:
      return cells.numbers()[a] < cells.numbers()[b];
  }
}

bool Holds(const Cells& cells, CellType type, size_t row, std::string_view wanted) {
  const auto is = [&](auto value) {
    char digits[32];
    return std::string_view(digits, static_cast<size_t>(
                                        std::to_chars(digits, digits + sizeof digits, value).ptr - digits)) ==
           wanted;
  };
  switch (type) {
    case CellType::kText:
      return cells.texts()[row].find(wanted) != std::string_view::npos;
    case CellType::kDouble:
      return is(cells.doubles()[row]);
    case CellType::kBool:
      return wanted == (cells.numbers()[row] != 0 ? "true" : "false");
    default:
      return is(cells.numbers()[row]);
  }
}

}  // namespace

Grid::Grid(const Table& table) : table_(table), cells_(table.columns.size()) {}

absl::Status Grid::Append(const Batch& batch) {
  for (size_t row = 0; row < batch.rows; ++row) {
    order_.push_back(static_cast<uint32_t>(order_.size()));
    for (size_t c = 0; c < cells_.size(); ++c)
      cells_[c].AddFrom(batch.columns[c], row, table_.columns[c].type);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> Grid::Find(std::string_view column) const {
  for (size_t c = 0; c < table_.columns.size(); ++c) {
    if (table_.columns[c].name == column) return c;
  }
  std::vector<std::string> names;
  for (const Column& c : table_.columns) names.emplace_back(c.name);
  return absl::InvalidArgumentError(absl::StrCat("unknown column ", std::string(column), "; there are ",
                                                 absl::StrJoin(names, ", "),
                                                 settings::DidYouMean(column, names)));
}

absl::Status Grid::SortBy(std::string_view column, SortOrder order) {
  const auto place = Find(column);
  if (!place.ok()) return place.status();
  const Cells& cells = cells_[*place];
  const CellType type = table_.columns[*place].type;
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    if (cells.IsNull(a) || cells.IsNull(b)) return !cells.IsNull(a) && cells.IsNull(b);
    return order == SortOrder::kAscending ? Less(cells, type, a, b) : Less(cells, type, b, a);
  });
  return absl::OkStatus();
}

absl::Status Grid::Select(const std::vector<std::string_view>& columns) {
  std::vector<size_t> places;
  for (const std::string_view column : columns) {
    const auto place = Find(column);
    if (!place.ok()) return place.status();
    if (std::find(places.begin(), places.end(), *place) == places.end()) places.push_back(*place);
  }
  std::vector<Column> chosen;
  std::vector<Cells> cells;
  for (const size_t place : places) {
    chosen.push_back(table_.columns[place]);
    cells.push_back(std::move(cells_[place]));
  }
  table_.columns = std::move(chosen);
  cells_ = std::move(cells);
  return absl::OkStatus();
}

void Grid::KeepWhere(std::string_view column, const std::set<int64_t>& numbers) {
  const auto place = Find(column);
  if (!place.ok()) return;
  const Cells& cells = cells_[*place];
  std::erase_if(order_,
                [&](uint32_t row) { return !cells.IsNull(row) && !numbers.contains(cells.numbers()[row]); });
}

absl::Status Grid::KeepHolding(std::string_view column, std::string_view wanted) {
  const auto place = Find(column);
  if (!place.ok()) return place.status();
  const Cells& cells = cells_[*place];
  const CellType type = table_.columns[*place].type;
  std::erase_if(order_, [&](uint32_t row) { return cells.IsNull(row) || !Holds(cells, type, row, wanted); });
  return absl::OkStatus();
}

void Grid::Truncate(size_t rows) {
  if (rows < order_.size()) order_.resize(rows);
}

absl::Status Grid::Write(TableSink& sink) const {
  std::vector<Cells> out(cells_.size());
  for (size_t from = 0; from < order_.size(); from += kBatchRows) {
    const size_t to = std::min(order_.size(), from + kBatchRows);
    for (size_t c = 0; c < out.size(); ++c) {
      out[c].Clear();
      for (size_t i = from; i < to; ++i) out[c].AddFrom(cells_[c], order_[i], table_.columns[c].type);
    }
    if (absl::Status s = sink.Append({.rows = to - from, .columns = out}); !s.ok()) return s;
  }
  return sink.Finish();
}

}  // namespace lockstep::views
