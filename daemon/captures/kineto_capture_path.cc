#include "daemon/captures/kineto_capture_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/kineto_folder.h"
#include "base/log/clean_text.h"
#include "base/rpc/status_macros.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kLongestName = 64;

// Makes a text that is safe in a file's name and in a libkineto configuration. The aggregator may choose any
// text for `capture`.
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

// Clients bind their own sockets in it, so all users may write to the folder of root's daemon, as to /tmp.
absl::Status PrepareKinetoFolder(const std::string& folder) {
  if (folder.size() > kLongestKinetoFolder) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder, " is too long: PyTorch's clients create sockets in it, so give a path of at most ",
        kLongestKinetoFolder, " characters"));
  }
  const mode_t mode = geteuid() == 0 ? 01777 : 0700;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", folder));
  }
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(folder, " is not a folder of this user"));
  }
  return chmod(folder.c_str(), mode) == 0
             ? absl::OkStatus()
             : absl::ErrnoToStatus(errno, absl::StrCat("cannot set the mode of ", folder));
}

}  // namespace

KinetoCapturePath::KinetoCapturePath(EventLoop& loop, const Clock& clock, Captures& captures,
                                     std::function<void()> ranks_changed, AuditLog& audit, Log& log)
    : loop_(loop),
      clock_(clock),
      captures_(captures),
      ranks_changed_(std::move(ranks_changed)),
      audit_(audit),
      log_(log),
      kineto_captures_(clock, *this),
      timer_(loop, clock, [this] {
        kineto_captures_.Tick();
        UpdateTimer();
      }) {}

KinetoSockets KinetoCapturePath::OpenSockets(const KinetoPathOptions& options, AbstractName abstract_name) {
  std::vector<std::string> folders;
  const absl::Status made = PrepareKinetoFolder(options.folder);
  if (made.ok()) folders.push_back(options.folder);
  const char* dynolog_folder = std::getenv(kKinetoFolderVariable);
  if (dynolog_folder != nullptr && dynolog_folder[0] == '/' && options.folder != dynolog_folder &&
      options.well_known_names) {
    folders.emplace_back(dynolog_folder);
  }
  KinetoSockets sockets =
      OpenKinetoSockets(options.well_known_names ? abstract_name : AbstractName::kNo, folders);
  if (!made.ok()) sockets.errors.emplace_back(made.message());
  return sockets;
}

void KinetoCapturePath::Open(const KinetoPathOptions& options, KinetoSockets sockets,
                             const std::shared_ptr<const HostAccess>& access, const ProcessTable& processes,
                             const SchedulerJobs& jobs, Registry& registry) {
  KinetoServerOptions server;
  server.owner = options.owner;
  server_ = std::make_unique<KinetoServer>(server, std::move(sockets), *access, clock_, processes, [this] {
    loop_.Post([this] {
      if (processes_ != nullptr) processes_->OnPolls(server_->TakePolls());
    });
  });
  KinetoEvents& events = *this;
  processes_ = std::make_unique<KinetoProcesses>(KinetoProcessesSettings{}, loop_, clock_, *access, jobs,
                                                 *server_, registry, events, log_);
  files_ = std::make_unique<KinetoFiles>(KinetoFilesSettings{}, access);
  dyno_offers_ = std::make_unique<DynoOffers>(clock_, *processes_, kineto_captures_, *server_, audit_, log_);
  server_->Start();
  log_.Info("kineto", {{"state", server_->Describe()}});
}

absl::Status KinetoCapturePath::OpenDyno(uint16_t port) {
  dyno_server_ = std::make_unique<DynoServer>(loop_, *dyno_offers_, log_);
  LOCKSTEP_RETURN_IF_ERROR(dyno_server_->Start(port));
  log_.Info("dyno", {{"port", dyno_server_->port()}});
  return absl::OkStatus();
}

std::string KinetoCapturePath::Describe() const {
  return server_ == nullptr ? "off: lockstepd was started with --kineto off" : server_->Describe();
}

size_t KinetoCapturePath::ranks() const { return processes_ == nullptr ? 0 : processes_->ranks(); }

uint64_t KinetoCapturePath::dropped_datagrams() const { return server_ == nullptr ? 0 : server_->dropped(); }

// ---- CapturePath

bool KinetoCapturePath::Choose(const ProcessId& process, const std::string& capture, uint32_t framework) {
  if (processes_ == nullptr) return false;
  std::optional<KinetoClient> client = processes_->Find(process);
  if (!client) return false;
  dyno_offers_->End(process);
  kineto_captures_.Choose(process, *std::move(client), SessionName(capture), framework);
  return true;
}

// Passes on the result of a call that may have changed a deadline.
bool KinetoCapturePath::Updated(bool result) {
  UpdateTimer();
  return result;
}

bool KinetoCapturePath::Send(const ProcessId& process, const ring::Arm& message) {
  return Updated(kineto_captures_.OnArm(process, message));
}
bool KinetoCapturePath::Send(const ProcessId& process, const ring::Start& message) {
  return Updated(kineto_captures_.OnStart(process, message));
}
bool KinetoCapturePath::Send(const ProcessId& process, const ring::Stop& message) {
  return Updated(kineto_captures_.OnStop(process, message));
}

bool KinetoCapturePath::StartIterations(const ProcessId& process, const KinetoIterations& iterations,
                                        HostTime give_up) {
  return Updated(kineto_captures_.OnStartIterations(process, iterations, give_up));
}

// The profiler begins at a time, or counts iterations.
bool KinetoCapturePath::KnowsTriggers(const ProcessId&) const { return false; }

Nanos KinetoCapturePath::Lead(const ProcessId& process) const { return kineto_captures_.Lead(process); }

uint64_t KinetoCapturePath::BeginDrain(const ProcessId& process, const std::string& capture,
                                       std::shared_ptr<Spool> spool) {
  targets_[process] = {capture, std::move(spool)};
  return 0;
}

// A file belongs to one request, so an earlier capture leaves nothing in it.
void KinetoCapturePath::RestartDrain(const ProcessId&) {}

void KinetoCapturePath::EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) {
  const KinetoCaptures::FileResult taken = kineto_captures_.Take(process);
  const Target target = targets_[process];
  targets_.erase(process);
  UpdateTimer();
  v1::CaptureEnd end;
  end.set_capture(target.capture);
  ToProto(process, end.mutable_process());
  end.set_t0_host_ns(window.start.ns());
  end.set_t1_host_ns(window.end.ns());
  const auto finish = [this, process, number, target, end, taken](const KinetoSendResult& result) {
    log_.Info("kineto_shipped", {{"pid", process.pid}, {"bytes", result.bytes}, {"trouble", result.error}});
    counts_.bytes += result.bytes;
    ++(!taken.whole && result.bytes == 0 ? counts_.missing
       : result.error.empty()            ? counts_.sent
                                         : counts_.failed);
    v1::CaptureEnd last = end;
    // If no file was sent, the process's state already gives the reason.
    if (!result.error.empty() && (taken.whole || result.bytes > 0)) {
      // The number of records in the file is unknown, so the loss counts one record without a kind.
      v1::Loss* loss = last.add_losses();
      loss->set_stage("client");
      loss->set_records(1);
      loss->set_reason(CleanText(result.error, 512));
      loss->set_from_ns(last.t0_host_ns());
      loss->set_to_ns(last.t1_host_ns());
    }
    captures_.OnDrained(process, number, 0);
    target.spool->AddEnd(std::move(last));
  };
  // Posted, because the caller is updating its own state.
  if (taken.file.number == 0) return loop_.Post([finish] { finish({}); });
  const auto put = [process, target](v1::TraceFile piece) {
    piece.set_capture(target.capture);
    ToProto(process, piece.mutable_process());
    return target.spool->AddTraceFile(std::move(piece));
  };
  files_->Send(taken.file, taken.until, put, [this, finish](KinetoSendResult result) {
    loop_.Post([finish, result = std::move(result)] { finish(result); });
  });
}

void KinetoCapturePath::AbandonDrain(const ProcessId& process) {
  kineto_captures_.Forget(process);
  targets_.erase(process);
  UpdateTimer();
}

// ---- KinetoEvents

void KinetoCapturePath::OnKinetoRanksChanged() { ranks_changed_(); }

void KinetoCapturePath::OnKinetoPoll(const KinetoPoll& poll) {
  dyno_offers_->OnPoll(poll);
  kineto_captures_.OnPoll(poll);
  UpdateTimer();
}

void KinetoCapturePath::OnKinetoGone(const ProcessId& process, const std::string& why) {
  dyno_offers_->End(process);
  if (!kineto_captures_.Holds(process)) return;
  // A file that it finished before it ended is still sent.
  captures_.OnClientGone(process, why);
}

// ---- KinetoPorts

void KinetoCapturePath::Offer(const ProcessId& process, std::string config) {
  server_->Offer(process, std::move(config));
}

void KinetoCapturePath::Withdraw(const ProcessId& process) { server_->Withdraw(process); }

KinetoFileId KinetoCapturePath::WatchFile(KinetoFileSpec spec) {
  const ProcessId process = spec.process;
  // The first callback may run before Watch has returned the number.
  auto number = std::make_shared<std::atomic<uint64_t>>(0);
  const KinetoFileId file = files_->Watch(std::move(spec), [this, process, number](KinetoFileStage stage) {
    loop_.Post([this, process, number, stage] {
      kineto_captures_.OnFile(process, *number, stage);
      UpdateTimer();
    });
  });
  *number = file.number;
  return file;
}

void KinetoCapturePath::DiscardFile(const KinetoFileId& file, MonoTime until) {
  files_->Discard(file, until);
}

void KinetoCapturePath::SendState(const ProcessId& process, const ring::State& state) {
  loop_.Post([this, process, state] {
    if (kineto_captures_.Holds(process)) captures_.OnClientState(process, state);
  });
}

}  // namespace lockstep::daemon
