#include "aggregator/retention.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/folder_size.h"
#include "base/files/own_folder.h"
#include "base/files/read_files.h"

namespace lockstep::aggregator {
namespace {

namespace fs = std::filesystem;

// Capture names never begin with this prefix.
constexpr char kRemovingPrefix[] = ".removing-";

// Length of the part of a capture's name that gives the second of its begin.
constexpr size_t kSecondLength = sizeof("20260301-120000") - 1;

struct Kept {
  std::string name;
  uint64_t bytes = 0;
  fs::file_time_type changed;
  std::string_view second() const { return std::string_view(name).substr(0, kSecondLength); }
};

// Returns the captures, oldest first. The rest of a name is random, so within one second the time of the last
// write decides.
std::vector<Kept> CapturesIn(const std::string& folder) {
  std::vector<Kept> captures;
  std::error_code error;
  for (const fs::directory_entry& entry : FolderEntries(folder)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !IsOwnFolder(entry.path(), OwnFolder::kStoredCapture)) continue;
    captures.push_back({name, FolderBytes(entry.path().string()), entry.last_write_time(error)});
  }
  std::sort(captures.begin(), captures.end(), [](const Kept& a, const Kept& b) {
    return std::forward_as_tuple(a.second(), a.changed, a.name) <
           std::forward_as_tuple(b.second(), b.changed, b.name);
  });
  return captures;
}

StoreUse UseOf(const std::vector<Kept>& captures) {
  StoreUse use;
  use.captures = captures.size();
  for (const Kept& capture : captures) use.bytes += capture.bytes;
  return use;
}

// Removes captures that an earlier process had renamed but not removed.
void RemoveLeftovers(const std::string& folder) {
  for (const fs::directory_entry& entry : FolderEntries(folder)) {
    if (entry.path().filename().string().starts_with(kRemovingPrefix))
      RemoveOwnFolder(entry.path(), OwnFolder::kStoredCapture).IgnoreError();
  }
}

absl::Status Remove(const std::string& folder, const std::string& name) {
  std::error_code error;
  const fs::path renamed = fs::path(folder) / absl::StrCat(kRemovingPrefix, name);
  fs::rename(fs::path(folder) / name, renamed, error);
  if (error) return absl::InternalError(error.message());
  return RemoveOwnFolder(renamed, OwnFolder::kStoredCapture);
}

bool IsOld(const std::string& name, const Retention& limits, std::optional<JobTime> now) {
  const std::optional<JobTime> begun = CaptureTime(name);
  return limits.age && now && begun && *now - *begun > *limits.age;
}

}  // namespace

std::optional<JobTime> CaptureTime(const std::string& name) {
  std::tm utc = {};
  int read = 0;
  if (std::sscanf(name.c_str(), "%4d%2d%2d-%2d%2d%2d-%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
                  &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &read) != 6 ||
      read != 16) {
    return std::nullopt;
  }
  utc.tm_year -= 1900;
  utc.tm_mon -= 1;
  const std::tm written = utc;
  const std::time_t seconds = ::timegm(&utc);
  // timegm accepts day 40 of a month and converts it to a day of the next month.
  if (seconds < 0 || utc.tm_mday != written.tm_mday || utc.tm_mon != written.tm_mon ||
      utc.tm_hour != written.tm_hour)
    return std::nullopt;
  return JobTime(static_cast<int64_t>(seconds) * 1'000'000'000);
}

StoreUse MeasureStore(const std::string& folder) { return UseOf(CapturesIn(folder)); }

Retired Retire(const std::string& folder, const Retention& limits, std::optional<JobTime> now,
               aggregator::CaptureUse& use, const std::function<bool(const std::string&)>& in_use) {
  RemoveLeftovers(folder);
  const std::vector<Kept> captures = CapturesIn(folder);
  Retired retired;
  StoreUse& left = retired.left;
  left = UseOf(captures);
  for (size_t i = 0; i < captures.size(); ++i) {
    const Kept& capture = captures[i];
    const bool newest = i + 1 == captures.size();
    const char* reason = IsOld(capture.name, limits, now)             ? "age"
                         : !newest && left.captures > limits.captures ? "captures"
                         : !newest && left.bytes > limits.bytes       ? "bytes"
                                                                      : nullptr;
    if (reason == nullptr || in_use(capture.name) || !use.BeginRemoval(capture.name)) continue;
    const absl::Status removed = Remove(folder, capture.name);
    use.EndRemoval(capture.name);
    if (!removed.ok()) {
      retired.failed.push_back(absl::StrCat("capture ", capture.name, " cannot be removed from ", folder,
                                            ": ", removed.message()));
      continue;
    }
    --left.captures;
    left.bytes -= capture.bytes;
    retired.captures.push_back({capture.name, capture.bytes, reason});
  }
  return retired;
}

bool ClockStepDetector::IsReliable(JobTime now, MonoTime mono) {
  const Nanos difference = Nanos(now.ns() - mono.ns());
  const bool steady =
      !difference_ || std::max(difference - *difference_, *difference_ - difference) <= kLargestStep;
  difference_ = difference;
  return steady;
}

}  // namespace lockstep::aggregator
