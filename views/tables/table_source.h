// Describes how a table is made: each column has a description and a function that takes its value from a
// row.
//
//   TableOf<report::BreakdownRow>{{"step_breakdown", "…"}, &EachBreakdown,
//     {Make<R>("rank", "", "…", [](const R& r) { return r.rank; }), …}};
#ifndef LOCKSTEP_VIEWS_TABLES_TABLE_SOURCE_H_
#define LOCKSTEP_VIEWS_TABLES_TABLE_SOURCE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "report/report.h"
#include "views/tables/table.h"

namespace lockstep::views {

// The source of all rows; it outlives the writing. `capture` is Finish()ed, and `analysis` is its analysis.
struct Input {
  const capture::Capture& capture;
  const report::Analysis& analysis;
};

// Called from time to time with the number of rows written, from the writing thread. It may be empty.
using RowsWritten = std::function<void(uint64_t rows)>;

// Read-only. Any thread may use it.
class TableSource {
 public:
  virtual ~TableSource() = default;
  virtual const Table& table() const = 0;
  // Returns an upper limit of the number of rows, for progress only.
  virtual uint64_t ExpectedRows(const Input& input) const = 0;
  // Writes all rows in their order, then calls Finish().
  virtual absl::Status Write(const Input& input, TableSink& sink, const RowsWritten& written = {}) const = 0;
};

// Collects rows and passes them on as batches. The first error ends all output, and Finish() returns it.
template <typename Row>
class RowSink {
 public:
  using Fill = void (*)(std::span<const Row> rows, Cells& cells);

  RowSink(TableSink& sink, std::vector<Fill> fills, const RowsWritten& written)
      : sink_(sink), written_(written), fills_(std::move(fills)), cells_(fills_.size()) {}

  void Add(const Row& row) {
    rows_.push_back(row);
    if (rows_.size() == kBatchRows) Flush();
  }
  absl::Status Finish() {
    Flush();
    return status_.ok() ? sink_.Finish() : status_;
  }
  // True after an error. Further rows are then dropped.
  bool failed() const { return !status_.ok(); }

  // Must be called before data that the rows point to is destroyed.
  void Flush() {
    if (rows_.empty() || !status_.ok()) return rows_.clear();
    for (size_t i = 0; i < fills_.size(); ++i) {
      cells_[i].Clear();
      fills_[i](rows_, cells_[i]);
    }
    status_ = sink_.Append({.rows = rows_.size(), .columns = cells_});
    if (written_) written_(rows_.size());
    rows_.clear();
  }

 private:
  TableSink& sink_;
  const RowsWritten& written_;
  std::vector<Fill> fills_;
  std::vector<Cells> cells_;
  std::vector<Row> rows_;
  absl::Status status_;
};

template <typename Row>
struct ColumnOf {
  Column about;
  typename RowSink<Row>::Fill fill;
};

// Wraps a function for Make().
template <auto function>
struct Named {
  template <typename Row>
  auto operator()(const Row& row) const {
    return function(row);
  }
};

// The column's type, and whether it may be null, follow from the return type of `get`. `get` is
// Named<function>() or a lambda without captures.
template <typename Row, typename Get>
ColumnOf<Row> Make(std::string_view name, std::string_view unit, std::string_view meaning, Get) {
  static_assert(std::is_empty_v<Get>, "created again for each batch, so it cannot hold state");
  using Value = std::remove_cvref_t<std::invoke_result_t<Get, const Row&>>;
  return {{.name = name,
           .unit = unit,
           .meaning = meaning,
           .type = CellTypeOf<Value>::kType,
           .shape = CellTypeOf<Value>::kShape,
           .may_be_null = CellTypeOf<Value>::kMayBeNull},
          [](std::span<const Row> rows, Cells& cells) {
            for (const Row& row : rows) cells.Add(Get{}(row));
          }};
}

struct TableTitle {
  std::string_view name;
  std::string_view meaning;
};

template <typename Row>
class TableOf final : public TableSource {
 public:
  // Adds every row, in order.
  using Each = void (*)(const Input& input, RowSink<Row>& out);
  using Count = uint64_t (*)(const Input& input);

  TableOf(TableTitle title, Count count, Each each, std::vector<ColumnOf<Row>> columns)
      : count_(count), each_(each) {
    table_ = {.name = title.name, .meaning = title.meaning};
    for (ColumnOf<Row>& column : columns) {
      table_.columns.push_back(column.about);
      fills_.push_back(column.fill);
    }
  }

  const Table& table() const override { return table_; }
  uint64_t ExpectedRows(const Input& input) const override { return count_(input); }
  absl::Status Write(const Input& input, TableSink& sink, const RowsWritten& written) const override {
    RowSink<Row> out(sink, fills_, written);
    each_(input, out);
    return out.Finish();
  }

 private:
  Table table_;
  Count count_;
  Each each_;
  std::vector<typename RowSink<Row>::Fill> fills_;
};

// A table whose rows already exist. Their texts point into data that outlives the table, or into the rows
// themselves.
template <typename Row>
class RowsTable final : public TableSource {
 public:
  RowsTable(TableTitle title, std::vector<Row> rows, std::vector<ColumnOf<Row>> columns)
      : rows_(std::move(rows)) {
    table_ = {.name = title.name, .meaning = title.meaning};
    for (ColumnOf<Row>& column : columns) {
      table_.columns.push_back(column.about);
      fills_.push_back(column.fill);
    }
  }

  const Table& table() const override { return table_; }
  uint64_t ExpectedRows(const Input&) const override { return rows_.size(); }
  absl::Status Write(const Input&, TableSink& sink, const RowsWritten& written) const override {
    return Write(sink, written);
  }
  absl::Status Write(TableSink& sink, const RowsWritten& written = {}) const {
    RowSink<Row> out(sink, fills_, written);
    for (const Row& row : rows_) out.Add(row);
    return out.Finish();
  }

 private:
  Table table_;
  std::vector<typename RowSink<Row>::Fill> fills_;
  std::vector<Row> rows_;
};

using Sources = std::vector<std::unique_ptr<TableSource>>;

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_TABLE_SOURCE_H_
