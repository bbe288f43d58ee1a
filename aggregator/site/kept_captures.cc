#include "aggregator/site/kept_captures.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/files/folder_size.h"
#include "base/files/read_files.h"
#include "capture/store/records_manifest.h"
#include "simdjson.h"

namespace lockstep::aggregator {
namespace {

namespace fs = std::filesystem;
namespace dom = simdjson::dom;

template <typename T, typename Number>
std::optional<T> Get(const dom::element& from, std::string_view pointer) {
  Number value;
  if (from.at_pointer(pointer).get(value) != simdjson::SUCCESS) return std::nullopt;
  return static_cast<T>(value);
}
std::optional<int64_t> GetWhole(const dom::element& from, std::string_view pointer) {
  return Get<int64_t, int64_t>(from, pointer);
}
std::optional<uint32_t> GetCount(const dom::element& from, std::string_view pointer) {
  return Get<uint32_t, uint64_t>(from, pointer);
}
std::optional<double> GetNumber(const dom::element& from, std::string_view pointer) {
  return Get<double, double>(from, pointer);
}
std::optional<std::string> GetText(const dom::element& from, std::string_view pointer) {
  return Get<std::string, std::string_view>(from, pointer);
}

void AddReport(const dom::element& report, CaptureRow& row) {
  row.job = GetText(report, "/capture/job").value_or("");
  row.text = GetText(report, "/verdict").value_or("");
  row.start_unix_ns = GetWhole(report, "/capture/start_unix_ns");
  if (const auto duration = GetWhole(report, "/capture/duration_ns")) row.duration = Nanos(*duration);
  row.world_size = GetCount(report, "/capture/world_size");
  row.hosts = GetCount(report, "/capture/hosts");
  row.steps = GetCount(report, "/capture/steps");
  row.slowdown_ratio = GetNumber(report, "/slowdown/ratio");
  row.cause = GetText(report, "/stragglers/0/cause");
  row.verdict = GetText(report, "/stragglers/0/verdict");
  row.gain_ns_per_step = GetNumber(report, "/stragglers/0/gain_ns_per_step");
  dom::array list;
  if (report.at_pointer("/stragglers/0/ranks").get(list) == simdjson::SUCCESS) {
    for (const dom::element& rank : list) {
      if (const auto number = GetWhole(rank, "")) row.culprit_ranks.push_back(*number);
    }
  }
  if (report.at_pointer("/capture/missing_ranks").get(list) == simdjson::SUCCESS)
    row.missing_ranks = list.size();
  if (report.at_pointer("/capture/losses").get(list) == simdjson::SUCCESS) {
    row.lost_records = 0;
    for (const dom::element& loss : list)
      *row.lost_records +=
          static_cast<uint64_t>(std::max<int64_t>(GetWhole(loss, "/records").value_or(0), 0));
  }
}

absl::StatusOr<capture::Manifest> ReadManifest(const std::string& folder) {
  absl::Status last;
  for (const char* name : {capture::kManifestName, capture::kOpenManifestName}) {
    simdjson::padded_string text;
    if (simdjson::padded_string::load(absl::StrCat(folder, "/records/", name)).get(text) != simdjson::SUCCESS)
      continue;
    auto manifest = capture::ParseManifest(std::string_view(text));
    if (manifest.ok() || last.ok()) last = manifest.status();
    if (manifest.ok()) return manifest;
  }
  return last.ok() ? absl::NotFoundError("it has no manifest") : last;
}

void AddManifest(const capture::Manifest& manifest, CaptureRow& row) {
  row.job = manifest.job;
  row.uid = manifest.uid;
  if (manifest.world_size > 0) row.world_size = static_cast<uint32_t>(manifest.world_size);
  row.hosts = static_cast<uint32_t>(manifest.hosts.size());
  row.missing_ranks = manifest.missing_ranks.size();
  std::set<RankId> ranks;
  row.records = 0;
  for (const capture::ManifestProcess& process : manifest.processes) {
    ranks.insert(process.rank);
    for (const capture::ManifestFile& file : process.files)
      *row.records += std::accumulate(file.rows.begin(), file.rows.end(), uint64_t{0});
  }
  row.ranks = static_cast<uint32_t>(ranks.size());
  if (manifest.t0 == JobTime()) return;
  row.start_unix_ns = manifest.t0.ns();
  row.duration = manifest.t1 - manifest.t0;
}

// Returns the reason why there is no report.
std::string FailureReason(const absl::StatusOr<capture::Manifest>& manifest, const std::string& folder,
                          const std::string& id) {
  if (!manifest.ok())
    return absl::StrCat("records/manifest.json cannot be used: ", manifest.status().message());
  std::string reason = FileText(absl::StrCat(folder, "/", kNoReportFile)).value_or("");
  while (reason.ends_with('\n')) reason.pop_back();
  const std::string remedy = absl::StrCat(": lockstep report ", id, " makes it from the records");
  if (!reason.empty()) return absl::StrCat("no report was made here, because ", reason, remedy);
  for (const capture::ManifestProcess& process : manifest->processes) {
    if (process.state == "done" || process.text.empty()) continue;
    return absl::StrCat("rank ", process.rank.value(), " ", process.state, ": ", process.text);
  }
  if (manifest->t0 == JobTime()) return "no rank began to record";
  return absl::StrCat("no report was made here", remedy);
}

}  // namespace

void KeptCaptures::Refresh(const std::set<std::string>& running, Nanos at_most) {
  std::vector<std::string> ids;
  std::error_code error;
  for (const fs::directory_entry& entry : FolderEntries(folder_)) {
    std::string id = entry.path().filename().string();
    if (capture::IsPlainFileName(id) && running.count(id) == 0 && entry.is_directory(error) &&
        !entry.is_symlink(error))
      ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end(), std::greater<>());
  const auto here = [&](const std::string& id) {
    return std::binary_search(ids.begin(), ids.end(), id, std::greater<>());
  };
  for (auto row = rows_.begin(); row != rows_.end();)
    row = here(row->first) ? std::next(row) : rows_.erase(row);
  const MonoTime until = now_() + at_most;
  unread_ = 0;
  bool any = false;
  for (const std::string& id : ids) {
    if (rows_.count(id) != 0) continue;
    if (any && now_() >= until) {
      ++unread_;
      continue;
    }
    any = true;
    rows_.emplace(id, Read(id));
  }
}

CaptureRow KeptCaptures::Read(const std::string& id) const {
  const std::string folder = absl::StrCat(folder_, "/", id);
  CaptureRow row;
  row.id = id;
  const absl::StatusOr<capture::Manifest> manifest = ReadManifest(folder);
  if (manifest.ok()) AddManifest(*manifest, row);
  row.bytes = FolderBytes(folder);
  dom::parser parser;
  dom::element report;
  const bool reported = parser.load(folder + "/report.json").get(report) == simdjson::SUCCESS;
  dom::array incomplete;
  bool whole_ranks = true;
  if (reported) {
    AddReport(report, row);
    whole_ranks = report.at_pointer("/capture/incomplete").get(incomplete) != simdjson::SUCCESS ||
                  incomplete.size() == 0;
  }
  if (!reported) row.text = FailureReason(manifest, folder, id);
  const bool whole = manifest.ok() && manifest->complete && row.missing_ranks.value_or(0) == 0 && whole_ranks;
  row.state = !reported ? "failed" : whole ? "done" : "partial";
  std::error_code error;
  for (const std::string_view file : kFiles) {
    if (fs::is_regular_file(fs::path(folder) / file, error)) row.files.emplace_back(file);
  }
  return row;
}

Fd KeptCaptures::Open(const std::string& id, std::string_view file) const {
  const auto row = rows_.find(id);
  if (row == rows_.end() ||
      std::find(row->second.files.begin(), row->second.files.end(), file) == row->second.files.end())
    return Fd();
  return Fd(::open((fs::path(folder_) / id / file).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

}  // namespace lockstep::aggregator
