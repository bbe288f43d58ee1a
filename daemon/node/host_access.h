// HostAccess is what the daemon does with other users' processes and files, for which most programs have no
// right. Implemented by: OwnAccess, with the rights of this process, and BrokerAccess, which asks the broker.
#ifndef LOCKSTEP_DAEMON_NODE_HOST_ACCESS_H_
#define LOCKSTEP_DAEMON_NODE_HOST_ACCESS_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/files/read_files.h"
#include "base/time.h"
#include "daemon/stacks/process_stacks.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

// A folder of one user, with that user's rights. A call may block as long as the user's file system does. One
// thread.
class UserFolder {
 public:
  virtual ~UserFolder() = default;
  // Returns nothing if the name does not exist. A link is not followed.
  virtual std::optional<struct stat> Stat(const std::string& name) = 0;
  // Opens a file for reading. The result may also be a FIFO or another user's file, but no link.
  virtual absl::StatusOr<Fd> Open(const std::string& name) = 0;
  virtual void Remove(const std::string& name) = 0;
};

// Opens the folders of one user. One thread, the same as that of its folders.
class UserFolders {
 public:
  virtual ~UserFolders() = default;
  // Opens a folder as the process sees it, because its /tmp may differ from ours. If the process has ended or
  // its root is not accessible, the folder is ours. The result is never null; it has no files if the folder
  // does not exist. It must not outlive this object.
  virtual std::unique_ptr<UserFolder> Open(int32_t pid, uint64_t start_ticks, const std::string& folder) = 0;
};

struct ProcessOwner {
  int32_t pid = 0;
  uid_t uid = 0;
};

// Any thread. All results are of one moment: a process may end, and its pid be used again.
class HostAccess {
 public:
  virtual ~HostAccess() = default;
  // Opens /proc/<pid>/<name>. `name` is one of kProcFiles.
  virtual Fd OpenProcFile(int32_t pid, std::string_view name) const = 0;
  static constexpr std::string_view kProcFiles[] = {"cgroup", "comm", "environ", "io",
                                                    "maps",   "stat", "status",  "wchan"};
  // Those for which the kernel checks the rights of the process that reads, and not of the one that opens.
  static constexpr std::string_view kCheckedAtReading[] = {"io", "wchan"};
  // Returns all processes, in the order of their pids.
  virtual std::vector<ProcessOwner> Processes() const = 0;
  // Returns whether the process has initialised CUDA. Loading the driver's library is not enough: only
  // initialisation opens the driver's control device. If this machine lacks that device, the library counts.
  virtual bool CudaIsUp(int32_t pid) const = 0;
  // Calls stat(2) for an absolute path as the process sees it. Returns nothing if the file does not exist or
  // is not accessible.
  virtual std::optional<struct stat> StatAsSeenBy(int32_t pid, const std::string& path) const = 0;
  // Reads what the process's threads execute (daemon/stacks/process_stacks.h). It takes some milliseconds,
  // with native stacks some hundred.
  virtual v1::ProcessStacks ReadStacks(int32_t pid, uint64_t start_ticks, StackKinds kinds) const = 0;
  // See lockstep::MapsUser.
  virtual bool MapsUser(int32_t pid, uid_t uid) const = 0;
  // Sends a datagram from `socket` to the socket file `path` if that file belongs to `owner` and is in
  // `folder`, so that nobody makes us write to other sockets. Nothing tells whether it was sent.
  virtual void SendToFile(int socket, const std::string& folder, const std::string& path, uid_t owner,
                          std::string_view bytes) const = 0;
  // Removes socket files in `folder` whose names begin with `prefix`, if they are old and no process receives
  // there. It checks a limited number of files.
  virtual void RemoveDeadSockets(const std::string& folder, const std::string& prefix) const = 0;
  // Connects to a stream socket of `user`. Errors are those of rpc::ConnectUnix.
  virtual absl::StatusOr<Fd> Connect(uid_t user, const std::string& path) const = 0;
  // Connects to a stream socket that the daemon's settings name. Errors as above.
  virtual absl::StatusOr<Fd> ConnectToSetting(const std::string& path) const = 0;

  // Opens a file that the daemon's settings name, as OpenInputFile and LineFile::OpenDirectly do.
  virtual InputFile OpenToRead(const std::string& path) const = 0;
  virtual Fd OpenToAppend(const std::string& path) const = 0;

  // Returns the folders of the user. It is called on the thread that uses them. kPermissionDenied: this
  // process cannot act for that user.
  virtual absl::StatusOr<std::unique_ptr<UserFolders>> FoldersOf(uid_t uid, gid_t gid) const = 0;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_HOST_ACCESS_H_
