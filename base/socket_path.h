// The search order for the daemon's socket, and the rules for the folder of a socket. Client, CLI and daemon
// share them (docs/launching.md, "The daemon"). The header needs only libc, because the injected client uses
// it.
#ifndef LOCKSTEP_BASE_SOCKET_PATH_H_
#define LOCKSTEP_BASE_SOCKET_PATH_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

inline constexpr size_t kMaxSocketPath = sizeof(sockaddr_un{}.sun_path);  // with the terminating zero

enum class SocketOrigin : uint8_t { kArgument, kEnvironment, kSystem, kUserRuntime, kTemporary };

inline const char* Describe(SocketOrigin origin) {
  switch (origin) {
    case SocketOrigin::kArgument:
      return "--daemon";
    case SocketOrigin::kEnvironment:
      return "LOCKSTEP_SOCKET";
    case SocketOrigin::kSystem:
      return "the system's daemon";
    case SocketOrigin::kUserRuntime:
      return "XDG_RUNTIME_DIR";
    case SocketOrigin::kTemporary:
      return "/tmp";
  }
  return "unknown";
}

struct SocketPlace {
  SocketOrigin origin = SocketOrigin::kSystem;
  char path[kMaxSocketPath] = {};
};

// The paths to try, in order.
struct SocketPlaces {
  static constexpr int kMost = 5;
  SocketPlace place[kMost];
  int count = 0;
  // A requested path that does not fit into a socket address, else null. It points to the caller's text.
  const char* too_long = nullptr;
};

// The inputs of the search, null or empty where not set. The caller reads the environment (the client with
// secure_getenv).
struct SocketSearch {
  const char* argument = nullptr;     // --daemon
  const char* environment = nullptr;  // $LOCKSTEP_SOCKET
  const char* runtime_dir = nullptr;  // $XDG_RUNTIME_DIR
  uid_t uid = 0;                      // geteuid()
};

namespace socket_path_internal {

inline bool Append(char* to, size_t capacity, size_t* length, const char* text) {
  const size_t n = std::strlen(text);
  if (*length + n + 1 > capacity) return false;
  std::memcpy(to + *length, text, n + 1);
  *length += n;
  return true;
}

inline void Add(SocketPlaces* places, SocketOrigin origin, const char* head, const char* tail) {
  if (head == nullptr || head[0] == '\0') return;
  SocketPlace& place = places->place[places->count];
  size_t length = 0;
  if (!Append(place.path, kMaxSocketPath, &length, head) ||
      !Append(place.path, kMaxSocketPath, &length, tail)) {
    places->too_long = head;
    place = SocketPlace{};
    return;
  }
  place.origin = origin;
  ++places->count;
}

inline void Decimal(uint32_t number, char* to) {
  char reversed[10];
  int digits = 0;
  do {
    reversed[digits++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (digits > 0) *to++ = reversed[--digits];
  *to = '\0';
}

}  // namespace socket_path_internal

inline SocketPlaces DaemonSocketPlaces(const SocketSearch& search) {
  namespace internal = socket_path_internal;
  SocketPlaces places;
  internal::Add(&places, SocketOrigin::kArgument, search.argument, "");
  internal::Add(&places, SocketOrigin::kEnvironment, search.environment, "");
  internal::Add(&places, SocketOrigin::kSystem, "/run/lockstep", "/client.sock");
  internal::Add(&places, SocketOrigin::kUserRuntime, search.runtime_dir, "/lockstep/client.sock");
  char folder[32] = "/tmp/lockstep-";
  internal::Decimal(search.uid, folder + std::strlen(folder));
  internal::Add(&places, SocketOrigin::kTemporary, folder, "/client.sock");
  return places;
}

enum class FolderVerdict : uint8_t {
  kUsable,
  kMissing,
  kUnreadable,  // errno says why
  kNotAFolder,
  kForeignOwner,    // the owner is neither root nor this user
  kOthersMayWrite,  // group or others could replace the socket
};

inline const char* Explain(FolderVerdict verdict) {
  switch (verdict) {
    case FolderVerdict::kUsable:
      return "usable";
    case FolderVerdict::kMissing:
      return "its folder does not exist";
    case FolderVerdict::kUnreadable:
      return "its folder cannot be examined";
    case FolderVerdict::kNotAFolder:
      return "its parent is not a folder";
    case FolderVerdict::kForeignOwner:
      return "its folder belongs to another user, who could answer in the daemon's place";
    case FolderVerdict::kOthersMayWrite:
      return "its folder is writable for group or others, who could answer in the daemon's place (chmod "
             "go-w)";
  }
  return "unknown";
}

namespace socket_path_internal {

// Uses the system call, because glibc has stat and lstat as symbols only since 2.33, and the client runs on
// 2.28.
inline FolderVerdict Check(const char* folder, uid_t uid, int flags, struct stat* info) {
  if (::syscall(SYS_newfstatat, AT_FDCWD, folder, info, flags) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? FolderVerdict::kMissing : FolderVerdict::kUnreadable;
  }
  return info->st_uid == 0 || info->st_uid == uid ? FolderVerdict::kUsable : FolderVerdict::kForeignOwner;
}

}  // namespace socket_path_internal

// Checks whether a process of `uid` may connect to a socket at `path`, or create it. A folder that is a
// symbolic link is followed only if the link itself belongs to root or to this user.
inline FolderVerdict CheckSocketFolder(const char* path, uid_t uid) {
  char folder[kMaxSocketPath];
  const char* slash = std::strrchr(path, '/');
  const size_t length = slash == nullptr ? 0 : static_cast<size_t>(slash - path);
  if (length >= sizeof folder) return FolderVerdict::kMissing;
  if (slash == nullptr) {
    std::memcpy(folder, ".", 2);
  } else if (length == 0) {
    std::memcpy(folder, "/", 2);
  } else {
    std::memcpy(folder, path, length);
    folder[length] = '\0';
  }
  struct stat info;
  FolderVerdict verdict = socket_path_internal::Check(folder, uid, AT_SYMLINK_NOFOLLOW, &info);
  if (verdict == FolderVerdict::kUsable && S_ISLNK(info.st_mode)) {
    verdict = socket_path_internal::Check(folder, uid, 0, &info);
  }
  if (verdict != FolderVerdict::kUsable) return verdict;
  if (!S_ISDIR(info.st_mode)) return FolderVerdict::kNotAFolder;
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return FolderVerdict::kOthersMayWrite;
  return FolderVerdict::kUsable;
}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_SOCKET_PATH_H_
