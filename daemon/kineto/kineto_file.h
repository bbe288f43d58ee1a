// One trace file that libkineto leaves on disk: whether it is there, whose it is, its bytes.
//
// Everything about it is its owner's doing: names may be links, pipes or another's files. Only a regular file
// of the client's own user with one name is read. Calls may hang where the owner rules the file system: see
// KinetoFiles, which calls them.
#ifndef LOCKSTEP_DAEMON_KINETO_FILE_H_
#define LOCKSTEP_DAEMON_KINETO_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/time.h"
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
  // A file that stands under the client's fallback name and is older is somebody else's.
  HostTime not_before;
};

struct KinetoFilesSettings {
  std::string proc = "/proc";
  std::string fallback_folder = "/tmp";
  Nanos look_every = Nanos::Millis(100);
  // Clients that write under the final name at once: it is whole when it has not grown for so long.
  Nanos settled = Nanos::Seconds(1);
  // For room in the spool; the file waits on disk.
  Nanos wait_for_room = Nanos::Seconds(60);
  uint64_t most_bytes = uint64_t{8} << 30;  // of a file
};

enum class KinetoFileStage : uint8_t { kNone, kWriting, kWhole };

// How sending ended.
struct KinetoShipped {
  uint64_t bytes = 0;   // sent
  std::string trouble;  // not empty: there is no whole file at the other end, and why
};

// Takes one piece (capture and process are the callee's to set); false: no room now, try again. A piece that
// gives up is always taken.
using KinetoPut = std::function<bool(v1::TraceFile piece)>;

// One thread.
class KinetoFile {
 public:
  KinetoFile(KinetoFileSpec spec, const KinetoFilesSettings& settings, const Clock& clock)
      : spec_(std::move(spec)), settings_(settings), clock_(clock) {}

  // Opens the folder at the first call, when the process should still live.
  KinetoFileStage Look();
  // Compressed where it is not yet. `cancelled` is asked between pieces.
  KinetoShipped Send(const KinetoPut& put, const std::function<bool()>& cancelled);
  // What we asked for, and what an ended process has left half-written. A file under the fallback name stays:
  // it is not of our naming.
  void Remove();

  bool ProcessLives() const;

 private:
  enum class Named { kOurs, kFallback };
  // Once, by whatever comes first.
  void OpenFolders();
  Fd OpenFolder(const std::string& folder) const;
  int FolderOf(Named named) const { return named == Named::kOurs ? folder_.get() : fallback_folder_.get(); }
  std::string NameOf(Named named) const;
  bool LooksWhole(Named named);
  absl::StatusOr<Fd> Open();
  absl::Status SendAll(int fd, const KinetoPut& put, const std::function<bool()>& cancelled, uint64_t* sent);

  const KinetoFileSpec spec_;
  const KinetoFilesSettings settings_;
  const Clock& clock_;
  bool opened_ = false;
  Fd folder_;
  Fd fallback_folder_;
  Named found_ = Named::kOurs;
  bool seen_writing_ = false;
  bool whole_ = false;
  int64_t last_size_ = -1;
  MonoTime size_since_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_FILE_H_
