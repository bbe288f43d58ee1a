// Grid holds the table of a view in memory, to sort, cut and print it.
#ifndef LOCKSTEP_VIEWS_TABLES_GRID_H_
#define LOCKSTEP_VIEWS_TABLES_GRID_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "views/tables/table.h"

namespace lockstep::views {

enum class SortOrder : uint8_t { kAscending, kDescending };

// A sink that keeps its rows. No column holds lists. One thread.
class Grid final : public TableSink {
 public:
  explicit Grid(const Table& table);

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override { return absl::OkStatus(); }

  const Table& table() const { return table_; }
  size_t rows() const { return order_.size(); }
  const Cells& cells(size_t column) const { return cells_[column]; }
  // Returns the index in cells() of the row shown at `place`.
  size_t RowAt(size_t place) const { return order_[place]; }

  // The sort is stable. Nulls come last in both orders. kInvalidArgument: the column does not exist; the
  // error lists the columns.
  absl::Status SortBy(std::string_view column, SortOrder order);
  // Keeps only these columns, in this order. SortBy() must come before it if it needs another column.
  // kInvalidArgument: as SortBy().
  absl::Status Select(const std::vector<std::string_view>& columns);
  void Truncate(size_t rows);
  // Keeps only rows with one of these numbers in the column, or with null. Keeps all rows if the column does
  // not exist.
  void KeepWhere(std::string_view column, const std::set<int64_t>& numbers);

  // Keeps only rows whose cell in that column holds `wanted`. A text must contain it; a number or boolean
  // must equal it, as CSV writes it. Rows with null are dropped. kInvalidArgument: as SortBy().
  absl::Status KeepHolding(std::string_view column, std::string_view wanted);

  // Writes all remaining rows in their order, then calls Finish().
  absl::Status Write(TableSink& sink) const;

  // Returns the place of a column. kInvalidArgument: as SortBy().
  absl::StatusOr<size_t> Find(std::string_view column) const;

 private:
  Table table_;
  std::vector<Cells> cells_;
  std::vector<uint32_t> order_;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_GRID_H_
