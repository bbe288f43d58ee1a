#include "views/tables/write_tables.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files/file_sink.h"
#include "formats/common/write_progress.h"
#include "views/tables/csv_sink.h"
#include "views/tables/parquet_sink.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kGzip = ".gz";

std::string_view EndingOf(TableFormat format) { return format == TableFormat::kCsv ? ".csv" : ".parquet"; }

bool IsCompressed(TableFormat format, std::string_view output) {
  return format == TableFormat::kCsv && output.ends_with(".csv.gz");
}

bool IsOneFile(TableFormat format, std::string_view output) {
  return IsCompressed(format, output) || output.ends_with(EndingOf(format));
}

// Returns the table with the file's name.
absl::StatusOr<const TableSource*> FindTable(const Sources& sources, TableFormat format,
                                             std::string_view output) {
  const std::string file = std::filesystem::path(output).filename().string();
  const size_t ending = EndingOf(format).size() + (IsCompressed(format, output) ? kGzip.size() : 0);
  const std::string name = file.substr(0, file.size() - ending);
  for (const auto& source : sources) {
    if (source->table().name == name) return source.get();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("-o ", std::string(output), " is one file and \"", name,
                   "\" is not a table: give a folder for all of them, or one of ",
                   absl::StrJoin(sources, ", ", [](std::string* out, const auto& s) {
                     absl::StrAppend(out, std::string(s->table().name));
                   })));
}

absl::Status WriteFile(const TableSource& source, const Input& input, TableFormat format,
                       const std::string& path, const RowsWritten& written) {
  auto file = OpenAtomicFile(path);
  if (!file.ok()) return file.status();
  const std::unique_ptr<ByteSink> bytes =
      IsCompressed(format, path) ? GzipSink(*std::move(file)) : *std::move(file);
  std::unique_ptr<TableSink> sink;
  if (format == TableFormat::kCsv) {
    sink = std::make_unique<CsvSink>(source.table(), *bytes);
  } else {
    sink = std::make_unique<ParquetSink>(source.table(), *bytes);
  }
  if (absl::Status s = source.Write(input, *sink, written); !s.ok()) return s;
  return bytes->Finish();
}

}  // namespace

absl::Status WriteTables(const Input& input, TableFormat format, const std::string& output,
                         const formats::WriteProgress& progress) {
  const Sources all = AllTables();
  std::vector<const TableSource*> chosen;
  const bool one_file = IsOneFile(format, output);
  if (one_file) {
    const auto found = FindTable(all, format, output);
    if (!found.ok()) return found.status();
    chosen.push_back(*found);
  } else {
    for (const auto& source : all) chosen.push_back(source.get());
    std::error_code error;
    std::filesystem::create_directories(output, error);
    if (error)
      return absl::PermissionDeniedError(absl::StrCat("cannot create ", output, ": ", error.message()));
  }
  uint64_t total = 0;
  for (const TableSource* source : chosen) total += source->ExpectedRows(input);
  uint64_t before = 0;
  for (const TableSource* source : chosen) {
    uint64_t here = 0;
    const RowsWritten written = [&](uint64_t rows) {
      here += rows;
      if (progress) progress(before + here, total);
    };
    const std::string path = one_file ? output
                                      : absl::StrCat(output, "/", std::string(source->table().name),
                                                     std::string(EndingOf(format)));
    if (absl::Status s = WriteFile(*source, input, format, path, written); !s.ok()) return s;
    before += source->ExpectedRows(input);
    if (progress) progress(before, total);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::views
