// Profiles of Python that clients hand over with a capture, on their way into its spool.
//
// A client gives a memory file that it can change no more, so it is read where everything else runs: no read
// waits for anybody. Everything about it is a claim until it was looked at.
#ifndef LOCKSTEP_DAEMON_PYTHON_PROFILES_H_
#define LOCKSTEP_DAEMON_PYTHON_PROFILES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/fd.h"
#include "base/time.h"
#include "daemon/drain/spool.h"
#include "daemon/node/event_loop.h"
#include "daemon/node/process.h"
#include "wire/ring/handshake.h"

namespace lockstep::daemon {

// The main thread. Each process is in one capture at a time.
class PythonProfiles {
 public:
  // Both outlive this.
  PythonProfiles(EventLoop& loop, const Clock& clock) : loop_(loop), clock_(clock) {}
  ~PythonProfiles();
  PythonProfiles(const PythonProfiles&) = delete;
  PythonProfiles& operator=(const PythonProfiles&) = delete;

  // The process is in a capture from now on: what it hands over until Send or Forget belongs there.
  void Expect(const ProcessId& process, std::string capture, std::shared_ptr<Spool> spool);
  // Of a process that is not expected it is dropped.
  void OnProfile(const ProcessId& process, const ring::Profile& message, Fd file);
  // Puts what capture `number` has of it into the spool, in pieces as there is room, or why there is none;
  // then calls `done`, perhaps at once. A process that handed over nothing has nothing to send.
  void Send(const ProcessId& process, uint64_t number, std::function<void()> done);
  // Not wanted any more; `done` is not called.
  void Forget(const ProcessId& process);

 private:
  struct Entry {
    std::string capture;
    std::shared_ptr<Spool> spool;
    std::optional<ring::Profile> message;
    Fd file;
    // While it is sent.
    uint64_t offset = 0;
    MonoTime give_up;
    std::function<void()> done;
    std::optional<EventLoop::TimerId> timer;
  };

  void SendPieces(const ProcessId& process);
  absl::Status SendPiece(const ProcessId& process, Entry& entry, bool* sent);
  void GiveUp(const ProcessId& process, Entry& entry, const std::string& why);
  void Finish(const ProcessId& process);

  EventLoop& loop_;
  const Clock& clock_;
  std::map<ProcessId, Entry> entries_;
};

// kInvalidArgument: `file` is not as large as it was said to be, or can still be changed.
absl::Status CheckProfile(const ring::Profile& message, const Fd& file);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_PYTHON_PROFILES_H_
