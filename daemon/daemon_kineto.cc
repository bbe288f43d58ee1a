// The daemon's way to processes that are captured by PyTorch's own profiler.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/kineto_folder.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"
#include "daemon/daemon.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLongestName = 64;

// Part of a file's name and of a libkineto configuration; `capture` is whatever the aggregator calls it.
std::string SessionName(const std::string& capture) {
  std::string name;
  for (const char c : capture) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    name.push_back(plain ? c : '_');
  }
  name.resize(std::min(name.size(), kLongestName));
  return name.empty() ? "capture" : name;
}

// Clients bind sockets of their own in it, so with root's daemon everybody may write there, as in /tmp.
absl::Status PrepareKinetoFolder(const std::string& folder) {
  if (folder.size() > kLongestKinetoFolder) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " is too long for the sockets that PyTorch's clients make in it: at most ",
                     kLongestKinetoFolder, " characters"));
  }
  const mode_t mode = geteuid() == 0 ? 01777 : 0700;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", folder));
  }
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(folder, " is no folder of this user"));
  }
  return chmod(folder.c_str(), mode) == 0
             ? absl::OkStatus()
             : absl::ErrnoToStatus(errno, absl::StrCat("cannot set the mode of ", folder));
}

}  // namespace

absl::Status Daemon::OpenKineto(const ProcessTable& processes) {
  if (options_.kineto == Options::Kineto::kOff) return absl::OkStatus();
  KinetoServerOptions server;
  server.owner = owner_;
  server.abstract_name = options_.kineto == Options::Kineto::kOn;
  const std::string own = KinetoFolderOf(options_.socket);
  if (const absl::Status made = PrepareKinetoFolder(own); made.ok()) {
    server.folders.push_back(own);
  } else {
    log_.Warning("kineto_folder", {{"reason", made.message()}});
  }
  const char* theirs = std::getenv(kKinetoFolderVariable);
  if (theirs != nullptr && theirs[0] == '/' && own != theirs && options_.kineto == Options::Kineto::kOn) {
    server.folders.emplace_back(theirs);
  }
  kineto_server_ = std::make_unique<KinetoServer>(std::move(server), clock_, processes, [this] {
    loop_->Post([this] {
      if (kineto_processes_ != nullptr) kineto_processes_->OnPolls(kineto_server_->TakePolls());
    });
  });
  KinetoEvents& events = *this;
  kineto_processes_ = std::make_unique<KinetoProcesses>(KinetoProcessesSettings{}, *loop_, clock_, processes,
                                                        jobs_, *kineto_server_, registry_, events, log_);
  kineto_files_ = std::make_unique<KinetoFiles>(KinetoFilesSettings{});
  kineto_server_->Start();
  log_.Info("kineto", {{"state", kineto_server_->Describe()}});
  if (!options_.dyno_port) return absl::OkStatus();
  DynoHandler& handler = *this;
  dyno_ = std::make_unique<DynoServer>(*loop_, handler);
  LOCKSTEP_RETURN_IF_ERROR(dyno_->Start(*options_.dyno_port));
  log_.Info("dyno", {{"port", dyno_->port()}});
  return absl::OkStatus();
}

DynoTriggered Daemon::Trigger(uid_t caller, const DynoTrigger& trigger) {
  AuditLog::Call call = audit_.Begin("dyno", Local(caller),
                                     {{"job", trigger.job == 0 ? "" : absl::StrCat(trigger.job)},
                                      {"pids", absl::StrJoin(trigger.pids, ",")}});
  DynoTriggered done;
  for (const KinetoPoll& poll : kineto_processes_->Match(caller, trigger.job, trigger.pids)) {
    if (done.matched.size() >= static_cast<size_t>(trigger.most)) break;
    done.matched.push_back(poll.process.pid);
    if (!poll.idle || ByKineto(poll.process)) {
      ++done.busy;
      continue;
    }
    done.triggered.push_back(poll.process.pid);
    dyno_offers_[poll.process] = {clock_.Monotonic(), false};
    kineto_server_->Offer(poll.process, trigger.config);
  }
  call.End("ok", "", {{"captured_ranks", done.triggered.size()}});
  log_.Info("dyno_trigger", {{"uid", caller},
                             {"matched", done.matched.size()},
                             {"triggered", done.triggered.size()},
                             {"busy", done.busy}});
  return done;
}

void Daemon::EndDynoOffer(const ProcessId& process) {
  if (dyno_offers_.erase(process) > 0) kineto_server_->Withdraw(process);
}

std::string Daemon::DescribeKineto() const {
  return kineto_server_ == nullptr ? "off: lockstepd was started with --kineto off"
                                   : kineto_server_->Describe();
}

bool Daemon::ChoosePath(UplinkId, const ProcessId& process, const std::string& capture,
                        std::optional<uint32_t> framework) {
  if (!framework) return clients_->SegmentOf(process) != nullptr;
  if (kineto_processes_ == nullptr) return false;
  std::optional<KinetoClient> client = kineto_processes_->Find(process);
  if (!client) return false;
  EndDynoOffer(process);
  kineto_captures_.Choose(process, *std::move(client), SessionName(capture), *framework);
  return true;
}

bool Daemon::GoOverToKineto(UplinkId uplink, const ProcessId& process, const std::string& capture,
                            uint32_t framework) {
  if (!ChoosePath(uplink, process, capture, framework)) return false;
  drainer_->Abandon(process);
  python_profiles_.Forget(process);
  BeginDrain(uplink, process, capture);
  return true;
}

bool Daemon::StartIterations(const ProcessId& process, const KinetoIterations& iterations, HostTime give_up) {
  return kineto_captures_.OnStartIterations(process, iterations, give_up);
}

Nanos Daemon::Lead(const ProcessId& process) { return kineto_captures_.Lead(process); }

void Daemon::OnKinetoRanksChanged() { OnRanksChanged(); }

void Daemon::OnKinetoPoll(const KinetoPoll& poll) {
  if (const auto offer = dyno_offers_.find(poll.process); offer != dyno_offers_.end()) {
    offer->second.handed = offer->second.handed || poll.offered;
    // Taken; or an old client, which takes it without a word; or nobody wants it any more.
    const bool taken = offer->second.handed && (!poll.idle || !poll.tells_busy);
    if (taken || clock_.Monotonic() - offer->second.since > kDynoOfferLasts) EndDynoOffer(poll.process);
  }
  kineto_captures_.OnPoll(poll);
  KinetoChanged();
}

void Daemon::OnKinetoGone(const ProcessId& process, const std::string& why) {
  EndDynoOffer(process);
  if (!ByKineto(process)) return;
  // What it had finished by then is sent all the same.
  captures_.OnClientGone(process, why);
  CapturesChanged();
}

void Daemon::Offer(const ProcessId& process, std::string config) {
  kineto_server_->Offer(process, std::move(config));
}

void Daemon::Withdraw(const ProcessId& process) { kineto_server_->Withdraw(process); }

KinetoFileId Daemon::WatchFile(KinetoFileSpec spec) {
  const ProcessId process = spec.process;
  // The first look may come before the number is known here.
  auto number = std::make_shared<std::atomic<uint64_t>>(0);
  const KinetoFileId file =
      kineto_files_->Watch(std::move(spec), [this, process, number](KinetoFileStage stage) {
        loop_->Post([this, process, number, stage] {
          kineto_captures_.OnFile(process, *number, stage);
          KinetoChanged();
        });
      });
  *number = file.number;
  return file;
}

void Daemon::DiscardFile(const KinetoFileId& file, MonoTime until) { kineto_files_->Discard(file, until); }

void Daemon::TellState(const ProcessId& process, const ring::State& state) {
  loop_->Post([this, process, state] {
    if (!ByKineto(process)) return;
    captures_.OnClientState(process, state);
    CapturesChanged();
  });
}

void Daemon::KinetoChanged() {
  if (kineto_timer_) loop_->Cancel(*kineto_timer_);
  kineto_timer_.reset();
  const std::optional<MonoTime> next = kineto_captures_.NextDeadline();
  if (!next) return;
  kineto_timer_ = loop_->After(std::max(*next - clock_.Monotonic(), Nanos()), [this] {
    kineto_timer_.reset();
    kineto_captures_.Tick();
    KinetoChanged();
  });
}

void Daemon::EndKineto(const ProcessId& process, uint64_t number, const HostInterval& window) {
  const KinetoCaptures::Taken taken = kineto_captures_.Take(process);
  const KinetoTarget target = kineto_targets_[process];
  kineto_targets_.erase(process);
  v1::CaptureEnd end;
  end.set_capture(target.capture);
  ToProto(process, end.mutable_process());
  end.set_t0_host_ns(window.start.ns());
  end.set_t1_host_ns(window.end.ns());
  const auto finish = [this, process, number, target, end, taken](const KinetoShipped& shipped) {
    log_.Info("kineto_shipped",
              {{"pid", process.pid}, {"bytes", shipped.bytes}, {"trouble", shipped.trouble}});
    kineto_counts_.bytes += shipped.bytes;
    ++(!taken.whole && shipped.bytes == 0 ? kineto_counts_.missing
       : shipped.trouble.empty()          ? kineto_counts_.sent
                                          : kineto_counts_.failed);
    v1::CaptureEnd told = end;
    // Where there was none to be sent, the process's state says why.
    if (!shipped.trouble.empty() && (taken.whole || shipped.bytes > 0)) {
      // How many records the file held nobody can tell: it counts as one, of no kind.
      v1::Loss* loss = told.add_losses();
      loss->set_stage("client");
      loss->set_records(1);
      loss->set_reason(CleanText(shipped.trouble, 512));
      loss->set_from_ns(told.t0_host_ns());
      loss->set_to_ns(told.t1_host_ns());
    }
    captures_.OnDrained(process, number, 0);
    target.spool->AddEnd(std::move(told));
    CapturesChanged();
  };
  // Posted: the caller is in the middle of its own bookkeeping.
  if (taken.file.number == 0) return loop_->Post([finish] { finish({}); });
  const auto put = [process, target](v1::TraceFile piece) {
    piece.set_capture(target.capture);
    ToProto(process, piece.mutable_process());
    return target.spool->AddTraceFile(std::move(piece));
  };
  kineto_files_->Ship(taken.file, taken.until, put, [this, finish](KinetoShipped shipped) {
    loop_->Post([finish, shipped = std::move(shipped)] { finish(shipped); });
  });
}

}  // namespace lockstep::daemon
