#include "base/files/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/fd.h"
#include "base/random_number.h"

namespace lockstep {
namespace {

absl::Status Failed(std::string_view what, const std::string& path, const char* verb, int error) {
  return absl::ErrnoToStatus(
      error, absl::StrCat(absl::string_view(what.data(), what.size()), " ", path, ": cannot ", verb, " it"));
}

absl::Status Check(const std::string& file, const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode))
    return absl::PermissionDeniedError(absl::StrCat(file, " is not a regular file: name another"));
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(file, " belongs to user ", info.st_uid, ": it must belong to you or root"));
  }
  // A file of root may be readable for a group, because only root decides who is in the group. In this way a
  // Kubernetes secret reaches a program that does not run as root. For root itself it may be root's group:
  // the files of some Kubernetes volumes have mode 0440.
  const bool for_group = info.st_uid == 0 && (geteuid() != 0 || info.st_gid == 0);
  const mode_t others = for_group ? 037 : 077;
  if ((info.st_mode & others) != 0)
    return absl::PermissionDeniedError(absl::StrCat(file, " is readable by others: chmod 600 ", path));
  return absl::OkStatus();
}

// Writes all bytes to a new file. Returns an errno.
int WriteNew(const std::string& path, std::string_view bytes, unsigned mode) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.ok()) return errno;
  if (fchmod(fd.get(), mode) != 0) return errno;  // whatever the umask
  while (!bytes.empty()) {
    const ssize_t n = write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd.get()) == 0 ? 0 : errno;
}

std::string NameBeside(const std::string& path) {
  return absl::StrCat(path, ".", absl::Hex(RandomNumber()), ".new");
}

void SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.ok()) (void)fsync(fd.get());
}

}  // namespace

absl::StatusOr<std::string> ReadSecretFile(const std::string& path, std::string_view what, size_t most_bytes,
                                           Links links) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (links == Links::kRefused ? O_NOFOLLOW : 0);
  const Fd fd(open(path.c_str(), flags));
  if (!fd.ok()) return Failed(what, path, "open", errno);
  return ReadOpenSecretFile(fd, path, what, most_bytes);
}

absl::StatusOr<std::string> ReadOpenSecretFile(const Fd& fd, const std::string& path, std::string_view what,
                                               size_t most_bytes) {
  const std::string file = absl::StrCat(absl::string_view(what.data(), what.size()), " ", path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return Failed(what, path, "examine", errno);
  if (absl::Status fine = Check(file, path, info); !fine.ok()) return fine;
  std::string bytes(most_bytes + 1, '\0');
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t n = read(fd.get(), bytes.data() + size, bytes.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed(what, path, "read", errno);
    if (n == 0) break;
    size += static_cast<size_t>(n);
  }
  if (size > most_bytes)
    return absl::InvalidArgumentError(absl::StrCat(file, " has more than ", most_bytes, " bytes"));
  bytes.resize(size);
  return bytes;
}

absl::Status CreateSecretFile(const std::string& path, std::string_view what, std::string_view bytes) {
  // The bytes are written to another file, which is then linked. The file is therefore complete when its name
  // appears, and one of several concurrent makers wins.
  const std::string beside = NameBeside(path);
  int error = WriteNew(beside, bytes, 0600);
  if (error == 0 && link(beside.c_str(), path.c_str()) != 0) error = errno;
  unlink(beside.c_str());
  if (error == EEXIST) return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
  if (error != 0) return Failed(what, path, "write", error);
  SyncFolderOf(path);
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, std::string_view what, std::string_view bytes,
                         unsigned mode) {
  const std::string beside = NameBeside(path);
  int error = WriteNew(beside, bytes, mode);
  if (error == 0 && rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(beside.c_str());
    return Failed(what, path, "write", error);
  }
  SyncFolderOf(path);
  return absl::OkStatus();
}

}  // namespace lockstep
