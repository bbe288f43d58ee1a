#include "views/tables/partitioned_parquet.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/file_sink.h"

namespace lockstep::views {
namespace {

constexpr std::string_view kRank = "rank";

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

}  // namespace

bool HasRanks(const Table& table) {
  return std::any_of(table.columns.begin(), table.columns.end(),
                     [](const Column& c) { return c.name == kRank; });
}

std::string FolderValue(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (IsPlain(c) && !(out.empty() && c == '.')) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kHex[byte >> 4]);
    out.push_back(kHex[byte & 15]);
  }
  return out;
}

struct PartitionedParquet::Partition {
  std::unique_ptr<ByteSink> file;
  std::optional<ParquetSink> sink;
  std::vector<Cells> cells;
  size_t rows = 0;  // in `cells`
};

PartitionedParquet::PartitionedParquet(const Table& table, std::string folder, size_t most_rows)
    : table_(table), folder_(std::move(folder)), most_rows_(most_rows), table_of_rank_(table) {
  while (table.columns[rank_column_].name != kRank) ++rank_column_;
  table_of_rank_.columns.erase(table_of_rank_.columns.begin() + static_cast<ptrdiff_t>(rank_column_));
}

PartitionedParquet::~PartitionedParquet() = default;

absl::StatusOr<PartitionedParquet::Partition*> PartitionedParquet::PartitionOf(int64_t rank) {
  std::unique_ptr<Partition>& place = partitions_[rank];
  if (place != nullptr) return place.get();
  const std::string folder = absl::StrCat(folder_, "/rank=", rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return absl::PermissionDeniedError(absl::StrCat("cannot create ", folder, ": ", error.message()));
  auto file = OpenAtomicFile(absl::StrCat(folder, "/data.parquet"));
  if (!file.ok()) return file.status();
  place = std::make_unique<Partition>();
  place->file = *std::move(file);
  place->sink.emplace(table_of_rank_, *place->file);
  place->cells = std::vector<Cells>(table_of_rank_.columns.size());
  return place.get();
}

absl::Status PartitionedParquet::Append(const Batch& batch) {
  for (size_t row = 0; row < batch.rows; ++row) {
    const auto partition = PartitionOf(batch.columns[rank_column_].numbers()[row]);
    if (!partition.ok()) return partition.status();
    size_t to = 0;
    for (size_t c = 0; c < batch.columns.size(); ++c) {
      if (c == rank_column_) continue;
      (*partition)->cells[to++].AddFrom(batch.columns[c], row, table_.columns[c].type);
    }
    ++(*partition)->rows;
    ++rows_;
    if ((*partition)->rows < kBatchRows && rows_ < most_rows_) continue;
    Partition& largest =
        *std::max_element(partitions_.begin(), partitions_.end(), [](const auto& a, const auto& b) {
           return a.second->rows < b.second->rows;
         })->second;
    if (absl::Status s = Flush(largest); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status PartitionedParquet::Flush(Partition& partition) {
  if (partition.rows == 0) return absl::OkStatus();
  absl::Status status = partition.sink->Append({.rows = partition.rows, .columns = partition.cells});
  for (Cells& cells : partition.cells) cells.Clear();
  rows_ -= std::exchange(partition.rows, 0);
  return status;
}

absl::Status PartitionedParquet::Finish() {
  for (const auto& [rank, partition] : partitions_) {
    if (absl::Status s = Flush(*partition); !s.ok()) return s;
    if (absl::Status s = partition->sink->Finish(); !s.ok()) return s;
    if (absl::Status s = partition->file->Finish(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::views
