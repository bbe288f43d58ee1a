// KinetoFile finds, reads and removes one trace file that libkineto leaves on disk.
//
// The file's owner controls everything about it: a name may be a link, a pipe or another user's file. Only a
// regular file of the client's own user with a single name is read. Calls may block if the owner controls the
// file system, so KinetoFiles makes them on threads of its own.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_FILE_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/time.h"
#include "daemon/node/host_access.h"
#include "daemon/node/process.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::daemon {

struct KinetoFileSpec {
  ProcessId process;
  uid_t uid = 0;
  gid_t gid = 0;
  int32_t client_pid = 0;  // in its own pid namespace: part of the name
  std::string folder;      // as the client sees it
  std::string session;
  // An older file under the client's fallback name belongs to another request.
  HostTime not_before;
};

struct KinetoFilesSettings {
  std::string fallback_folder = "/tmp";
  Nanos check_interval = Nanos::Millis(100);
  // Some clients write under the final name from the start. Such a file is whole when it has not grown for
  // this long.
  Nanos stable_after = Nanos::Seconds(1);
  // Longest wait for room in the spool; meanwhile the file stays on disk.
  Nanos wait_for_room = Nanos::Seconds(60);
  uint64_t most_bytes = uint64_t{8} << 30;  // largest file that is sent
};

enum class KinetoFileStage : uint8_t { kNone, kWriting, kWhole };

// The result of sending.
struct KinetoSendResult {
  uint64_t bytes = 0;  // sent
  std::string error;   // not empty: the reason why the receiver has no whole file
};

// Accepts one piece; the callee sets its capture and process. Returns false if there is no room now: the
// caller tries again. A piece that gives up the file is always accepted.
using KinetoPut = std::function<bool(v1::TraceFile piece)>;

// One thread at a time.
class KinetoFile {
 public:
  // `access`, `folders` and `clock` outlive it. The folders are those of the spec's user.
  KinetoFile(KinetoFileSpec spec, const KinetoFilesSettings& settings, const HostAccess& access,
             UserFolders& folders, const Clock& clock)
      : spec_(std::move(spec)), settings_(settings), access_(access), folders_(folders), clock_(clock) {}

  // Checks the file's stage. The first call opens the folder, so the process should still be alive then.
  KinetoFileStage CheckStage();
  // Sends the file, compressed unless it already is. Calls `cancelled` between pieces.
  KinetoSendResult Send(const KinetoPut& put, const std::function<bool()>& cancelled);
  // Removes the requested file, and its unfinished form if the process has ended. A file under the fallback
  // name stays, because we did not choose its name.
  void Remove();

  bool ProcessLives() const;

 private:
  enum class Place : uint8_t { kRequested, kFallback };
  // Opens the folders at the first call; called from Look and Remove.
  void OpenFolders();
  UserFolder& FolderOf(Place place) { return place == Place::kRequested ? *requested_ : *fallback_; }
  std::string NameOf(Place place) const;
  bool IsComplete(Place place);
  absl::StatusOr<Fd> Open();
  absl::Status SendAll(int fd, const KinetoPut& put, const std::function<bool()>& cancelled, uint64_t* sent);

  const KinetoFileSpec spec_;
  const KinetoFilesSettings settings_;
  const HostAccess& access_;
  UserFolders& folders_;
  const Clock& clock_;
  std::unique_ptr<UserFolder> requested_;
  std::unique_ptr<UserFolder> fallback_;
  Place found_ = Place::kRequested;
  bool seen_writing_ = false;
  bool whole_ = false;
  int64_t last_size_ = -1;
  MonoTime size_since_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_FILE_H_
