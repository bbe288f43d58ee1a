#include "daemon/kineto/kineto_processes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"
#include "daemon/node/identity.h"
#include "daemon/node/process_traits.h"

namespace lockstep::daemon {
namespace {

constexpr char kTraceFolder[] = "KINETO_ONDEMAND_TRACE_DIR";
constexpr size_t kLongestProgram = 64;

// New clients write only below /tmp or this folder; old ones write anywhere.
std::string TraceFolderOf(const std::string& environment) {
  std::string folder = EnvironmentValue(environment, kTraceFolder);
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder.empty() || folder[0] != '/' ? "/tmp" : folder;
}

}  // namespace

KinetoProcesses::KinetoProcesses(KinetoProcessesSettings settings, EventLoop& loop, const Clock& clock,
                                 const HostAccess& access, const SchedulerJobs& jobs, KinetoServer& server,
                                 Registry& registry, KinetoEvents& events, Log& log)
    : settings_(settings),
      loop_(loop),
      clock_(clock),
      access_(access),
      jobs_(jobs),
      server_(server),
      registry_(registry),
      events_(events),
      log_(log) {}

KinetoProcesses::~KinetoProcesses() {
  if (check_) loop_.Cancel(*check_);
  for (auto& [process, known] : known_) loop_.Unwatch(known.death);
}

void KinetoProcesses::OnPolls(const std::vector<KinetoPoll>& polls) {
  for (const KinetoPoll& poll : polls) OnPoll(poll);
}

void KinetoProcesses::OnPoll(const KinetoPoll& poll) {
  const auto found = known_.find(poll.process);
  Known& known = found != known_.end() ? found->second : Add(poll);
  KinetoClient& client = known.client;
  if (client.last.at != MonoTime() && poll.polls > 0) {
    // Keeps the longest recent interval, so that a start derived from it is not too early. A pause in polling
    // counts as a long interval.
    const Nanos interval = (poll.at - client.last.at) / static_cast<int64_t>(poll.polls);
    client.interval = std::max(interval, client.interval * 3 / 4);
  }
  client.last = poll;
  if (!known.rank) BecomeRank(known);
  events_.OnKinetoPoll(poll);
}

KinetoProcesses::Known& KinetoProcesses::Add(const KinetoPoll& poll) {
  const ProcessId process = poll.process;
  Known& known = known_[process];
  known.client.client_pid = PidInItsNamespace(access_, process.pid);
  if (known.client.client_pid == 0)
    known.client.client_pid = poll.claimed_pids.empty() ? 0 : poll.claimed_pids[0];
  known.pidfd = OpenPidFd(process.pid);
  if (known.pidfd.ok()) {
    const auto watch =
        loop_.Watch(known.pidfd.get(), [this, process] { Remove(process, "the process ended"); });
    if (watch.ok()) known.death = *watch;
  }
  if (!check_) check_ = loop_.After(settings_.check_every, [this] { CheckSilence(); });
  return known;
}

void KinetoProcesses::BecomeRank(Known& known) {
  const ProcessId& id = known.client.last.process;
  if (!access_.CudaIsUp(id.pid)) return;
  const std::optional<ProcessInfo> info = FindProcess(access_, id.pid);
  if (!info || info->id != id) return;
  const std::optional<ProcessInfo> parent = FindProcess(access_, info->parent_pid);
  const std::string environment = EnvironmentLines(access_, id.pid);
  known.client.folder = TraceFolderOf(environment);
  known.rank = true;

  RegisteredProcess process;
  process.id = id;
  process.uid = known.client.last.uid;
  process.identity = Identify({environment, id, parent ? parent->id : ProcessId{}});
  if (const absl::Status own = jobs_.ApplyTo(*info, process.uid, process.identity); !own.ok()) {
    log_.Warning("kineto_refused", {{"pid", id.pid}, {"uid", process.uid}, {"reason", own.message()}});
    return;
  }
  std::string program = ReadProcFile(access_, id.pid, "comm");
  while (!program.empty() && program.back() == '\n') program.pop_back();
  process.program = CleanText(program, kLongestProgram);
  log_.Info("kineto_rank", {{"pid", id.pid},
                            {"uid", process.uid},
                            {"job", process.identity.job},
                            {"rank", process.identity.rank},
                            {"world", process.identity.world_size},
                            {"by", process.identity.rank_source},
                            {"folder", known.client.folder}});
  if (registry_.AddKineto(std::move(process))) events_.OnKinetoRanksChanged();
}

void KinetoProcesses::Remove(const ProcessId& process, const std::string& why) {
  const auto it = known_.find(process);
  if (it == known_.end()) return;
  loop_.Unwatch(it->second.death);
  const bool rank = it->second.rank;
  known_.erase(it);
  server_.Forget(process);
  if (!rank) return;
  log_.Info("kineto_gone", {{"pid", process.pid}, {"reason", why}});
  events_.OnKinetoGone(process, why);
  if (registry_.RemoveKineto(process)) events_.OnKinetoRanksChanged();
}

void KinetoProcesses::CheckSilence() {
  check_.reset();
  const MonoTime now = clock_.Monotonic();
  std::vector<ProcessId> silent;
  for (const auto& [process, known] : known_) {
    if (now - known.client.last.at >= settings_.silence) silent.push_back(process);
  }
  for (const ProcessId& process : silent) {
    Remove(process, absl::StrCat("it has not polled for ", settings_.silence.seconds(), " s"));
  }
  if (!known_.empty()) check_ = loop_.After(settings_.check_every, [this] { CheckSilence(); });
}

std::optional<KinetoClient> KinetoProcesses::Find(const ProcessId& process) const {
  const auto it = known_.find(process);
  if (it == known_.end() || !it->second.rank) return std::nullopt;
  return it->second.client;
}

bool KinetoProcesses::IsNamed(const KinetoPoll& poll, const std::vector<int32_t>& pids) const {
  const auto named = [&](int32_t pid) { return std::find(pids.begin(), pids.end(), pid) != pids.end(); };
  if (pids.empty() || named(0) || std::any_of(poll.claimed_pids.begin(), poll.claimed_pids.end(), named))
    return true;
  constexpr int kMostAncestors = 64;
  int32_t pid = poll.process.pid;
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    if (named(pid)) return true;
    const std::optional<ProcessInfo> info = FindProcess(access_, pid);
    if (!info) return false;
    pid = info->parent_pid;
  }
  return false;
}

std::vector<KinetoPoll> KinetoProcesses::Match(uid_t uid, int64_t job,
                                               const std::vector<int32_t>& pids) const {
  std::vector<KinetoPoll> matched;
  for (const auto& [process, known] : known_) {
    const KinetoPoll& last = known.client.last;
    if (!known.rank || (uid != 0 && last.uid != uid) || (job != 0 && last.job != job) || !IsNamed(last, pids))
      continue;
    matched.push_back(last);
  }
  return matched;
}

size_t KinetoProcesses::ranks() const {
  return static_cast<size_t>(
      std::count_if(known_.begin(), known_.end(), [](const auto& known) { return known.second.rank; }));
}

}  // namespace lockstep::daemon
