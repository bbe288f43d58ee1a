#include "views/tables/write_tables.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files/file_sink.h"
#include "base/files/read_files.h"
#include "formats/common/write_progress.h"
#include "views/tables/csv_sink.h"
#include "views/tables/parquet_sink.h"
#include "views/tables/partitioned_parquet.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kGzip = ".gz";
constexpr char kPartitionFile[] = "/data.parquet";

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

absl::Status CreateFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("cannot create ", path, ": ", error.message()));
}

using WriteOne = std::function<absl::Status(const TableSource& source, const RowsWritten& written)>;

// Calls `write` for each table, and reports the progress of all of them.
absl::Status WriteEach(const Input& input, const std::vector<const TableSource*>& tables,
                       const formats::WriteProgress& progress, const WriteOne& write) {
  uint64_t total = 0;
  for (const TableSource* source : tables) total += source->ExpectedRows(input);
  uint64_t before = 0;
  for (const TableSource* source : tables) {
    uint64_t here = 0;
    const RowsWritten written = [&](uint64_t rows) {
      here += rows;
      if (progress) progress(before + here, total);
    };
    if (absl::Status s = write(*source, written); !s.ok()) return s;
    before += source->ExpectedRows(input);
    if (progress) progress(before, total);
  }
  return absl::OkStatus();
}

std::vector<const TableSource*> PointersTo(const Sources& sources) {
  std::vector<const TableSource*> out;
  for (const auto& source : sources) out.push_back(source.get());
  return out;
}

}  // namespace

absl::Status WriteTables(const Input& input, TableFormat format, const std::string& output,
                         const formats::WriteProgress& progress) {
  const Sources all = AllTables();
  if (IsOneFile(format, output)) {
    const auto found = FindTable(all, format, output);
    if (!found.ok()) return found.status();
    return WriteEach(input, {*found}, progress, [&](const TableSource& source, const RowsWritten& written) {
      return WriteFile(source, input, format, output, written);
    });
  }
  if (absl::Status s = CreateFolder(output); !s.ok()) return s;
  return WriteEach(
      input, PointersTo(all), progress, [&](const TableSource& source, const RowsWritten& written) {
        const std::string path =
            absl::StrCat(output, "/", std::string(source.table().name), std::string(EndingOf(format)));
        return WriteFile(source, input, format, path, written);
      });
}

std::vector<std::string> PartitionFolders(const std::string& output, std::string_view capture) {
  std::vector<std::string> folders;
  for (const auto& source : AllTables()) {
    folders.push_back(
        absl::StrCat(output, "/", std::string(source->table().name), "/capture=", FolderValue(capture)));
  }
  return folders;
}

absl::Status RemovePartition(const std::string& folder) {
  std::vector<std::string> folders = {folder};
  std::error_code error;
  for (const std::filesystem::directory_entry& entry : FolderEntries(folder)) {
    if (entry.path().filename().string().starts_with("rank=")) folders.push_back(entry.path().string());
  }
  for (auto at = folders.rbegin(); at != folders.rend() && !error; ++at) {
    std::filesystem::remove(*at + kPartitionFile, error);
    std::error_code not_empty;
    if (!error) std::filesystem::remove(*at, not_empty);
  }
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("cannot replace ", folder, ": ", error.message()));
}

absl::Status WritePartitions(const Input& input, const std::string& output,
                             const formats::WriteProgress& progress) {
  const Sources all = AllTables();
  const std::vector<std::string> folders = PartitionFolders(output, input.capture.id);
  size_t next = 0;
  return WriteEach(
      input, PointersTo(all), progress, [&](const TableSource& source, const RowsWritten& written) {
        const std::string& folder = folders[next++];
        if (absl::Status s = CreateFolder(folder); !s.ok()) return s;
        if (!HasRanks(source.table()))
          return WriteFile(source, input, TableFormat::kParquet, folder + kPartitionFile, written);
        PartitionedParquet sink(source.table(), folder);
        return source.Write(input, sink, written);
      });
}

}  // namespace lockstep::views
