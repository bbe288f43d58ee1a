// Waits for the trace files that libkineto leaves on disk, sends them on and removes them.
//
// A file lies in a folder that its owner rules, perhaps inside a container, perhaps on a file system that the
// owner implements. So it is looked at by a thread per user that has that user's rights to files, even in
// root's daemon: nobody gets at another's files through the daemon, and who makes the thread hang holds up
// only their own traces.
#ifndef LOCKSTEP_DAEMON_KINETO_FILES_H_
#define LOCKSTEP_DAEMON_KINETO_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "daemon/kineto/kineto_file.h"

namespace lockstep::daemon {

// A file that is watched, and whose thread has it.
struct KinetoFileId {
  uid_t uid = 0;
  gid_t gid = 0;
  uint64_t number = 0;  // 0: none
};

// The main thread. Callbacks come on the user's thread, must not block, and none runs once the destructor has
// returned.
class KinetoFiles {
 public:
  explicit KinetoFiles(KinetoFilesSettings settings) : settings_(std::move(settings)) {}
  ~KinetoFiles();
  KinetoFiles(const KinetoFiles&) = delete;
  KinetoFiles& operator=(const KinetoFiles&) = delete;

  // `changed` tells each new stage.
  KinetoFileId Watch(KinetoFileSpec spec, std::function<void(KinetoFileStage)> changed);
  // Sends the file if it is whole by now, calls `done` once, and then discards it.
  void Ship(const KinetoFileId& id, MonoTime until, KinetoPut put, std::function<void(KinetoShipped)> done);
  // Not wanted any more: removed, also when it comes only now, before `until`. Ends a Ship that runs.
  void Discard(const KinetoFileId& id, MonoTime until);

 private:
  class Worker;
  using User = std::pair<uid_t, gid_t>;
  Worker* WorkerOf(const KinetoFileId& id);

  const KinetoFilesSettings settings_;
  std::map<User, std::shared_ptr<Worker>> workers_;
  uint64_t next_number_ = 1;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_FILES_H_
