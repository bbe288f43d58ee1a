#include "client/identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "client/record/text.h"
#include "wire/ring/layout.h"

#ifndef LOCKSTEP_VERSION
#error "the build passes the version"
#endif

namespace lockstep::client {
namespace {

// Variables that identify this process in its job. Launchers and schedulers set them, and a user may override
// them.
constexpr const char* kVariables[] = {
    "LOCKSTEP_JOB",
    "LOCKSTEP_RANK",
    "LOCKSTEP_WORLD_SIZE",
    "LOCKSTEP_LOCAL_RANK",
    "LOCKSTEP_LAUNCH",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMI_LOCAL_RANK",
    "FLUX_JOB_ID",
    "FLUX_TASK_RANK",
    "FLUX_JOB_SIZE",
    "FLUX_TASK_LOCAL_ID",
    "PALS_APID",
    "PALS_RANKID",
    "PALS_SIZE",
    "PALS_LOCAL_RANKID",
    "PBS_JOBID",
    "LSB_JOBID",
    "LSB_JOBINDEX",
    "JSM_NAMESPACE_RANK",
    "JSM_NAMESPACE_SIZE",
    "JSM_NAMESPACE_LOCAL_RANK",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "ALPS_APP_PE",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "CUDA_VISIBLE_DEVICES",
};

// Reads the first `capacity - 1` bytes of the file, and terminates them with zero.
size_t ReadSmallFile(const char* path, char* to, size_t capacity) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : ::read(fd, to, capacity - 1);
  if (fd >= 0) ::close(fd);
  if (n < 0) n = 0;
  to[n] = '\0';
  return static_cast<size_t>(n);
}

// Returns field 22 of /proc/self/stat, the start time in clock ticks after boot.
uint64_t StartTicks() {
  char stat[1024];
  ReadSmallFile("/proc/self/stat", stat, sizeof stat);
  // Field 2 is the program's name in parentheses. It may contain any character, and the last ')' ends it.
  const char* at = std::strrchr(stat, ')');
  for (int field = 2; at != nullptr && field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
  }
  uint64_t ticks = 0;
  for (at = at == nullptr ? "" : at + 1; *at >= '0' && *at <= '9'; ++at)
    ticks = ticks * 10 + static_cast<uint64_t>(*at - '0');
  return ticks;
}

void FillIdentity(char* to, size_t capacity) {
  size_t size = 0;
  for (const char* name : kVariables) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    const size_t name_length = std::strlen(name);
    const size_t value_length = std::strlen(value);
    const size_t line = name_length + value_length + 2;
    // A value with a line break could look like another variable. A value that does not fit is omitted
    // completely.
    if (std::strchr(value, '\n') != nullptr || size + line + 1 > capacity) continue;
    std::memcpy(to + size, name, name_length);
    to[size + name_length] = '=';
    std::memcpy(to + size + name_length + 1, value, value_length);
    to[size + line - 1] = '\n';
    size += line;
  }
  to[size] = '\0';
}

// Fills the fields that Hello and Presence share, and clears the others.
template <typename M>
void FillCommon(ring::MessageType type, EntryKind entry, M* message) {
  std::memset(static_cast<void*>(message), 0, sizeof *message);
  message->header = {ring::kHandshakeMagic, type, sizeof *message};
  message->layout_major = ring::kLayoutMajor;
  message->layout_minor = ring::kLayoutMinor;
  message->claimed_pid = ::getpid();
  message->entry = static_cast<uint32_t>(entry);
  Text<sizeof message->version> version;
  version << LOCKSTEP_VERSION;
  std::memcpy(message->version, version.c_str(), version.size());
  const size_t length = ReadSmallFile("/proc/self/comm", message->program, sizeof message->program);
  if (length > 0 && message->program[length - 1] == '\n') message->program[length - 1] = '\0';
}

}  // namespace

void FillPresence(EntryKind entry, ring::Presence* presence) {
  FillCommon(ring::MessageType::kPresence, entry, presence);
}

void FillHello(EntryKind entry, ring::Hello* hello) {
  FillCommon(ring::MessageType::kHello, entry, hello);
  hello->process_start_ticks = StartTicks();
  FillIdentity(hello->identity, sizeof hello->identity);
}

}  // namespace lockstep::client
