#include "aggregator/retention.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/folder_size.h"
#include "base/files/own_folder.h"
#include "base/files/read_files.h"
#include "capture/store/records_manifest.h"

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
  bool removed = false;
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
    captures.push_back({name, FolderBytes(entry.path().string()), entry.last_write_time(error), false});
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

// Returns the user of the capture's job, or nothing if its manifest cannot be read.
std::optional<uint32_t> OwnerOf(const std::string& folder) {
  for (const char* name : {capture::kManifestName, capture::kOpenManifestName}) {
    const auto manifest =
        capture::ParseManifest(FileText(absl::StrCat(folder, "/records/", name)).value_or(""));
    if (manifest.ok()) return manifest->uid;
  }
  return std::nullopt;
}

// The captures of a folder, oldest first, while some are removed.
class Removal {
 public:
  Removal(std::string folder, std::vector<Kept> captures, aggregator::CaptureUse& use,
          const std::function<bool(const std::string&)>& in_use)
      : folder_(std::move(folder)), captures_(std::move(captures)), use_(use), in_use_(in_use) {
    retired_.left = UseOf(captures_);
  }

  template <typename Which>
  void RemoveAll(const char* reason, const Which& which) {
    for (Kept& capture : captures_) {
      if (which(capture)) Remove(capture, reason);
    }
  }

  // Removes the oldest while `exceeded` is true of those that are left, but not the newest.
  template <typename Exceeded>
  void RemoveOldest(const char* reason, const Exceeded& exceeded) {
    for (size_t i = 0; i + 1 < captures_.size() && exceeded(retired_.left); ++i) Remove(captures_[i], reason);
  }

  void RemoveUsersOldest(uint64_t most_bytes) {
    // The manifests matter only if one user could have that much.
    if (retired_.left.bytes <= most_bytes) return;
    std::map<uint32_t, std::vector<Kept*>> of_user;
    for (Kept& capture : captures_) {
      const std::optional<uint32_t> owner = OwnerOf(absl::StrCat(folder_, "/", capture.name));
      if (owner && !capture.removed) of_user[*owner].push_back(&capture);
    }
    for (const auto& [user, captures] : of_user) {
      uint64_t bytes = 0;
      for (const Kept* capture : captures) bytes += capture->bytes;
      for (size_t i = 0; i + 1 < captures.size() && bytes > most_bytes; ++i) {
        if (Remove(*captures[i], "user_bytes")) bytes -= captures[i]->bytes;
      }
    }
  }

  const Retired& retired() const { return retired_; }

 private:
  // Returns true if it removed the capture. One that is used or that was removed stays as it is.
  bool Remove(Kept& capture, const char* reason) {
    if (capture.removed || in_use_(capture.name) || !use_.BeginRemoval(capture.name)) return false;
    const absl::Status removed = aggregator::Remove(folder_, capture.name);
    use_.EndRemoval(capture.name);
    if (!removed.ok()) {
      retired_.failed.push_back(absl::StrCat("capture ", capture.name, " cannot be removed from ", folder_,
                                             ": ", removed.message()));
      return false;
    }
    capture.removed = true;
    --retired_.left.captures;
    retired_.left.bytes -= capture.bytes;
    retired_.captures.push_back({capture.name, capture.bytes, reason});
    return true;
  }

  const std::string folder_;
  std::vector<Kept> captures_;
  aggregator::CaptureUse& use_;
  const std::function<bool(const std::string&)>& in_use_;
  Retired retired_;
};

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
               const std::set<std::string>& surplus, aggregator::CaptureUse& use,
               const std::function<bool(const std::string&)>& in_use) {
  RemoveLeftovers(folder);
  Removal removal(folder, CapturesIn(folder), use, in_use);
  const auto old = [&](const Kept& capture) { return IsOld(capture.name, limits, now); };
  removal.RemoveAll("recording", [&](const Kept& capture) { return surplus.contains(capture.name); });
  removal.RemoveAll("age", old);
  removal.RemoveUsersOldest(limits.user_bytes);
  removal.RemoveOldest("captures", [&](const StoreUse& left) { return left.captures > limits.captures; });
  removal.RemoveOldest("bytes", [&](const StoreUse& left) { return left.bytes > limits.bytes; });
  return removal.retired();
}

bool ClockStepDetector::IsReliable(JobTime now, MonoTime mono) {
  const Nanos difference = Nanos(now.ns() - mono.ns());
  const bool steady =
      !difference_ || std::max(difference - *difference_, *difference_ - difference) <= kLargestStep;
  difference_ = difference;
  return steady;
}

}  // namespace lockstep::aggregator
