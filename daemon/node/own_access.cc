#include "daemon/node/own_access.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "base/other_process.h"
#include "base/rpc/channel.h"
#include "daemon/node/process.h"
#include "daemon/node/process_traits.h"
#include "daemon/node/socket.h"
#include "daemon/stacks/process_stacks.h"

namespace lockstep::daemon {
namespace {

namespace fs = std::filesystem;

// Younger sockets may be bound and not yet used.
constexpr int64_t kDeadSeconds = 120;
constexpr int kMostDeadChecked = 1000;  // so that the caller is not delayed

// Makes the calling thread open files as this user; its other rights stay. Uses system calls, because the C
// library's functions would change every thread.
bool BecomeForFiles(uid_t uid, gid_t gid) {
  if (geteuid() != 0 || uid == 0) return true;
  syscall(SYS_setgroups, 0, nullptr);
  syscall(SYS_setfsgid, gid);
  syscall(SYS_setfsuid, uid);
  // These calls do not report errors. A call with -1 returns the value in force.
  return syscall(SYS_setfsuid, -1) == static_cast<long>(uid) &&
         syscall(SYS_setfsgid, -1) == static_cast<long>(gid);
}

// `status`: the content of /proc/<pid>/status. Returns whether all of the process's users are `uid`.
bool HasUser(std::string_view status, uid_t uid) {
  constexpr std::string_view kLine = "\nUid:\t";
  const size_t at = status.find(kLine);
  if (at == std::string_view::npos) return false;
  const std::string user = absl::StrCat(uid);
  const std::string all = absl::StrCat(user, "\t", user, "\t", user, "\t", user, "\n");
  return status.substr(at + kLine.size()).starts_with(all);
}

class OwnFolder final : public UserFolder {
 public:
  explicit OwnFolder(Fd folder) : folder_(std::move(folder)) {}

  std::optional<struct stat> Stat(const std::string& name) override {
    struct stat info = {};
    if (fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    return info;
  }

  absl::StatusOr<Fd> Open(const std::string& name) override {
    // The flags keep a pipe from blocking us and a link from leading elsewhere.
    Fd fd(openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", name));
    return fd;
  }

  void Remove(const std::string& name) override { unlinkat(folder_.get(), name.c_str(), 0); }

 private:
  const Fd folder_;
};

class OwnFolders final : public UserFolders {
 public:
  explicit OwnFolders(HostPlaces places) : places_(std::move(places)) {}

  std::unique_ptr<UserFolder> Open(int32_t pid, uint64_t start_ticks, const std::string& folder) override {
    constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const std::string as_seen = absl::StrCat(places_.proc, "/", pid, "/root", folder);
    Fd opened(open(as_seen.c_str(), kFlags));
    // Meanwhile the pid may have been reused by another process.
    const auto info = FindProcess(OwnAccess(places_), pid);
    if (!opened.ok() || !info || info->ended || info->id.start_ticks != start_ticks)
      opened.reset(open(folder.c_str(), kFlags));
    return std::make_unique<OwnFolder>(std::move(opened));
  }

 private:
  const HostPlaces places_;
};

}  // namespace

Fd OwnAccess::OpenProcFile(int32_t pid, std::string_view name) const {
  return OpenInputFile(absl::StrCat(places_.proc, "/", pid, "/", absl::string_view(name.data(), name.size())))
      .fd;
}

std::vector<ProcessOwner> OwnAccess::Processes() const {
  std::vector<ProcessOwner> found;
  for (const fs::directory_entry& entry : FolderEntries(places_.proc)) {
    int32_t pid = 0;
    struct stat owner = {};
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid) && ::stat(entry.path().c_str(), &owner) == 0)
      found.push_back({pid, owner.st_uid});
  }
  std::sort(found.begin(), found.end(),
            [](const ProcessOwner& a, const ProcessOwner& b) { return a.pid < b.pid; });
  return found;
}

bool OwnAccess::CudaIsUp(int32_t pid) const {
  const std::string maps = FileText(absl::StrCat(places_.proc, "/", pid, "/maps")).value_or("");
  if (!absl::StrContains(maps, "/libcuda.so")) return false;
  const std::string control = places_.dev + "/nvidiactl";
  std::error_code error;
  if (!fs::exists(control, error)) return true;
  for (const fs::directory_entry& entry : FolderEntries(absl::StrCat(places_.proc, "/", pid, "/fd"))) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) == control) return true;
  }
  return false;
}

std::optional<struct stat> OwnAccess::StatAsSeenBy(int32_t pid, const std::string& path) const {
  struct stat found = {};
  if (!lockstep::StatAsSeenBy(places_.proc, pid, path, &found)) return std::nullopt;
  return found;
}

absl::StatusOr<OpenedMemory> OwnAccess::OpenMemory(int32_t pid, uint64_t start_ticks) const {
  const std::string folder = absl::StrCat(places_.proc, "/", pid);
  OpenedMemory opened;
  Fd file(open(absl::StrCat(folder, "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  const int error = errno;
  struct stat owner = {};
  if (stat(folder.c_str(), &owner) != 0) return absl::NotFoundError("the process has ended");
  // The kernel gives the files of a process to root if the process hides its memory or has changed its user.
  if (!HasUser(ReadProcFile(*this, pid, "status"), owner.st_uid))
    return absl::PermissionDeniedError("the process hides its memory from other processes of its user");
  if (!file.ok()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the daemon may not read the process's memory: ", std::strerror(error),
                     "; a daemon of root may, and one of the same user if kernel.yama.ptrace_scope is 0"));
  }
  opened.memory = std::make_unique<MemoryFile>(std::move(file));
  opened.maps = ReadProcFile(*this, pid, "maps");
  opened.uid = owner.st_uid;
  opened.gid = owner.st_gid;
  // Before the file was opened, the pid may have been reused by another process.
  const std::optional<ProcessInfo> info = FindProcess(*this, pid);
  if (!info || info->ended || info->id.start_ticks != start_ticks)
    return absl::NotFoundError("the process has ended");
  return opened;
}

v1::ProcessStacks OwnAccess::ReadStacks(int32_t pid, uint64_t start_ticks, StackKinds kinds) const {
  const absl::StatusOr<OpenedMemory> opened = OpenMemory(pid, start_ticks);
  if (!opened.ok()) return StacksWithProblem(std::string(opened.status().message()), kinds);
  return ProcessStacksReader(pid, *opened->memory, kinds).Read(opened->maps);
}

bool OwnAccess::MapsUser(int32_t pid, uid_t uid) const { return lockstep::MapsUser(places_.proc, pid, uid); }

void OwnAccess::SendToFile(int socket, const std::string& folder, const std::string& path, uid_t owner,
                           std::string_view bytes) const {
  struct stat info = {};
  sockaddr_un address = {};
  const socklen_t length = PathAddress(path, &address);
  if (length == 0 || folder.empty() || path.substr(0, path.rfind('/')) != folder ||
      lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode) || info.st_uid != owner)
    return;
  // A full buffer means that the client does not read; it will ask again.
  (void)sendto(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
}

void OwnAccess::RemoveDeadSockets(const std::string& folder, const std::string& prefix) const {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  std::error_code error;
  int looked_at = 0;
  // Uses increment(error), because the increment of a range loop throws. Any user may write to the folder, so
  // it may hold any number of files.
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string path = entry->path().string();
    struct stat info = {};
    sockaddr_un address = {};
    if (++looked_at > kMostDeadChecked) return;
    if (!absl::StartsWith(entry->path().filename().string(), prefix) || lstat(path.c_str(), &info) != 0 ||
        !S_ISSOCK(info.st_mode) || now.tv_sec - info.st_mtim.tv_sec < kDeadSeconds)
      continue;
    const socklen_t length = PathAddress(path, &address);
    if (length != 0 && !HasReceiver(address, length)) unlink(path.c_str());
  }
}

absl::StatusOr<Fd> OwnAccess::Connect(uid_t /*user*/, const std::string& path) const {
  return rpc::ConnectUnix(path);
}

absl::StatusOr<Fd> OwnAccess::ConnectToSetting(const std::string& path) const {
  return rpc::ConnectUnix(path);
}

absl::StatusOr<std::unique_ptr<UserFolders>> OwnAccess::FoldersOf(uid_t uid, gid_t gid) const {
  if (!BecomeForFiles(uid, gid)) {
    return absl::PermissionDeniedError("the daemon could not switch to the user's identity to read files");
  }
  return std::make_unique<OwnFolders>(places_);
}

}  // namespace lockstep::daemon
