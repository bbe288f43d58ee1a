#include "formats/files/folder_search.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "formats/common/byte_source.h"
#include "formats/common/foreign_files.h"
#include "formats/files/trace_files.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestFolder = 5;

constexpr std::array<std::string_view, 3> kPacked = {"", ".gz", ".zst"};

bool IsTraceName(std::string_view name) {
  for (std::string_view kind : {".json", ".timeline", ".sqlite"}) {
    for (std::string_view packed : kPacked) {
      if (kind == ".json" && packed == ".zst") continue;
      if (name.ends_with(std::string(kind).append(packed))) return true;
    }
  }
  return false;
}

std::string FirstBytes(const std::string& path, size_t bytes) {
  auto opened = OpenTrace(path);
  return opened.ok() ? Peek(opened->source, bytes) : "";
}

bool IsCsvName(std::string_view name) {
  return std::any_of(kPacked.begin(), kPacked.end(), [name](std::string_view packed) {
    return name.ends_with(std::string(".csv").append(packed));
  });
}

// Tables in CSV are common beside traces, so only nvprof's count.
bool IsNvprofCsv(const std::string& path) {
  return IsCsvName(path) && IsNvprofText(FirstBytes(path, kForeignBytes));
}

// True if an export of the report is beside it: nsys writes job.sqlite for job.nsys-rep.
bool IsExported(const std::string& path, const std::set<std::string>& names) {
  const fs::path report(path);
  if (!HasForeignEnding(path)) return false;
  return std::any_of(kPacked.begin(), kPacked.end(), [&](std::string_view packed) {
    return names.count((report.stem().string() + ".sqlite").append(packed)) != 0;
  });
}

// Reads enough of a file to distinguish a trace from a settings file.
bool LooksLikeTrace(const std::string& path) {
  constexpr size_t kEnough = 256 * 1024;
  if (IsCsvName(path)) return FirstBytes(path, kForeignBytes).find("\"Start\",") != std::string::npos;
  if (path.find(".json") == std::string::npos) return !HasForeignEnding(path);
  const std::string bytes = FirstBytes(path, kEnough);
  const size_t first = bytes.find_first_not_of(" \t\r\n");
  return (first != std::string::npos && bytes[first] == '[') ||
         bytes.find("\"traceEvents\"") != std::string::npos;
}

struct Listing {
  std::vector<std::string> traces;   // in natural order
  std::vector<std::string> folders;  // in natural order
  std::vector<std::string> notes;    // about files with the name of a trace that are not regular files
};

absl::StatusOr<Listing> List(const std::string& folder) {
  std::error_code error;
  Listing listing;
  std::set<std::string> names;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const std::string name = it->path().filename().string();
    if (it->is_directory(ignored)) {
      if (!name.starts_with(".")) listing.folders.push_back(it->path().string());
    } else if (it->is_regular_file(ignored) &&
               (IsTraceName(name) || HasForeignEnding(name) || IsNvprofCsv(it->path().string()))) {
      listing.traces.push_back(it->path().string());
      names.insert(name);
    } else if (IsTraceName(name) && !it->is_regular_file(ignored)) {
      const std::string path = it->path().string();
      listing.notes.push_back(absl::StrCat(path, " ", OpenInputFile(path).why, " (left out)"));
    }
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat(folder, " cannot be listed: ", error.message()));
  std::erase_if(listing.traces, [&names](const std::string& path) { return IsExported(path, names); });
  std::sort(listing.traces.begin(), listing.traces.end(), NaturallyBefore);
  std::sort(listing.folders.begin(), listing.folders.end(), NaturallyBefore);
  std::sort(listing.notes.begin(), listing.notes.end());
  return listing;
}

// Searches through folders level by level.
class Search {
 public:
  explicit Search(size_t most_folders) : most_folders_(most_folders) {}

  // `top` itself is not listed again.
  absl::Status Below(const std::string& top, std::vector<std::string> level) {
    (void)Enter(top);
    for (int depth = 1; depth <= kDeepestFolder && !level.empty(); ++depth) {
      std::vector<std::string> next;
      for (const std::string& folder : level) {
        if (!Enter(folder)) continue;
        if (entered_.size() > most_folders_) {
          return absl::InvalidArgumentError(absl::StrCat(top, " holds more than ", most_folders_,
                                                         " folders; give the folder of one job's traces"));
        }
        Take(folder, next);
      }
      level = std::move(next);
    }
    if (!level.empty()) too_deep_ = level.front();
    return absl::OkStatus();
  }

  std::vector<std::string> traces;
  std::vector<std::string> captures;
  std::vector<std::string> notes;
  const std::string& too_deep() const { return too_deep_; }  // a folder below the deepest level; empty: none

 private:
  // A link may lead back to a folder that was read before.
  bool Enter(const std::string& folder) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    return !error && entered_.insert(real.string()).second;
  }
  void Take(const std::string& folder, std::vector<std::string>& next) {
    if (IsCaptureFolder(folder)) {
      captures.push_back(folder);
      return;
    }
    auto listing = List(folder);
    if (!listing.ok()) {
      notes.push_back(absl::StrCat(listing.status().message(), " (left out)"));
      return;
    }
    traces.insert(traces.end(), listing->traces.begin(), listing->traces.end());
    next.insert(next.end(), listing->folders.begin(), listing->folders.end());
    notes.insert(notes.end(), listing->notes.begin(), listing->notes.end());
  }

  const size_t most_folders_;
  std::set<std::string> entered_;
  std::string too_deep_;
};

std::string NoTraces(const std::string& folder, const Search& inside, const std::vector<std::string>& notes) {
  std::string remedy = "give a folder with one trace per rank";
  if (!notes.empty()) {
    remedy = notes.front();
  } else if (!inside.captures.empty()) {
    remedy = absl::StrCat("it holds the capture ", inside.captures.front(), ": give that folder");
  } else if (!inside.too_deep().empty()) {
    remedy = absl::StrCat("folders more than ", kDeepestFolder,
                          " levels inside it are not searched: give one such as ", inside.too_deep());
  }
  return absl::StrCat(folder,
                      " holds no capture, no .json or .json.gz trace, no .timeline, no .sqlite of Nsight "
                      "Systems and no .csv of nvprof, "
                      "nor do the folders inside it; ",
                      remedy);
}

}  // namespace

bool IsCaptureFolder(const std::string& folder) {
  std::error_code error;
  const fs::path path(folder);
  return fs::is_directory(path / "records", error) || fs::exists(path / "manifest.json", error);
}

absl::StatusOr<FoundTraces> FindTraces(const std::string& folder, size_t most_folders) {
  auto top = List(folder);
  if (!top.ok()) return top.status();
  // A capture folder without its records may still hold its traces.
  std::error_code error;
  if (fs::is_directory(fs::path(folder) / "traces", error)) {
    if (auto inner = List((fs::path(folder) / "traces").string()); inner.ok() && !inner->traces.empty())
      return FoundTraces{std::move(inner->traces), std::move(inner->notes)};
  }
  Search search(most_folders);
  if (absl::Status s = search.Below(folder, std::move(top->folders)); !s.ok()) return s;
  FoundTraces found{std::move(top->traces), std::move(top->notes)};
  if (search.traces.empty()) {
    found.notes.insert(found.notes.end(), search.notes.begin(), search.notes.end());
    if (found.paths.empty()) return absl::InvalidArgumentError(NoTraces(folder, search, found.notes));
    return found;
  }
  if (std::any_of(found.paths.begin(), found.paths.end(), LooksLikeTrace)) {
    found.notes.push_back(absl::StrCat("the ", search.traces.size(), " traces in folders inside ", folder,
                                       " are left out, because it holds traces itself"));
    return found;
  }
  found.paths.insert(found.paths.end(), search.traces.begin(), search.traces.end());
  found.notes.insert(found.notes.end(), search.notes.begin(), search.notes.end());
  for (const std::string& capture : search.captures)
    found.notes.push_back(absl::StrCat(capture, " is a capture (left out); give it alone"));
  return found;
}

}  // namespace lockstep::formats
