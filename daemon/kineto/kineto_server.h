// KinetoServer answers PyTorch processes that ask whether a trace is wanted, in the place of dynolog
// (kineto_protocol.h).
//
// A client waits 90 ms for its answer, and reads a late one as the answer to its next poll. Therefore a
// separate thread receives, looks up an offer and sends, and does nothing else. The sender's identity comes
// from the kernel (SCM_CREDENTIALS), in the daemon's pid namespace. Polls reach the main thread in batches,
// one entry per process, so a flood costs no memory.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_SERVER_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_SERVER_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/time.h"
#include "daemon/kineto/kineto_protocol.h"
#include "daemon/kineto/kineto_sockets.h"
#include "daemon/node/host_access.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// All polls of one process since the last TakePolls.
struct KinetoPoll {
  ProcessId process;
  uid_t uid = 0;
  gid_t gid = 0;
  // As the process states, in its own pid namespace: its own pid, then its ancestors'.
  std::vector<int32_t> claimed_pids;
  int64_t job = 0;  // SLURM_JOB_ID, as the process states
  MonoTime at;      // time of the newest poll
  uint32_t polls = 0;
  // True if the newest poll would accept a request.
  bool idle = false;
  // True if its version reports busy; older ones always seem idle.
  bool reports_busy = false;
  // True if a poll since the last TakePolls was answered with an offer (`offered`) or reported busy (`busy`).
  bool offered = false;
  bool busy = false;
};

struct KinetoServerOptions {
  // Only processes of this user are served; with 0 (root's daemon), those of all users. Others receive the
  // answer that nothing is pending.
  uid_t owner = 0;
  size_t most_processes = 4096;
  size_t most_processes_per_user = 512;
};

class KinetoServer {
 public:
  // `ready` is called on the server's thread when TakePolls has polls again. All references outlive this.
  KinetoServer(KinetoServerOptions options, KinetoSockets sockets, const HostAccess& access,
               const Clock& clock, const ProcessTable& processes, std::function<void()> ready);
  ~KinetoServer();
  KinetoServer(const KinetoServer&) = delete;
  KinetoServer& operator=(const KinetoServer&) = delete;

  // Describe reports names that could not be bound. They do not end the daemon.
  void Start();

  // Answers each poll of the idle process with `config` until Withdraw. `config` has at most
  // kLargestKinetoConfig bytes.
  void Offer(const ProcessId& process, std::string config);
  void Withdraw(const ProcessId& process);
  // Forgets a process that is gone.
  void Forget(const ProcessId& process);
  // Returns the polls since the last call, one entry per process.
  std::vector<KinetoPoll> TakePolls();

  // Number of invalid datagrams since the daemon started. Any thread.
  uint64_t dropped() const;
  // Returns one sentence: the names at which it answers, those held by another process, and what it refused.
  std::string Describe() const;
  bool listening() const { return !sockets_.empty(); }

 private:
  struct Client {
    KinetoPoll poll;
    bool unread = false;
    std::string offer;
  };
  struct Datagram;

  void Run();
  // Returns false if there is nothing more to receive.
  bool ReceiveOne(const KinetoSocket& socket);
  void OnDatagram(const KinetoSocket& socket, const Datagram& datagram);
  // Returns the answer, or empty for no answer.
  std::string Answer(const KinetoRequest& request, const ucred& peer);
  std::string AnswerPoll(const KinetoRequest& request, const ucred& peer, const ProcessId& process);
  Client* FindOrAdd(const ProcessId& process, const ucred& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendTo(const KinetoSocket& socket, const Datagram& datagram, const std::string& answer) const;

  const KinetoServerOptions options_;
  const std::vector<KinetoSocket> sockets_;
  const std::vector<std::string> bind_errors_;
  const HostAccess& access_;
  const Clock& clock_;
  const ProcessTable& processes_;
  const std::function<void()> ready_;
  // set before Start() returns
  Fd wakeup_;

  mutable Mutex mutex_;
  std::map<ProcessId, Client> clients_ ABSL_GUARDED_BY(mutex_);
  std::map<uid_t, size_t> per_user_ ABSL_GUARDED_BY(mutex_);
  bool notified_ ABSL_GUARDED_BY(mutex_) =
      false;  // ready_ was called, and TakePolls has not been called since
  uint64_t invalid_ ABSL_GUARDED_BY(mutex_) = 0;      // invalid datagrams
  uint64_t other_users_ ABSL_GUARDED_BY(mutex_) = 0;  // polls of users that are not served
  uint64_t hidden_pids_ ABSL_GUARDED_BY(mutex_) =
      0;  // polls of processes whose pid the kernel does not report
  uint64_t over_limit_ ABSL_GUARDED_BY(mutex_) = 0;

  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // thread: owner
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_SERVER_H_
