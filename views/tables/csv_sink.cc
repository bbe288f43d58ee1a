#include "views/tables/csv_sink.h"

#include <charconv>

#include "base/json/json_string.h"

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

// Adds a value that is not a text.
void AddValue(const Cells& cells, size_t place, CellType type, std::string& out) {
  if (type == CellType::kBool) {
    out.append(cells.numbers()[place] != 0 ? "true" : "false");
  } else if (type == CellType::kDouble) {
    AddNumber(cells.doubles()[place], out);
  } else {
    AddNumber(cells.numbers()[place], out);
  }
}

std::string JsonList(const Cells& cells, size_t row, CellType type) {
  const auto [first, end] = cells.ElementsOf(row);
  std::string out = "[";
  for (size_t i = first; i < end; ++i) {
    if (i != first) out.push_back(',');
    if (type == CellType::kText) {
      AppendJsonString(cells.texts()[i], out);
    } else {
      AddValue(cells, i, type, out);
    }
  }
  out.push_back(']');
  return out;
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
  if (column.shape == CellShape::kList) return AddText(JsonList(cells, row, column.type));
  if (column.type == CellType::kText) return AddText(cells.texts()[row]);
  AddValue(cells, row, column.type, text_);
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
