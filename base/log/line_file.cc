#include "base/log/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep {

Fd LineFile::OpenDirectly(const std::string& path) {
  // The open must not wait: the path could be a pipe without a reader.
  return Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
}

absl::StatusOr<std::unique_ptr<LineFile>> LineFile::Open(std::string path, OpenToAppend open) {
  std::unique_ptr<LineFile> file(new LineFile(std::move(path), std::move(open)));
  if (absl::Status s = file->Reopen(); !s.ok()) return s;
  file->last_line_ = file->ReadLastLine();
  return file;
}

absl::Status LineFile::Reopen() {
  Fd fd = open_(path_);
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path_, " for appending"));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot examine ", path_));
  if (!S_ISREG(info.st_mode))
    return absl::FailedPreconditionError(absl::StrCat(path_, " is not a regular file: name another"));
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path_, " is accessible to other users: chmod 600 ", path_));
  }
  fd_ = std::move(fd);
  torn_ = false;
  return absl::OkStatus();
}

std::string LineFile::ReadLastLine() const {
  constexpr size_t kLongestLine = 64 << 10;
  const Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (!fd.ok() || ::fstat(fd.get(), &info) != 0) return "";
  std::string end(std::min<size_t>(kLongestLine, static_cast<size_t>(info.st_size)), '\0');
  const ssize_t n = ::pread(fd.get(), end.data(), end.size(), info.st_size - static_cast<off_t>(end.size()));
  if (n != static_cast<ssize_t>(end.size())) return "";
  while (!end.empty() && end.back() == '\n') end.pop_back();
  return end.substr(end.rfind('\n') + 1);  // npos + 1 is 0
}

bool LineFile::Moved() const {
  struct stat here {
  }, named{};
  if (!fd_.ok() || ::fstat(fd_.get(), &here) != 0) return true;
  return ::lstat(path_.c_str(), &named) != 0 || here.st_dev != named.st_dev || here.st_ino != named.st_ino;
}

absl::Status LineFile::Append(std::string_view line) {
  if (Moved()) {
    if (absl::Status s = Reopen(); !s.ok()) return s;
  }
  const std::string bytes =
      absl::StrCat(torn_ ? "\n" : "", absl::string_view(line.data(), line.size()), "\n");
  ssize_t n = 0;
  do {
    n = ::write(fd_.get(), bytes.data(), bytes.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(bytes.size())) {
    torn_ = false;
    return absl::OkStatus();
  }
  if (n > 0) torn_ = true;
  return n < 0 ? absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_))
               : absl::ResourceExhaustedError(absl::StrCat("cannot write ", path_, ": the disk is full"));
}

}  // namespace lockstep
