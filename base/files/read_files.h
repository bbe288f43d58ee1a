// Reads files and folders that may disappear meanwhile, such as those of a process in /proc. The standard
// library's iterators then throw. These functions throw only if memory runs out. Any thread may call them.
#ifndef LOCKSTEP_BASE_FILES_READ_FILES_H_
#define LOCKSTEP_BASE_FILES_READ_FILES_H_

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

// Returns the whole content, even if the file reports another size. Returns nullopt if the file cannot be
// read to its end; errno then has the reason.
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

// Returns the entries in no defined order. If an error stops the reading, it returns the entries read so far.
inline std::vector<std::filesystem::directory_entry> FolderEntries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::directory_entry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(*it);
  return entries;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_READ_FILES_H_
