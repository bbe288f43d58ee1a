// A table held in memory, to be sorted, cut and printed: what a view shows.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_GRID_H_
#define LOCKSTEP_AGGREGATOR_TABLES_GRID_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "views/tables/table.h"

namespace lockstep::tables {

enum class SortOrder : uint8_t { kAscending, kDescending };

// A sink that keeps what it is given. One thread.
class Grid final : public TableSink {
 public:
  explicit Grid(const Table& table);

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override { return absl::OkStatus(); }

  const Table& table() const { return table_; }
  size_t rows() const { return order_.size(); }
  const Cells& cells(size_t column) const { return cells_[column]; }
  // Where the row that is shown at `place` lies in cells().
  size_t RowAt(size_t place) const { return order_[place]; }

  // Stable; unknown values come last either way. kInvalidArgument: no such column; the sentence lists them.
  absl::Status SortBy(std::string_view column, SortOrder order);
  // Only these, in this order; all columns are still there for SortBy() before it. kInvalidArgument as above.
  absl::Status Select(const std::vector<std::string_view>& columns);
  void Truncate(size_t rows);
  // Only rows with one of these numbers in that column, or with none; all where there is no such column.
  void KeepWhere(std::string_view column, const std::set<int64_t>& numbers);

  // Only rows whose cell in that column holds `wanted`: a text somewhere in it, a number or truth value as
  // CSV writes it; an unknown value holds nothing. kInvalidArgument as above.
  absl::Status KeepHolding(std::string_view column, std::string_view wanted);

  // Everything that is left, in its order, then Finish().
  absl::Status Write(TableSink& sink) const;

  // Place of a column; kInvalidArgument as above.
  absl::StatusOr<size_t> Find(std::string_view column) const;

 private:
  Table table_;
  std::vector<Cells> cells_;
  std::vector<uint32_t> order_;
};

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_GRID_H_
