// PythonProfiles passes on the Python profiles that clients deliver with a capture, into the capture's spool.
//
// A client passes a sealed memory file. It cannot change any more and reads never block, so the main thread
// reads it. CheckProfile validates it first.
#ifndef LOCKSTEP_DAEMON_DRAIN_PYTHON_PROFILES_H_
#define LOCKSTEP_DAEMON_DRAIN_PYTHON_PROFILES_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/fd.h"
#include "base/time.h"
#include "daemon/drain/spool.h"
#include "daemon/loop/event_loop.h"
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

  // The process is in a capture from now on. A profile that arrives before Send or Forget belongs to that
  // capture.
  void Expect(const ProcessId& process, std::string capture, std::shared_ptr<Spool> spool);
  // Stores the profile. It is dropped if the process is not expected.
  void OnProfile(const ProcessId& process, const ring::Profile& message, Fd file);
  // Puts the profile for capture `number` into the spool, in pieces as there is room, or a piece with the
  // reason why it failed. Then calls `done`, possibly before it returns. Without a profile nothing is sent.
  void Send(const ProcessId& process, uint64_t number, std::function<void()> done);
  // Drops the profile; `done` is not called.
  void Forget(const ProcessId& process);

 private:
  struct Entry {
    std::string capture;
    std::shared_ptr<Spool> spool;
    std::optional<ring::Profile> message;
    Fd file;
    // Used while it is being sent.
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

// kInvalidArgument: `file` does not have the announced size, or can still be changed.
absl::Status CheckProfile(const ring::Profile& message, const Fd& file);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_DRAIN_PYTHON_PROFILES_H_
