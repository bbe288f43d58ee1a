#include "daemon/stacks/thread_snapshot.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kStackBytes = 64u << 10;
constexpr size_t kPartBytes = 4u << 10;
constexpr size_t kLongestThreadName = 16;
constexpr int kMostWaits = 200;
constexpr auto kMostTime = std::chrono::milliseconds(300);
constexpr timespec kWait = {.tv_sec = 0, .tv_nsec = 250'000};

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads;
  for (const std::filesystem::directory_entry& entry : FolderEntries(absl::StrCat("/proc/", pid, "/task"))) {
    pid_t tid = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &tid)) threads.push_back(tid);
  }
  // The main thread has the process's number, which is the smallest unless the numbers have wrapped.
  std::sort(threads.begin(), threads.end(),
            [pid](pid_t a, pid_t b) { return a == pid ? b != pid : b != pid && a < b; });
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  return threads;
}

std::string NameOf(pid_t pid, pid_t tid) {
  std::string name;
  std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/task/", tid, "/comm")), name);
  return CleanText(name, kLongestThreadName);
}

// Traces a thread while it exists, and stops it.
class TracedThread {
 public:
  explicit TracedThread(pid_t tid) : tid_(tid) {
    error_ = ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0 ? 0 : errno;
    if (error_ != 0) return;
    if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return;
    for (int i = 0; i < kMostWaits && !stopped_; ++i) {
      int status = 0;
      const pid_t changed = waitpid(tid, &status, __WALL | WNOHANG);
      if (changed < 0) return;
      if (changed == 0) nanosleep(&kWait, nullptr);
      // Any stop will do, and a signal that caused it is delivered at the end.
      stopped_ = changed == tid && WIFSTOPPED(status);
      if (stopped_ && status >> 16 == 0) signal_ = WSTOPSIG(status);
    }
  }
  ~TracedThread() {
    // A thread that did not stop is released at the end of the tracing thread.
    if (stopped_) ptrace(PTRACE_DETACH, tid_, nullptr, static_cast<intptr_t>(signal_));
  }
  TracedThread(const TracedThread&) = delete;
  TracedThread& operator=(const TracedThread&) = delete;

  int error() const { return error_; }  // of the attempt to trace it
  bool stopped() const { return stopped_; }

 private:
  const pid_t tid_;
  int error_ = 0;
  bool stopped_ = false;
  int signal_ = 0;
};

#ifdef __x86_64__
bool ReadRegisters(ThreadSnapshot& thread) {
  user_regs_struct read = {};
  iovec to = {&read, sizeof(read)};
  if (ptrace(PTRACE_GETREGSET, thread.tid, NT_PRSTATUS, &to) != 0) return false;
  const uint64_t registers[] = {read.rax, read.rdx, read.rcx, read.rbx, read.rsi, read.rdi,
                                read.rbp, read.rsp, read.r8,  read.r9,  read.r10, read.r11,
                                read.r12, read.r13, read.r14, read.r15, read.rip};
  static_assert(sizeof(registers) == sizeof(thread.registers));
  std::memcpy(thread.registers, registers, sizeof(registers));
  return true;
}
#else
bool ReadRegisters(ThreadSnapshot&) { return false; }
#endif

// Copies up to the end of the stack's mapping.
void CopyStack(const Memory& memory, ThreadSnapshot& thread) {
  thread.stack.resize(kStackBytes);
  size_t size = 0;
  while (size < kStackBytes) {
    const uint64_t at = thread.stack_pointer() + size;
    const size_t part = kPartBytes - at % kPartBytes;
    if (size + part > kStackBytes || !memory.Read(at, thread.stack.data() + size, part)) break;
    size += part;
  }
  thread.stack.resize(size);
}

[[maybe_unused]] absl::StatusOr<std::vector<ThreadSnapshot>> SnapshotAll(pid_t pid, const Memory& memory) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<ThreadSnapshot> snapshots;
  for (const pid_t tid : ThreadsOf(pid)) {
    if (std::chrono::steady_clock::now() - begin > kMostTime) break;
    ThreadSnapshot snapshot;
    snapshot.tid = tid;
    const TracedThread traced(tid);
    if (traced.error() == EPERM || traced.error() == EACCES) {
      return absl::PermissionDeniedError(
          "the daemon may not trace the process: its service forbids ptrace, a debugger holds the process, "
          "or kernel.yama.ptrace_scope forbids it (docs/hangs.md)");
    }
    if (!traced.stopped() || !ReadRegisters(snapshot)) continue;
    CopyStack(memory, snapshot);
    snapshot.name = NameOf(pid, tid);
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

}  // namespace

absl::StatusOr<std::vector<ThreadSnapshot>> TakeSnapshots(pid_t pid, const Memory& memory) {
#ifdef __x86_64__
  // A thread that did not stop in time cannot be detached. The kernel releases it at the end of the tracing
  // thread, which therefore ends at once.
  absl::StatusOr<std::vector<ThreadSnapshot>> snapshots = absl::InternalError("not taken");
  std::thread([&] { snapshots = SnapshotAll(pid, memory); }).join();
  return snapshots;
#else
  return absl::UnimplementedError("native stacks are known for x86-64 only");
#endif
}

}  // namespace lockstep::daemon
