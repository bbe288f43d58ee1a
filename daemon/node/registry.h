// The processes that can be captured now, by our client or by PyTorch's profiler: one entry each.
#ifndef LOCKSTEP_DAEMON_REGISTRY_H_
#define LOCKSTEP_DAEMON_REGISTRY_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/node/identity.h"
#include "daemon/node/process.h"
#include "lockstep/v1/common.pb.h"

namespace lockstep::daemon {

// How a process can be captured.
struct Paths {
  bool client = true;   // our client is in it and connected
  bool kineto = false;  // it asks for PyTorch's on-demand traces
};

struct RegisteredProcess {
  ProcessId id;
  uid_t uid = 0;  // from the kernel
  Identity identity;
  std::string program;
  std::string client_version;
  uint32_t layout_minor = 0;  // of the handshake that its client speaks
  uint32_t cupti_version = 0;
  // Who held CUPTI when its client was last asked to open it; empty: nobody.
  std::string cupti_holder;
  Paths paths;
  // 1, and one more each time this rank of the job came back as a new process.
  uint32_t incarnation = 1;
};

// Which ranks somebody may see and capture: those of one user, or all (root, and configured aggregators).
class Scope {
 public:
  static Scope All() { return Scope(true, 0); }
  static Scope Of(uid_t uid) { return uid == 0 ? All() : Scope(false, uid); }
  bool Allows(const RegisteredProcess& process) const { return all_ || process.uid == uid_; }

 private:
  Scope(bool all, uid_t uid) : all_(all), uid_(uid) {}
  bool all_;
  uid_t uid_;
};

// The main thread.
class Registry {
 public:
  // Sets the incarnation. Two living processes with one rank both stay, with the same incarnation; a process
  // that connects again keeps the one it had.
  const RegisteredProcess& Add(RegisteredProcess process);
  // Its client is gone; it stays while it asks for on-demand traces.
  void Remove(const ProcessId& id);
  // The same for a process that asks for on-demand traces: one process is one entry, however many ways lead
  // to it. What its client said of it is not changed. True when that is news.
  bool AddKineto(RegisteredProcess process);
  bool RemoveKineto(const ProcessId& id);
  // Null when it is not here. Valid until it is removed.
  RegisteredProcess* Find(const ProcessId& id);
  // Is our client in the process with this number connected now?
  bool HasPid(int32_t pid) const;
  // Does the process with this number ask for on-demand traces?
  bool HasProfiledPid(int32_t pid) const;
  size_t size() const { return processes_.size(); }
  // By job, rank, pid.
  std::vector<v1::Rank> Ranks(const Scope& scope) const;

 private:
  using RankName = std::tuple<uid_t, std::string, int32_t>;
  struct History {
    uint32_t incarnation = 0;
    std::map<ProcessId, uint32_t> living;
    ProcessId last_gone;
    uint32_t last_gone_incarnation = 0;
  };
  static constexpr size_t kMostHistories = 4096;

  static RankName NameOf(const RegisteredProcess& p) { return {p.uid, p.identity.job, p.identity.rank}; }
  void ForgetOldHistories();
  void Erase(const ProcessId& id);

  std::map<ProcessId, RegisteredProcess> processes_;
  std::map<RankName, History> histories_;
  std::deque<RankName> history_order_;  // oldest first
};

void ToProto(const RegisteredProcess& process, v1::Rank* rank);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_REGISTRY_H_
