#include "history/export_parquet.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "base/files/file_sink.h"
#include "base/rpc/status_macros.h"
#include "history/tables.h"
#include "views/tables/parquet_sink.h"
#include "views/tables/table_source.h"

namespace lockstep::history {
namespace {

absl::CivilMonth MonthOf(JobTime time) {
  return absl::ToCivilMonth(absl::FromUnixNanos(time.ns()), absl::UTCTimeZone());
}
JobTime BeginOf(absl::CivilMonth month) {
  return JobTime(absl::ToUnixNanos(absl::FromCivil(month, absl::UTCTimeZone())));
}

views::Table ParquetTableOf(const HistoryTable& table) {
  views::Table made{.name = table.name, .meaning = table.meaning, .columns = {}};
  for (const TableColumn& column : table.columns) {
    made.columns.push_back({.name = column.name,
                            .unit = column.unit,
                            .meaning = column.meaning,
                            .type = column.type == ColumnType::kText   ? views::CellType::kText
                                    : column.type == ColumnType::kReal ? views::CellType::kDouble
                                                                       : views::CellType::kInt64,
                            .shape = views::CellShape::kSingle,
                            .may_be_null = column.null == ColumnNull::kUnknown});
  }
  return made;
}

template <typename T>
std::optional<T> CellOf(const Value& value) {
  const T* cell = std::get_if<T>(&value);
  return cell == nullptr ? std::nullopt : std::optional(*cell);
}

// A column that is never null has 0 or an empty text if another program wrote a null.
template <typename T>
void AddCell(std::optional<T> cell, ColumnNull null, views::Cells& cells) {
  if (null == ColumnNull::kNever) return cells.Add(std::move(cell).value_or(T()));
  cells.Add(std::move(cell));
}

void FillCells(const HistoryTable& table, const std::vector<Row>& rows, size_t first, size_t end,
               std::vector<views::Cells>& columns) {
  for (size_t c = 0; c < columns.size(); ++c) {
    const TableColumn& about = table.columns[c];
    columns[c].Clear();
    for (size_t row = first; row < end; ++row) {
      const Value& value = rows[row][c];
      switch (about.type) {
        case ColumnType::kText:
          AddCell(CellOf<std::string>(value), about.null, columns[c]);
          break;
        case ColumnType::kWhole:
          AddCell(CellOf<int64_t>(value), about.null, columns[c]);
          break;
        case ColumnType::kReal:
          AddCell(CellOf<double>(value), about.null, columns[c]);
          break;
      }
    }
  }
}

absl::Status WriteParquetFile(const HistoryTable& table, const std::vector<Row>& rows,
                              const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot create ", folder, ": ", error.message()));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> file, OpenAtomicFile(folder + "/data.parquet"));
  const views::Table about = ParquetTableOf(table);
  views::ParquetSink sink(about, *file);
  std::vector<views::Cells> columns(about.columns.size());
  for (size_t first = 0; first < rows.size(); first += views::kBatchRows) {
    const size_t end = std::min(rows.size(), first + views::kBatchRows);
    FillCells(table, rows, first, end, columns);
    LOCKSTEP_RETURN_IF_ERROR(sink.Append({.rows = end - first, .columns = columns}));
  }
  LOCKSTEP_RETURN_IF_ERROR(sink.Finish());
  return file->Finish();
}

}  // namespace

absl::StatusOr<Exported> ExportParquet(HistoryStore& store, const std::string& folder) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<CaptureHead> captures, store.Captures({}));
  std::set<absl::CivilMonth> months;
  for (const CaptureHead& capture : captures) months.insert(MonthOf(capture.captured));
  Exported exported{.captures = static_cast<int64_t>(captures.size())};
  for (const absl::CivilMonth month : months) {
    for (const HistoryTable& table : HistoryTables()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Row> rows,
                                store.Rows(table, BeginOf(month), BeginOf(month + 1)));
      const std::string place =
          absl::StrCat(folder, "/", table.name, "/month=", absl::FormatCivilTime(month));
      LOCKSTEP_RETURN_IF_ERROR(WriteParquetFile(table, rows, place));
      ++exported.files;
    }
  }
  return exported;
}

}  // namespace lockstep::history
