#include "formats/common/trace_files.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

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

bool IsTraceName(std::string_view name) {
  for (std::string_view end : {".json", ".json.gz", ".timeline", ".timeline.gz", ".timeline.zst", ".sqlite",
                               ".sqlite.gz", ".sqlite.zst"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> TracesIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (IsTraceName(it->path().filename().string()) && it->is_regular_file(ignored))
      found.push_back(it->path().string());
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat(folder, " cannot be listed: ", error.message()));
  return found;
}

std::string NoTraces(const std::string& folder) {
  std::error_code error;
  std::string sub_folder;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) continue;
    const std::string path = it->path().string();
    if (sub_folder.empty() || NaturallyBefore(path, sub_folder)) sub_folder = path;
  }
  const std::string remedy =
      sub_folder.empty()
          ? "give a folder with one trace per rank"
          : absl::StrCat("folders inside it are not searched: give one of them, such as ", sub_folder);
  return absl::StrCat(
      folder,
      " holds no capture, no .json or .json.gz trace, no .timeline and no .sqlite of Nsight Systems; ",
      remedy);
}

absl::Status AddFolder(const std::string& folder, InputFiles& input) {
  std::error_code error;
  const fs::path path(folder);
  if (fs::is_directory(path / "records", error) || fs::exists(path / "manifest.json", error)) {
    input.captures.push_back(folder);
    return absl::OkStatus();
  }
  auto traces = TracesIn(folder);
  if (!traces.ok()) return traces.status();
  // A capture folder without its records may still hold its traces.
  if (fs::is_directory(path / "traces", error)) {
    if (auto inner = TracesIn((path / "traces").string()); inner.ok() && !inner->empty())
      traces = std::move(inner);
  }
  if (traces->empty()) return absl::InvalidArgumentError(NoTraces(folder));
  for (std::string& trace : *traces) input.traces.push_back({std::move(trace), false});
  return absl::OkStatus();
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
      input.traces.push_back({path, true});
    }
  }
  std::stable_sort(input.traces.begin(), input.traces.end(),
                   [](const TraceFile& a, const TraceFile& b) { return NaturallyBefore(a.path, b.path); });
  const auto same = [](const TraceFile& a, const TraceFile& b) { return a.path == b.path; };
  input.traces.erase(std::unique(input.traces.begin(), input.traces.end(), same), input.traces.end());
  return input;
}

}  // namespace lockstep::formats
