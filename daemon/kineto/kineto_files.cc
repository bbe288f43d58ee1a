#include "daemon/kineto/kineto_files.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace lockstep::daemon {
namespace {

constexpr Nanos kLastWait = Nanos::Millis(500);

}  // namespace

// A thread and its jobs. The thread shares ownership, because it may block in a file system for longer than
// the daemon lives.
class KinetoFiles::Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(User user, const KinetoFilesSettings& settings, std::shared_ptr<const HostAccess> access)
      : user_(user), settings_(settings), access_(std::move(access)) {}

  void Start() {
    std::thread([self = shared_from_this()] { self->Run(); }).detach();
  }

  // After this returns, no callback runs. The thread ends as soon as it can.
  void Stop() {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
    ended_.WaitFor(&mutex_, kLastWait, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return has_ended_; });
    MutexLock calling(&callbacks_);
    callbacks_off_ = true;
  }

  void Watch(uint64_t id, KinetoFileSpec spec, std::function<void(KinetoFileStage)> changed) {
    auto job = std::make_shared<Job>(std::move(spec));
    job->changed = std::move(changed);
    MutexLock lock(&mutex_);
    jobs_[id] = std::move(job);
    changed_.SignalAll();
  }

  void Send(uint64_t id, MonoTime until, KinetoPut put, std::function<void(KinetoSendResult)> done) {
    MutexLock lock(&mutex_);
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return;
    job->second->discard_until = until;
    job->second->put = std::move(put);
    job->second->done = std::move(done);
    job->second->ship = true;
    wake_ = true;
    changed_.SignalAll();
  }

  void Discard(uint64_t id, MonoTime until) {
    MutexLock lock(&mutex_);
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return;
    job->second->discard_until = until;
    job->second->unwanted = true;
    wake_ = true;
    changed_.SignalAll();
  }

 private:
  struct Job {
    explicit Job(KinetoFileSpec s) : spec(std::move(s)) {}
    const KinetoFileSpec spec;
    std::optional<KinetoFile> file;  // used only by the thread
    KinetoFileStage stage = KinetoFileStage::kNone;
    std::function<void(KinetoFileStage)> changed;
    // Guarded by the worker's mutex until the thread has seen `ship`.
    bool ship = false;
    KinetoPut put;
    std::function<void(KinetoSendResult)> done;
    MonoTime discard_until;
    std::atomic<bool> unwanted = false;
  };

  void Run();
  struct Orders {
    bool ship = false;
    MonoTime discard_until;
  };
  // Returns true if the job is over.
  bool Turn(Job& job, const Orders& orders, UserFolders& folders);
  template <typename Callback, typename... Args>
  void Call(const Callback& callback, Args... args) {
    MutexLock calling(&callbacks_);
    if (!callbacks_off_) callback(args...);
  }

  const User user_;
  const KinetoFilesSettings settings_;
  const std::shared_ptr<const HostAccess> access_;
  const SystemClock clock_;

  Mutex mutex_;
  CondVar changed_;
  CondVar ended_;
  std::map<uint64_t, std::shared_ptr<Job>> jobs_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_ = false;
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex callbacks_;
  bool callbacks_off_ ABSL_GUARDED_BY(callbacks_) = false;
};

void KinetoFiles::Worker::Run() {
  const absl::StatusOr<std::unique_ptr<UserFolders>> folders = access_->FoldersOf(user_.first, user_.second);
  MutexLock lock(&mutex_);
  while (!stopping_) {
    changed_.WaitFor(&mutex_, settings_.check_interval,
                     [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || wake_; });
    if (jobs_.empty())
      changed_.Wait(&mutex_,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !jobs_.empty(); });
    wake_ = false;
    const std::vector<std::pair<uint64_t, std::shared_ptr<Job>>> jobs(jobs_.begin(), jobs_.end());
    for (const auto& [id, job] : jobs) {
      const Orders orders{std::exchange(job->ship, false), job->discard_until};
      bool over = false;
      {
        MutexUnlock unlocked(&mutex_);
        // Without the user's identity no file is touched, so none ever appears.
        over = folders.ok() ? Turn(*job, orders, **folders) : orders.ship;
        if (!folders.ok() && orders.ship)
          Call(job->done, KinetoSendResult{0, std::string(folders.status().message())});
      }
      if (over) jobs_.erase(id);
      if (stopping_) break;
    }
  }
  has_ended_ = true;
  ended_.SignalAll();
}

bool KinetoFiles::Worker::Turn(Job& job, const Orders& orders, UserFolders& folders) {
  if (!job.file) job.file.emplace(job.spec, settings_, *access_, folders, clock_);
  if (orders.ship) {
    const auto put = [&](v1::TraceFile piece) {
      bool taken = true;
      Call([&] { taken = job.put(std::move(piece)); });
      return taken;
    };
    const KinetoSendResult result = job.file->Send(put, [&] { return job.unwanted || stopping_; });
    job.unwanted = true;
    Call(job.done, result);
  }
  if (job.unwanted) {
    job.file->Remove();
    return clock_.Monotonic() >= orders.discard_until || !job.file->ProcessLives();
  }
  const KinetoFileStage stage = job.file->CheckStage();
  if (stage != job.stage) {
    job.stage = stage;
    Call(job.changed, stage);
  }
  return false;
}

KinetoFiles::~KinetoFiles() {
  for (auto& [user, worker] : workers_) worker->Stop();
}

KinetoFiles::Worker* KinetoFiles::WorkerOf(const KinetoFileId& id) {
  const auto worker = workers_.find({id.uid, id.gid});
  return worker == workers_.end() || id.number == 0 ? nullptr : worker->second.get();
}

KinetoFileId KinetoFiles::Watch(KinetoFileSpec spec, std::function<void(KinetoFileStage)> changed) {
  const KinetoFileId id{spec.uid, spec.gid, next_number_++};
  std::shared_ptr<Worker>& worker = workers_[{spec.uid, spec.gid}];
  if (worker == nullptr) {
    worker = std::make_shared<Worker>(User{spec.uid, spec.gid}, settings_, access_);
    worker->Start();
  }
  worker->Watch(id.number, std::move(spec), std::move(changed));
  return id;
}

void KinetoFiles::Send(const KinetoFileId& id, MonoTime until, KinetoPut put,
                       std::function<void(KinetoSendResult)> done) {
  if (Worker* worker = WorkerOf(id)) worker->Send(id.number, until, std::move(put), std::move(done));
}

void KinetoFiles::Discard(const KinetoFileId& id, MonoTime until) {
  if (Worker* worker = WorkerOf(id)) worker->Discard(id.number, until);
}

}  // namespace lockstep::daemon
