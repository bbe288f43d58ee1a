// The registry holds the processes that can be captured now, by our client or by PyTorch's profiler. Each
// process has one entry.
#ifndef LOCKSTEP_DAEMON_NODE_REGISTRY_H_
#define LOCKSTEP_DAEMON_NODE_REGISTRY_H_

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
  bool client = true;   // our client is loaded and connected
  bool kineto = false;  // it polls for PyTorch's on-demand traces
};

struct RegisteredProcess {
  ProcessId id;
  uid_t uid = 0;  // from the kernel
  Identity identity;
  std::string program;
  std::string client_version;
  uint32_t layout_minor = 0;  // minor version of the ring layout that its client uses
  uint32_t cupti_version = 0;
  // The tool that held CUPTI when the client last tried to open it; empty: CUPTI was free.
  std::string cupti_holder;
  Paths paths;
  // Starts at 1, and grows by 1 each time this rank of the job comes back as a new process.
  uint32_t incarnation = 1;
};

// The ranks that a caller may see and capture: those of one user, or all (for root and configured
// aggregators).
class RankFilter {
 public:
  static RankFilter All() { return RankFilter(true, 0); }
  static RankFilter Of(uid_t uid) { return uid == 0 ? All() : RankFilter(false, uid); }
  bool Allows(const RegisteredProcess& process) const { return all_ || process.uid == uid_; }

 private:
  RankFilter(bool all, uid_t uid) : all_(all), uid_(uid) {}
  bool all_;
  uid_t uid_;
};

// The main thread.
class Registry {
 public:
  // Sets the incarnation. Two living processes with the same rank are both kept, with the same incarnation. A
  // process that reconnects keeps its incarnation.
  const RegisteredProcess& Add(RegisteredProcess process);
  // Called when the process's client has disconnected. The entry remains while the process polls for
  // on-demand traces.
  void Remove(const ProcessId& id);
  // Like Add and Remove, for a process that polls for on-demand traces. A process has one entry even if it
  // can be captured both ways, and the client's data in it stays unchanged. Returns true if the entry
  // changed.
  bool AddKineto(RegisteredProcess process);
  bool RemoveKineto(const ProcessId& id);
  // Returns null if the process is not registered. The pointer is valid until the process is removed.
  RegisteredProcess* Find(const ProcessId& id);
  // Returns true if our client in the process with this pid is connected.
  bool HasPid(int32_t pid) const;
  // Returns true if the process with this pid polls for on-demand traces.
  bool HasProfiledPid(int32_t pid) const;
  size_t size() const { return processes_.size(); }
  // Sorted by job, rank and pid.
  std::vector<v1::Rank> Ranks(const RankFilter& filter) const;

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

#endif  // LOCKSTEP_DAEMON_NODE_REGISTRY_H_
