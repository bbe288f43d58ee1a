// How a table is made: a list of columns that each say what they are and how to take their value out of a
// row.
//
//   TableOf<report::BreakdownRow>{{"step_breakdown", "…"}, &EachBreakdown,
//     {Make<R>("rank", "", "…", [](const R& r) { return r.rank; }), …}};
#ifndef LOCKSTEP_AGGREGATOR_TABLES_TABLE_SOURCE_H_
#define LOCKSTEP_AGGREGATOR_TABLES_TABLE_SOURCE_H_

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

namespace lockstep::tables {

// What rows are made from; all of it outlives the writing. `capture` is Finish()ed and the one `analysis` is
// of.
struct Input {
  const store::Capture& capture;
  const report::Analysis& analysis;
};

// Called with how many rows were written, now and then, from the writing thread. May be empty.
using RowsWritten = std::function<void(uint64_t rows)>;

// Read-only, any thread.
class TableSource {
 public:
  virtual ~TableSource() = default;
  virtual const Table& table() const = 0;
  // At most as many rows as there will be; only for showing progress.
  virtual uint64_t ExpectedRows(const Input& input) const = 0;
  // All rows in their order, then Finish().
  virtual absl::Status Write(const Input& input, TableSink& sink, const RowsWritten& written = {}) const = 0;
};

// Collects rows and hands them on as batches. The first error is kept and ends all output.
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
  // Nothing that is added any more would arrive.
  bool failed() const { return !status_.ok(); }

  // Before anything goes away that rows point to.
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

// A function by its name, as Make() takes it.
template <auto function>
struct Named {
  template <typename Row>
  auto operator()(const Row& row) const {
    return function(row);
  }
};

// Type and whether it may be null follow from what `get` returns. `get` is Named<function>() or a lambda
// without captures.
template <typename Row, typename Get>
ColumnOf<Row> Make(std::string_view name, std::string_view unit, std::string_view meaning, Get) {
  static_assert(std::is_empty_v<Get>, "made anew for each batch: it can hold nothing");
  using Value = std::remove_cvref_t<std::invoke_result_t<Get, const Row&>>;
  return {{.name = name,
           .unit = unit,
           .meaning = meaning,
           .type = CellTypeOf<Value>::kType,
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

// A table whose rows are there already. Their texts point into what outlives it, or into the rows themselves.
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

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_TABLE_SOURCE_H_
