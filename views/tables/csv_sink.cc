#include "views/tables/csv_sink.h"

#include <charconv>

namespace lockstep::views {
namespace {

constexpr size_t kFlushBytes = 128 * 1024;
constexpr std::string_view kLineEnd = "\r\n";

// For doubles, to_chars writes the shortest text that reads back as the same value.
template <typename T>
void AddNumber(T value, std::string& out) {
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

}  // namespace

CsvSink::CsvSink(const Table& table, ByteSink& sink) : table_(table), sink_(sink) {
  text_.reserve(kFlushBytes + 4096);
  for (const Column& column : table.columns) {
    if (&column != &table.columns.front()) text_.push_back(',');
    text_.append(column.name);
  }
  text_.append(kLineEnd);
}

void CsvSink::AddText(std::string_view text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string_view::npos) {
    text_.append(text);
    return;
  }
  text_.push_back('"');
  for (const char c : text) {
    if (c == '"') text_.push_back('"');
    text_.push_back(c);
  }
  text_.push_back('"');
}

void CsvSink::AddCell(const Column& column, const Cells& cells, size_t row) {
  if (cells.IsNull(row)) return;
  switch (column.type) {
    case CellType::kBool:
      text_.append(cells.numbers()[row] != 0 ? "true" : "false");
      return;
    case CellType::kInt32:
    case CellType::kInt64:
      return AddNumber(cells.numbers()[row], text_);
    case CellType::kDouble:
      return AddNumber(cells.doubles()[row], text_);
    case CellType::kText:
      return AddText(cells.texts()[row]);
  }
}

absl::Status CsvSink::FlushAt(size_t bytes) {
  if (text_.size() < bytes) return absl::OkStatus();
  absl::Status status = sink_.Append(text_);
  text_.clear();
  return status;
}

absl::Status CsvSink::Append(const Batch& batch) {
  for (size_t row = 0; row < batch.rows; ++row) {
    for (size_t i = 0; i < batch.columns.size(); ++i) {
      if (i != 0) text_.push_back(',');
      AddCell(table_.columns[i], batch.columns[i], row);
    }
    text_.append(kLineEnd);
    if (absl::Status s = FlushAt(kFlushBytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status CsvSink::Finish() { return FlushAt(1); }

}  // namespace lockstep::views
