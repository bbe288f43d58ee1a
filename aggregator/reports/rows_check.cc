#include "aggregator/reports/rows_check.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "base/ids.h"
#include "capture/store/records_blocks.h"
#include "capture/store/records_manifest.h"

namespace lockstep::aggregator {

absl::Status CheckRows(const std::string& folder, uint64_t most) {
  uint64_t total = 0;
  std::map<RankId, uint64_t> of_rank;
  for (const std::filesystem::directory_entry& entry : FolderEntries(folder + "/records")) {
    const std::optional<capture::RecordsFile> file =
        capture::ParseRecordsFileName(entry.path().filename().string());
    if (!file) continue;
    const std::optional<std::string> bytes = FileText(entry.path().string());
    if (!bytes) continue;
    const capture::RowCounts rows = capture::CountRows(capture::WalkBlocks(*bytes).blocks);
    const uint64_t here = std::accumulate(rows.begin(), rows.end(), uint64_t{0});
    total += here;
    of_rank[file->rank] += here;
  }
  if (total <= most) return absl::OkStatus();
  const auto largest = std::max_element(of_rank.begin(), of_rank.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  return absl::ResourceExhaustedError(absl::StrCat(
      "the capture has ", total, " rows, ", largest->second, " of them of ",
      largest->first == kNoRank ? "a process without a rank" : absl::StrCat("rank ", largest->first.value()),
      ", and may have ", most, " (--analysis-rows)"));
}

}  // namespace lockstep::aggregator
