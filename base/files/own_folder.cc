#include "base/files/own_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/fd.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// The lines of the mark, and the words for the folder.
struct MarkText {
  std::string_view first_line;
  std::string_view second_line;
  const char* words;
};
constexpr char kMayBeReplaced[] = "With --force, it may replace the folder and remove what is in it.\n";
constexpr MarkText kKinds[] = {
    {"Lockstep made this folder for a capture.\n", kMayBeReplaced, "a capture"},
    {"Lockstep made this folder for an OTF2 archive.\n", kMayBeReplaced, "an OTF2 archive"},
    {"Lockstep's aggregator made this folder for a capture.\n",
     "It removes the folder when the limits of its store are exceeded.\n", "a stored capture"},
};

const MarkText& TextOf(OwnFolder kind) { return kKinds[static_cast<size_t>(kind)]; }
std::string_view FirstLine(OwnFolder kind) { return TextOf(kind).first_line; }

absl::Status Refused(std::string_view verb, const std::string& path, const std::string& reason) {
  return absl::PermissionDeniedError(absl::StrCat("cannot ", std::string(verb), " ", path, ": ", reason));
}

absl::Status Mark(const std::string& folder, OwnFolder kind) {
  const std::string path = absl::StrCat(folder, "/", kOwnFolderMark);
  const std::string text = absl::StrCat(std::string(FirstLine(kind)), std::string(TextOf(kind).second_line));
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  const ssize_t written = fd.ok() ? ::write(fd.get(), text.data(), text.size()) : -1;
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  // A disk that fills up takes a part without an error.
  return absl::ErrnoToStatus(written < 0 ? errno : ENOSPC, absl::StrCat("cannot write ", path));
}

absl::Status NotOurs(const std::string& path, OwnFolder kind) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, " exists and is not ", TextOf(kind).words,
                   " that Lockstep wrote: choose another name, or remove it"));
}

std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// A folder that nothing is in, so that nothing is lost with it.
bool IsEmptyFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error)) && fs::is_empty(path, error) && !error;
}

}  // namespace

absl::Status MakeOwnFolder(const std::string& path, OwnFolder kind) {
  if (::mkdir(path.c_str(), 0700) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  return Mark(path, kind);
}

absl::StatusOr<std::string> MakeFolderBeside(const std::string& path, OwnFolder kind) {
  std::error_code error;
  const std::string beside = WithoutSlashes(path);
  const fs::path parent = fs::path(beside).parent_path();
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) return Refused("create", parent.string(), error.message());
  std::string name = absl::StrCat(beside, ".partial-XXXXXX");
  if (::mkdtemp(name.data()) == nullptr) return Refused("create", name, std::strerror(errno));
  // mkdtemp() keeps other users out, but captures have the rights that the user's umask gives.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod(name.c_str(), 0777 & ~mask);
  if (absl::Status s = Mark(name, kind); !s.ok()) return s;
  return name;
}

bool IsOwnFolder(const std::string& path, OwnFolder kind) {
  struct stat folder {
  }, mark{};
  if (::lstat(path.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode) || folder.st_uid != ::geteuid())
    return false;
  const Fd fd(::open(absl::StrCat(path, "/", kOwnFolderMark).c_str(),
                     O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok() || ::fstat(fd.get(), &mark) != 0 || !S_ISREG(mark.st_mode) || mark.st_uid != ::geteuid())
    return false;
  std::string line(FirstLine(kind).size(), '\0');
  return ::read(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
         line == FirstLine(kind);
}

absl::Status RemoveOwnFolder(const std::string& path, OwnFolder kind) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(path, error))) return absl::OkStatus();
  if (!IsOwnFolder(path, kind)) return NotOurs(path, kind);
  fs::remove_all(path, error);
  return error ? Refused("remove", path, error.message()) : absl::OkStatus();
}

absl::Status MoveOwnFolder(const std::string& from, const std::string& target, OwnFolder kind) {
  std::error_code error;
  const std::string to = WithoutSlashes(target);
  if (!IsOwnFolder(from, kind)) return NotOurs(from, kind);
  if (!fs::exists(fs::symlink_status(to, error)) || IsEmptyFolder(to)) {
    fs::rename(from, to, error);
    return error ? Refused(absl::StrCat("rename ", from, " to"), to, error.message()) : absl::OkStatus();
  }
  if (!IsOwnFolder(to, kind)) return NotOurs(to, kind);
  const auto old = MakeFolderBeside(to, kind);
  if (!old.ok()) return old.status();
  const std::string kept = *old + "/old";
  fs::rename(to, kept, error);
  if (!error) fs::rename(from, to, error);
  if (error) {
    std::error_code ignored;
    fs::rename(kept, to, ignored);
    return Refused(absl::StrCat("rename ", from, " to"), to, error.message());
  }
  return RemoveOwnFolder(*old, kind);
}

}  // namespace lockstep
