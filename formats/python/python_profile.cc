#include "formats/python/python_profile.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "capture/store/records_manifest.h"
#include "formats/files/trace_files.h"
#include "formats/python/python_marshal.h"

namespace lockstep::formats {
namespace {

using capture::PythonFunction;
using capture::PythonProfile;
using Kind = PythonValue::Kind;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

// Converts seconds, whole or fractional. False: the value is not a number, or is too large for a time.
bool TimeOf(const PythonValue& value, Nanos& time) {
  const double seconds = value.kind == Kind::kFloat ? value.real : static_cast<double>(value.number);
  if ((value.kind != Kind::kFloat && value.kind != Kind::kInt) || !std::isfinite(seconds) ||
      std::fabs(seconds) > 1e9)
    return false;
  time = Nanos(std::llround(seconds * 1e9));
  return true;
}

// The dict's entries are (file, line, name): (primitive calls, calls, self, total, callers).
bool FunctionOf(const PythonValue& key, const PythonValue& value, PythonFunction& function) {
  if (key.kind != Kind::kTuple || key.items.size() != 3 || value.kind != Kind::kTuple ||
      value.items.size() < 4)
    return false;
  const PythonValue &file = *key.items[0], &line = *key.items[1], &name = *key.items[2];
  const PythonValue &primitive = *value.items[0], &calls = *value.items[1];
  if (file.kind != Kind::kText || line.kind != Kind::kInt || name.kind != Kind::kText ||
      primitive.kind != Kind::kInt || calls.kind != Kind::kInt)
    return false;
  function.file = file.text;
  function.line = line.number;
  function.name = name.text;
  function.primitive_calls = primitive.number;
  function.calls = calls.number;
  return TimeOf(*value.items[2], function.self) && TimeOf(*value.items[3], function.total);
}

absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  const InputFile file = OpenInputFile(path);
  if (!file.fd.ok()) return absl::InvalidArgumentError(absl::StrCat(path, " ", file.why));
  if (file.bytes > kMostBytes)
    return absl::InvalidArgumentError(absl::StrCat(path, " is too large for a profile"));
  std::optional<std::string> text = RestOf(file);
  if (!text) return absl::InvalidArgumentError(absl::StrCat(path, " cannot be read: ", std::strerror(errno)));
  return *std::move(text);
}

// Reads the rank from a file name of users, or of records/.
std::optional<RankId> RankOf(const std::string& path) {
  const auto owner = capture::ParseTraceFileName(std::filesystem::path(path).filename().string());
  if (owner && owner->rank >= RankId(0)) return owner->rank;
  return RankInFileName(path);
}

}  // namespace

absl::StatusOr<PythonProfile> ParsePythonProfile(std::string_view bytes, const std::string& path) {
  auto value = ReadMarshal(bytes);
  if (!value.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a cProfile profile: ", value.status().message()));
  }
  if ((*value)->kind != Kind::kDict)
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a cProfile profile: it holds no table"));
  PythonProfile profile;
  for (size_t i = 0; i + 1 < (*value)->items.size(); i += 2) {
    PythonFunction function;
    if (FunctionOf(*(*value)->items[i], *(*value)->items[i + 1], function)) {
      profile.functions.push_back(std::move(function));
    } else {
      ++profile.unreadable;
    }
  }
  return profile;
}

std::vector<std::string> PythonProfilesIn(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  for (const fs::path& place :
       {fs::path(folder) / "profiles", fs::path(folder) / "records", fs::path(folder)}) {
    for (const fs::directory_entry& entry : FolderEntries(place)) {
      if (entry.path().extension() == ".cprofile") found.push_back(entry.path().string());
    }
    if (!found.empty()) break;
  }
  return found;
}

absl::StatusOr<std::vector<PythonProfile>> ReadPythonProfiles(const std::vector<std::string>& paths) {
  std::vector<std::string> sorted = paths;
  std::sort(sorted.begin(), sorted.end(), NaturallyBefore);
  std::vector<PythonProfile> profiles;
  std::set<RankId> seen;
  for (const std::string& path : sorted) {
    const auto bytes = ReadWhole(path);
    if (!bytes.ok()) return bytes.status();
    auto parsed = ParsePythonProfile(*bytes, path);
    if (!parsed.ok()) return parsed.status();
    PythonProfile& profile = *parsed;
    profile.rank = RankOf(path).value_or(RankId(static_cast<int32_t>(profiles.size())));
    if (!seen.insert(profile.rank).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": there is another profile of rank ",
                                                     profile.rank.value(), "; give one file per rank"));
    }
    profiles.push_back(std::move(profile));
  }
  std::sort(profiles.begin(), profiles.end(),
            [](const PythonProfile& a, const PythonProfile& b) { return a.rank < b.rank; });
  return profiles;
}

}  // namespace lockstep::formats
