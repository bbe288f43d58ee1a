// A table as comma-separated values: RFC 4180, UTF-8, one header line (docs/formats/csv.md).
#ifndef LOCKSTEP_AGGREGATOR_TABLES_CSV_SINK_H_
#define LOCKSTEP_AGGREGATOR_TABLES_CSV_SINK_H_

#include <string>

#include "base/files/byte_sink.h"
#include "views/tables/table.h"

namespace lockstep::tables {

// Null is an empty field, an empty text is "". Finish() leaves `sink` unfinished.
class CsvSink final : public TableSink {
 public:
  // Both outlive it. The header is written with the first rows, or in Finish().
  CsvSink(const Table& table, store::ByteSink& sink);

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override;

 private:
  absl::Status FlushAt(size_t bytes);
  void AddCell(const Column& column, const Cells& cells, size_t row);
  void AddText(std::string_view text);

  const Table& table_;
  store::ByteSink& sink_;
  std::string text_;
};

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_CSV_SINK_H_
