// Files and folders that may go away while they are read, as those of a process do when it ends: the standard
// library's iterators throw then. Nothing here throws but for want of memory. Any thread.
#ifndef LOCKSTEP_COMMON_BASE_READ_FILES_H_
#define LOCKSTEP_COMMON_BASE_READ_FILES_H_

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/fd.h"

namespace lockstep {

// All that the file holds, whatever size it says it has. Nothing where it cannot be read to its end: errno
// says why.
inline std::optional<std::string> FileText(const std::string& path) {
  constexpr size_t kPart = 16 * 1024;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return std::nullopt;
  std::string text;
  while (true) {
    const size_t length = text.size();
    text.resize(length + kPart);
    const ssize_t n = ::read(file.get(), text.data() + length, kPart);
    if (n < 0 && errno != EINTR) return std::nullopt;
    text.resize(length + static_cast<size_t>(n < 0 ? 0 : n));
    if (n == 0) return text;
  }
}

// In no order. Of a folder that cannot be read, or not to its end: what came before.
inline std::vector<std::filesystem::directory_entry> FolderEntries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::directory_entry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(*it);
  return entries;
}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_BASE_READ_FILES_H_
