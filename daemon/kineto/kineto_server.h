// Answers PyTorch processes that ask whether a trace is wanted: dynolog's place in its protocol
// (kineto_protocol.h).
//
// A client waits 90 ms for its answer and takes a late one for the answer to its next question, so nothing
// may come in between: a thread of its own that receives, looks up an offer and sends, and does nothing else.
// Who asks comes from the kernel (SCM_CREDENTIALS), in the daemon's pid namespace. What was asked goes to the
// main thread in batches; a flood costs the flooder answers and nobody memory.
#ifndef LOCKSTEP_DAEMON_KINETO_SERVER_H_
#define LOCKSTEP_DAEMON_KINETO_SERVER_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/time.h"
#include "daemon/kineto/kineto_protocol.h"
#include "daemon/node/process.h"

namespace lockstep::daemon {

// All that one process asked since it was last looked at.
struct KinetoPoll {
  ProcessId process;
  uid_t uid = 0;
  gid_t gid = 0;
  // In its own pid namespace, as it says: its own, then its ancestors'.
  std::vector<int32_t> claimed_pids;
  int64_t job = 0;  // SLURM_JOB_ID, as it says
  MonoTime at;      // of the newest
  uint32_t polls = 0;
  // As of the newest: would it take a request now?
  bool idle = false;
  // It is of a version that says when it is busy; older ones seem idle all the time.
  bool tells_busy = false;
  // Some poll since then was answered with an offer; some poll said that it is busy.
  bool offered = false;
  bool busy = false;
};

struct KinetoServerOptions {
  // Whose processes are served: everybody's for root's daemon, else this user's. Others hear that nothing is
  // pending.
  uid_t owner = 0;
  // Bind dynolog's own name in the abstract namespace, which one process per network namespace can have.
  bool abstract_name = true;
  // Each gets a socket "dynolog" in it; folders are made by the caller.
  std::vector<std::string> folders;
  size_t most_processes = 4096;
  size_t most_processes_per_user = 512;
};

class KinetoServer {
 public:
  // `ready` is called on the server's thread when TakePolls has something again. Both references outlive
  // this.
  KinetoServer(KinetoServerOptions options, const Clock& clock, const ProcessTable& processes,
               std::function<void()> ready);
  ~KinetoServer();
  KinetoServer(const KinetoServer&) = delete;
  KinetoServer& operator=(const KinetoServer&) = delete;

  // Binds what can be bound; the rest is told by Describe. Never fails the daemon.
  void Start();

  // What the process gets when it next asks and is idle, again and again until it is withdrawn. At most
  // kLargestKinetoConfig.
  void Offer(const ProcessId& process, std::string config);
  void Withdraw(const ProcessId& process);
  // Forgets a process that is gone.
  void Forget(const ProcessId& process);
  // By process; what is taken is told once.
  std::vector<KinetoPoll> TakePolls();

  // Datagrams that are no requests, since the daemon started. Any thread.
  uint64_t dropped() const;
  // Where it answers, who else has the name, and what it refused; one sentence.
  std::string Describe() const;
  bool listening() const { return !sockets_.empty(); }

 private:
  struct Socket {
    Fd fd;
    std::string folder;  // empty: the abstract name
    dev_t device = 0;
    ino_t inode = 0;
  };
  struct Client {
    KinetoPoll poll;
    bool news = false;
    std::string offer;
  };
  struct Datagram;

  void Bind(const std::string& folder);
  void Run();
  // False when there is nothing more to receive.
  bool ReceiveOne(const Socket& socket);
  void OnDatagram(const Socket& socket, const Datagram& datagram);
  // What to answer; empty: nothing.
  std::string Answer(const KinetoRequest& request, const ucred& peer);
  std::string AnswerPoll(const KinetoRequest& request, const ucred& peer, const ProcessId& process);
  Client* FindOrAdd(const ProcessId& process, const ucred& peer);
  void SendTo(const Socket& socket, const Datagram& datagram, const std::string& answer) const;
  void SweepLitter(const Socket& socket) const;

  const KinetoServerOptions options_;
  const Clock& clock_;
  const ProcessTable& processes_;
  const std::function<void()> ready_;
  Fd wakeup_;
  std::vector<Socket> sockets_;        // fixed after Start
  std::vector<std::string> troubles_;  // fixed after Start

  mutable std::mutex mutex_;
  std::map<ProcessId, Client> clients_;
  std::map<uid_t, size_t> per_user_;
  bool told_ = false;       // ready_ was called, and TakePolls not yet
  uint64_t damaged_ = 0;    // datagrams that are no requests
  uint64_t strangers_ = 0;  // polls of users that are not served
  uint64_t unseen_ = 0;     // polls of processes whose pid the kernel cannot tell
  uint64_t turned_away_ = 0;

  bool stopping_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_SERVER_H_
