#include "base/files/folder_size.h"

#include <filesystem>

namespace lockstep {

namespace fs = std::filesystem;

uint64_t FolderBytes(const std::string& folder) {
  uint64_t total = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); it != fs::recursive_directory_iterator();
       it.increment(error)) {
    if (error) break;
    if (!it->is_regular_file(error) || it->is_symlink(error)) continue;
    const uint64_t size = it->file_size(error);
    if (!error) total += size;
  }
  return total;
}

}  // namespace lockstep
