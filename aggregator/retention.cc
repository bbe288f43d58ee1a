#include "aggregator/retention.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

uint64_t BytesBelow(const fs::path& folder) {
  uint64_t total = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (error) break;
    if (it->is_regular_file(error) && !it->is_symlink(error)) total += it->file_size(error);
  }
  return total;
}

}  // namespace

std::vector<std::string> Retire(const std::string& folder, const Retention& limits,
                                const std::function<bool(const std::string&)>& in_use) {
  std::vector<std::pair<std::string, uint64_t>> captures;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      captures.emplace_back(entry.path().filename().string(), BytesBelow(entry.path()));
    }
  }
  std::sort(captures.begin(), captures.end());
  uint64_t bytes = 0;
  for (const auto& capture : captures) bytes += capture.second;
  std::vector<std::string> removed;
  size_t left = captures.size();
  for (size_t i = 0; i + 1 < captures.size() && (left > limits.captures || bytes > limits.bytes); ++i) {
    const auto& [name, size] = captures[i];
    if (in_use(name)) continue;
    fs::remove_all(fs::path(folder) / name, error);
    if (error) continue;
    --left;
    bytes -= size;
    removed.push_back(name);
  }
  return removed;
}

}  // namespace lockstep
