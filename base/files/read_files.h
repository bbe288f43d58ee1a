// Reads files and folders that may disappear meanwhile, such as those of a process in /proc. The standard
// library's iterators then throw. These functions throw only if memory runs out. Any thread may call them.
#ifndef LOCKSTEP_BASE_FILES_READ_FILES_H_
#define LOCKSTEP_BASE_FILES_READ_FILES_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/fd.h"

namespace lockstep {

// A file that was opened for reading, or the reason why it was not.
struct InputFile {
  Fd fd;
  uint64_t bytes = 0;  // its size; 0 for a pipe
  int error = 0;       // as errno, if `fd` is not ok
  std::string why;     // then the end of a sentence that begins with the path
};

// kOfShell: `program | lockstep ops /dev/stdin` and <(program), whose pipe has a writer.
enum class Pipes : uint8_t { kRefused, kOfShell };

// Returns the kind of a file that has no content of its own.
inline std::string SpecialFileName(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISLNK(mode) ? "a link" : "a device";
}

// Opens a regular file; links are followed. A FIFO without a writer, a device or a socket never makes it
// wait: all of them are refused.
inline InputFile OpenInputFile(const std::string& path, Pipes pipes = Pipes::kRefused) {
  InputFile file;
  file.fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  file.error = file.fd.ok() ? 0 : errno;
  struct stat info = {};
  const bool known = file.fd.ok() ? ::fstat(file.fd.get(), &info) == 0 : ::stat(path.c_str(), &info) == 0;
  if (file.fd.ok() && known && S_ISREG(info.st_mode)) {
    file.bytes = static_cast<uint64_t>(info.st_size);
    return file;
  }
  const bool of_shell =
      path == "/dev/stdin" || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/");
  if (file.fd.ok() && known && S_ISFIFO(info.st_mode) && pipes == Pipes::kOfShell && of_shell) {
    (void)::fcntl(file.fd.get(), F_SETFL, 0);  // reads wait for the writer
    return file;
  }
  file.fd.reset();
  if (known && !S_ISREG(info.st_mode)) {
    file.error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
    file.why = "is " + SpecialFileName(info.st_mode) + ", not a regular file";
  } else if (file.error == ENOENT && ::lstat(path.c_str(), &info) == 0) {
    file.why = "is a link to a file that does not exist";
  } else {
    file.why = std::string("cannot be opened: ") + std::strerror(file.error);
  }
  return file;
}

// Returns the bytes from the current position to the end, even if the file reports another size. nullopt:
// errno has the reason.
inline std::optional<std::string> RestOf(const InputFile& file) {
  constexpr size_t kMostAtOnce = size_t{64} << 20;
  constexpr size_t kPart = 16 * 1024;
  std::string text;
  while (true) {
    const size_t length = text.size();
    // One more byte than stated shows the end. A sparse file may state any size.
    const uint64_t stated = file.bytes > length ? file.bytes - length + 1 : 0;
    text.resize(length + static_cast<size_t>(std::clamp<uint64_t>(stated, kPart, kMostAtOnce)));
    const ssize_t n = ::read(file.fd.get(), text.data() + length, text.size() - length);
    if (n < 0 && errno != EINTR) return std::nullopt;
    text.resize(length + static_cast<size_t>(n < 0 ? 0 : n));
    if (n == 0) return text;
  }
}

// Returns the whole content of a regular file. nullopt: it cannot be read to its end; errno has the reason.
inline std::optional<std::string> FileText(const std::string& path) {
  const InputFile file = OpenInputFile(path);
  if (file.fd.ok()) return RestOf(file);
  errno = file.error;
  return std::nullopt;
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
