#include "aggregator/retention.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "aggregator/store/folder_size.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// Name and bytes, oldest first.
std::vector<std::pair<std::string, uint64_t>> CapturesIn(const std::string& folder) {
  std::vector<std::pair<std::string, uint64_t>> captures;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) {
      captures.emplace_back(entry.path().filename().string(), store::FolderBytes(entry.path().string()));
    }
  }
  std::sort(captures.begin(), captures.end());
  return captures;
}

StoreUse UseOf(const std::vector<std::pair<std::string, uint64_t>>& captures) {
  StoreUse use;
  use.captures = captures.size();
  for (const auto& capture : captures) use.bytes += capture.second;
  return use;
}

}  // namespace

StoreUse MeasureStore(const std::string& folder) { return UseOf(CapturesIn(folder)); }

Retired Retire(const std::string& folder, const Retention& limits, const std::function<bool(const std::string&)>& in_use) {
  const std::vector<std::pair<std::string, uint64_t>> captures = CapturesIn(folder);
  Retired retired;
  StoreUse& left = retired.left;
  left = UseOf(captures);
  std::error_code error;
  for (size_t i = 0; i + 1 < captures.size() && (left.captures > limits.captures || left.bytes > limits.bytes); ++i) {
    const auto& [name, size] = captures[i];
    if (in_use(name)) continue;
    fs::remove_all(fs::path(folder) / name, error);
    if (error) continue;
    --left.captures;
    left.bytes -= size;
    retired.bytes += size;
    retired.names.push_back(name);
  }
  return retired;
}

}  // namespace lockstep
