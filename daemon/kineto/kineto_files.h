// KinetoFiles waits for the trace files that libkineto leaves on disk, sends them on and removes them.
//
// A file lies in a folder that its owner controls, perhaps inside a container or on a file system that the
// owner implements. Therefore one thread per user handles that user's files, with only that user's rights,
// even in root's daemon. No user can read another's files through the daemon, and a user who blocks the
// thread delays only their own traces.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_FILES_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "daemon/kineto/kineto_file.h"

namespace lockstep::daemon {

// Identifies a watched file and the thread (of user and group) that handles it.
struct KinetoFileId {
  uid_t uid = 0;
  gid_t gid = 0;
  uint64_t number = 0;  // 0: none
};

// The main thread. Callbacks run on the user's thread and must not block. None runs after the destructor has
// returned.
class KinetoFiles {
 public:
  KinetoFiles(KinetoFilesSettings settings, std::shared_ptr<const HostAccess> access)
      : settings_(std::move(settings)), access_(std::move(access)) {}
  ~KinetoFiles();
  KinetoFiles(const KinetoFiles&) = delete;
  KinetoFiles& operator=(const KinetoFiles&) = delete;

  // Watches for the file. `changed` receives each new stage.
  KinetoFileId Watch(KinetoFileSpec spec, std::function<void(KinetoFileStage)> changed);
  // Sends the file if it is whole by now, calls `done` once, and then discards the file.
  void Send(const KinetoFileId& id, MonoTime until, KinetoPut put,
            std::function<void(KinetoSendResult)> done);
  // Removes the file, also if it appears later but before `until`. Ends a running Ship.
  void Discard(const KinetoFileId& id, MonoTime until);

 private:
  class Worker;
  using User = std::pair<uid_t, gid_t>;
  Worker* WorkerOf(const KinetoFileId& id);

  const KinetoFilesSettings settings_;
  // A blocked thread may outlive the daemon.
  const std::shared_ptr<const HostAccess> access_;
  std::map<User, std::shared_ptr<Worker>> workers_;
  uint64_t next_number_ = 1;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_FILES_H_
