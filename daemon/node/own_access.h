#ifndef LOCKSTEP_DAEMON_NODE_OWN_ACCESS_H_
#define LOCKSTEP_DAEMON_NODE_OWN_ACCESS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log/line_file.h"
#include "daemon/node/host_access.h"
#include "daemon/stacks/memory.h"

namespace lockstep::daemon {

struct HostPlaces {
  std::string proc = "/proc";
  std::string dev = "/dev";
};

// Another process, opened for reading its memory.
struct OpenedMemory {
  std::unique_ptr<Memory> memory;
  std::string maps;  // the content of /proc/<pid>/maps
  uid_t uid = 0;     // the process's user and group
  gid_t gid = 0;
};

// Access with the rights of this process. Any thread.
class OwnAccess final : public HostAccess {
 public:
  explicit OwnAccess(HostPlaces places = {}) : places_(std::move(places)) {}
  Fd OpenProcFile(int32_t pid, std::string_view name) const override;
  std::vector<ProcessOwner> Processes() const override;
  bool CudaIsUp(int32_t pid) const override;
  std::optional<struct stat> StatAsSeenBy(int32_t pid, const std::string& path) const override;
  v1::ProcessStacks ReadStacks(int32_t pid, uint64_t start_ticks, StackKinds kinds) const override;
  // kPermissionDenied: the message has the kernel's setting that forbids it. kNotFound: the process has
  // ended.
  absl::StatusOr<OpenedMemory> OpenMemory(int32_t pid, uint64_t start_ticks) const;
  bool MapsUser(int32_t pid, uid_t uid) const override;
  void SendToFile(int socket, const std::string& folder, const std::string& path, uid_t owner,
                  std::string_view bytes) const override;
  void RemoveDeadSockets(const std::string& folder, const std::string& prefix) const override;
  absl::StatusOr<Fd> Connect(uid_t user, const std::string& path) const override;
  absl::StatusOr<Fd> ConnectToSetting(const std::string& path) const override;
  InputFile OpenToRead(const std::string& path) const override { return OpenInputFile(path); }
  Fd OpenToAppend(const std::string& path) const override { return LineFile::OpenDirectly(path); }
  // In root's process the calling thread opens files as this user from now on. It keeps its other rights.
  absl::StatusOr<std::unique_ptr<UserFolders>> FoldersOf(uid_t uid, gid_t gid) const override;

 private:
  const HostPlaces places_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_NODE_OWN_ACCESS_H_
