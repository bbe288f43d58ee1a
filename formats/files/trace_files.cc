#include "formats/files/trace_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "formats/files/folder_search.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

std::string_view DigitsAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && absl::ascii_isdigit(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string_view WithoutZeros(std::string_view digits) {
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

std::string_view LastPart(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::optional<RankId> NumberAfter(std::string_view name, std::string_view word, bool separator) {
  for (size_t at = name.find(word); at != std::string_view::npos; at = name.find(word, at + 1)) {
    size_t digits_at = at + word.size();
    if (separator && digits_at < name.size() && (name[digits_at] == '-' || name[digits_at] == '_'))
      ++digits_at;
    const std::string_view digits = DigitsAt(name, digits_at);
    int32_t rank = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (!digits.empty() && error == std::errc()) return RankId(rank);
  }
  return std::nullopt;
}

absl::Status AddFolder(const std::string& folder, InputFiles& input) {
  if (IsCaptureFolder(folder)) {
    input.captures.push_back(folder);
    return absl::OkStatus();
  }
  auto found = FindTraces(folder);
  if (!found.ok()) return found.status();
  for (std::string& path : found->paths) {
    std::string inside = path.substr(std::min(path.size(), folder.size()));
    input.traces.push_back({std::move(path), false, std::move(inside)});
  }
  input.notes.insert(input.notes.end(), found->notes.begin(), found->notes.end());
  return absl::OkStatus();
}

// Sets `inside` of the files that the command line names.
void FindSharedFolder(std::vector<TraceFile>& traces) {
  std::optional<std::string_view> shared;
  for (const TraceFile& file : traces) {
    if (!file.named) continue;
    std::string_view folder(file.path);
    folder = folder.substr(0, folder.size() - LastPart(folder).size());
    if (!shared) shared = folder;
    const auto [end, ignored] = std::mismatch(shared->begin(), shared->end(), folder.begin(), folder.end());
    std::string_view same = shared->substr(0, static_cast<size_t>(end - shared->begin()));
    // Only whole names are shared: "a/rank_1/" and "a/rank_12/" share "a/".
    shared = same.substr(0, same.rfind('/') + 1);
  }
  for (TraceFile& file : traces) {
    if (file.named) file.inside = file.path.substr(shared->size());
  }
}

}  // namespace

bool NaturallyBefore(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const std::string_view x = DigitsAt(a, i);
    const std::string_view y = DigitsAt(b, j);
    if (!x.empty() && !y.empty()) {
      const std::string_view p = WithoutZeros(x);
      const std::string_view q = WithoutZeros(y);
      if (p.size() != q.size()) return p.size() < q.size();
      if (p != q) return p < q;
      i += x.size();
      j += y.size();
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  if ((i == a.size()) != (j == b.size())) return i == a.size();
  return a < b;  // equal except for leading zeros; any fixed order is correct
}

std::optional<RankId> RankInFileName(std::string_view path) {
  const std::string_view name = LastPart(path);
  if (auto rank = NumberAfter(name, "rank", true)) return rank;
  return NumberAfter(name, "worker", false);
}

std::optional<RankId> RankOf(const TraceFile& file) {
  if (auto rank = RankInFileName(file.path)) return rank;
  std::string_view folders(file.inside);
  while (!folders.empty()) {
    folders = folders.substr(0, folders.size() - LastPart(folders).size());
    if (!folders.empty()) folders.remove_suffix(1);
    if (auto rank = RankInFileName(folders)) return rank;
  }
  return std::nullopt;
}

std::string NodeInFileName(std::string_view path) {
  std::string_view name = LastPart(path);
  if (name.find(".pt.trace.json") == std::string_view::npos) return "";
  const std::string_view worker = name.substr(0, name.find('.'));
  const size_t underscore = worker.rfind('_');
  if (underscore == std::string_view::npos || underscore == 0) return "";
  const std::string_view number = worker.substr(underscore + 1);
  if (number.empty() || !std::all_of(number.begin(), number.end(), absl::ascii_isdigit)) return "";
  const std::string_view node = worker.substr(0, underscore);
  // In "worker0_step_12" the number counts steps, not the processes of a node.
  if (RankInFileName(node)) return "";
  return std::string(node);
}

std::string WorkerInFileName(std::string_view path) {
  const std::string_view name = LastPart(path);
  const size_t ending = name.find(".pt.trace.json");
  if (ending == std::string_view::npos) return std::string(name);
  const std::string_view before = name.substr(0, ending);
  const size_t dot = before.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::string(name);
  const std::string_view number = before.substr(dot + 1);
  if (number.empty() || !std::all_of(number.begin(), number.end(), absl::ascii_isdigit))
    return std::string(name);
  return std::string(before.substr(0, dot));
}

std::string WorkerOf(const TraceFile& file, std::optional<RankId> declared_rank) {
  if (declared_rank) return absl::StrCat("rank ", declared_rank->value());
  if (const auto rank = RankOf(file)) return absl::StrCat("rank ", rank->value());
  std::string worker = WorkerInFileName(file.path);
  // A name in another form may be the same in every folder.
  return file.path.ends_with(worker) ? file.path : worker;
}

absl::StatusOr<InputFiles> FindInputFiles(std::span<const std::string> paths) {
  InputFiles input;
  if (paths.empty())
    return absl::InvalidArgumentError(
        "nothing to read: give a capture folder, a folder of traces, or trace files");
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found) {
      return absl::InvalidArgumentError(absl::StrCat(path, " does not exist; check the path"));
    }
    if (status.type() == fs::file_type::none)
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.message()));
    if (status.type() == fs::file_type::directory) {
      if (absl::Status added = AddFolder(path, input); !added.ok()) return added;
    } else {
      input.traces.push_back({path, true, ""});
    }
  }
  FindSharedFolder(input.traces);
  std::stable_sort(input.traces.begin(), input.traces.end(),
                   [](const TraceFile& a, const TraceFile& b) { return NaturallyBefore(a.path, b.path); });
  const auto same = [](const TraceFile& a, const TraceFile& b) { return a.path == b.path; };
  input.traces.erase(std::unique(input.traces.begin(), input.traces.end(), same), input.traces.end());
  return input;
}

}  // namespace lockstep::formats
