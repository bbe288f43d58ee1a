// CsvSink writes a table as comma-separated values: RFC 4180, UTF-8, one header line (docs/formats/csv.md).
#ifndef LOCKSTEP_VIEWS_TABLES_CSV_SINK_H_
#define LOCKSTEP_VIEWS_TABLES_CSV_SINK_H_

#include <string>

#include "base/files/byte_sink.h"
#include "views/tables/table.h"

namespace lockstep::views {

// Null is an empty field, an empty text is "", and a list is a JSON array. CsvSink::Finish() does not finish
// `sink`.
class CsvSink final : public TableSink {
 public:
  // `table` and `sink` outlive it. The header is written with the first rows, or by Finish().
  CsvSink(const Table& table, ByteSink& sink);

  absl::Status Append(const Batch& batch) override;
  absl::Status Finish() override;

 private:
  absl::Status FlushAt(size_t bytes);
  void AddCell(const Column& column, const Cells& cells, size_t row);
  void AddText(std::string_view text);

  const Table& table_;
  ByteSink& sink_;
  std::string text_;
};

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_TABLES_CSV_SINK_H_
