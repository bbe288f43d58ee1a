#include "aggregator/reports/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/fd.h"

namespace lockstep::aggregator {
namespace {

constexpr int kNice = 5;
constexpr std::string_view kFirstVictim = "1000";
constexpr rlim_t kMostFiles = 4096;  // a capture of PyTorch's profiler has one per rank, all open at once

void Limit(decltype(RLIMIT_CPU) resource, rlim_t soft, rlim_t hard) {
  rlimit now = {};
  if (::getrlimit(resource, &now) != 0) return;
  const rlimit wanted = {std::min(soft, now.rlim_max), std::min(hard, now.rlim_max)};
  (void)::setrlimit(resource, &wanted);
}

void DropCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
  (void)::syscall(SYS_capset, &header, none);
}

// The rights on files that this kernel's landlock knows.
uint64_t FileRights(long version) {
  uint64_t rights = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
  if (version >= 2) rights |= LANDLOCK_ACCESS_FS_REFER;
  // Debian 12's header lacks the right to truncate.
  if (version >= 3) rights |= LANDLOCK_ACCESS_FS_REFER << 1;
  return rights;
}

bool EnterLandlock(const std::string& folder) {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version < 1) return false;
  landlock_ruleset_attr handled = {};
  handled.handled_access_fs = FileRights(version);
  const Fd rules(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0)));
  const Fd place(::open(folder.c_str(), O_PATH | O_CLOEXEC));
  if (!rules.ok()) return false;
  // A missing folder has no rule, so that nothing can be opened.
  if (place.ok()) {
    landlock_path_beneath_attr beneath = {};
    beneath.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    beneath.parent_fd = place.get();
    if (::syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0)
      return false;
  }
  return ::syscall(SYS_landlock_restrict_self, rules.get(), 0) == 0;
}

// Memory, threads, time and reading, as libc, the C++ library and the readers of records use them. Other
// calls fail with EPERM, which libc takes for a system without them.
constexpr int kAllowed[] = {
    // memory
    SCMP_SYS(brk), SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect), SCMP_SYS(madvise),
    // threads
    SCMP_SYS(futex), SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(gettid), SCMP_SYS(getpid), SCMP_SYS(exit), SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    // signals: abort() and std::terminate
    SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(sigaltstack),
    // time and random numbers
    SCMP_SYS(clock_gettime), SCMP_SYS(clock_getres), SCMP_SYS(clock_nanosleep), SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(getrusage), SCMP_SYS(sysinfo),
    // reading
    SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(pread64), SCMP_SYS(lseek), SCMP_SYS(fcntl), SCMP_SYS(close),
    SCMP_SYS(fstat), SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
    SCMP_SYS(getdents64), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(readlink),
    SCMP_SYS(readlinkat), SCMP_SYS(getcwd), SCMP_SYS(fadvise64),
    // writing to the open descriptors
    SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(fdatasync)};

// Adds the calls that are allowed only with some arguments.
bool AddConditions(scmp_filter_ctx filter) {
  constexpr uint64_t kWrites = O_ACCMODE | O_CREAT | O_TRUNC;
  constexpr uint64_t kThread = CLONE_THREAD | CLONE_VM;
  const auto self = static_cast<uint64_t>(::getpid());
  bool added = true;
  const auto allow = [&](int call, const scmp_arg_cmp& condition) {
    added = added && ::seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, condition) == 0;
  };
  allow(SCMP_SYS(open), SCMP_A1(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  allow(SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWrites, O_RDONLY));
  allow(SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, kThread, kThread));
  allow(SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_EQ, self));
  // Queries only.
  allow(SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0));
  // The flags of clone3 are out of the filter's reach. libc then takes clone.
  return added && ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) == 0;
}

bool EnterSeccomp() {
  const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ERRNO(EPERM));
  if (filter == nullptr) return false;
  bool entered = true;
  for (const int call : kAllowed)
    entered = entered && ::seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0;
  entered = entered && AddConditions(filter) && ::seccomp_load(filter) == 0;
  ::seccomp_release(filter);
  return entered;
}

}  // namespace

bool LimitProcess(pid_t parent, const SandboxLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) return false;
  // Before the process is closed to others, which also closes its files in /proc.
  const Fd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (score.ok()) (void)!::write(score.get(), kFirstVictim.data(), kFirstVictim.size());
  (void)::setpriority(PRIO_PROCESS, 0, kNice);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_DUMPABLE, 0);
  DropCapabilities();
  Limit(RLIMIT_CORE, 0, 0);
  Limit(RLIMIT_NOFILE, kMostFiles, kMostFiles);
  Limit(RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1);
  Limit(RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes);
  // RLIMIT_AS would also count address space that libc only reserves, 64 MiB and more per thread.
  if (!kSanitized) Limit(RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes);
  return true;
}

std::vector<std::string> EnterSandbox(const std::string& folder) {
  std::vector<std::string> missing;
  if (!EnterLandlock(folder)) missing.emplace_back("landlock");
  if (!kSanitized && !EnterSeccomp()) missing.emplace_back("seccomp");
  return missing;
}

}  // namespace lockstep::aggregator
