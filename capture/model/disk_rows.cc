#include "capture/model/disk_rows.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::capture {
namespace {

// Smaller tables are not worth a mapping.
constexpr size_t kLeastBytes = size_t{128} << 10;
// The kernel allows 65,530 mappings. Each table makes up to three of one.
constexpr uint32_t kMostMappings = 12'000;

bool InMemory(const Fd& file) {
  struct statfs system = {};
  return ::fstatfs(file.get(), &system) != 0 || system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
}

bool WriteAll(int fd, uintptr_t from, size_t size, uint64_t offset) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, reinterpret_cast<const void*>(from), size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += static_cast<size_t>(n);
    offset += static_cast<size_t>(n);
    size -= static_cast<size_t>(n);
  }
  return true;
}

// The whole pages of a table.
struct Pages {
  uintptr_t begin;
  size_t size;
};

Pages PagesIn(uintptr_t begin, size_t size) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + size) / page * page;
  return {first, end > first ? end - first : 0};
}

void RaiseDataLimit(size_t bytes) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  limit.rlim_cur = std::min(limit.rlim_max, limit.rlim_cur + bytes);
  (void)::setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskRows>> DiskRows::Create(const std::vector<std::string>& folders) {
  std::vector<std::string> reasons;
  for (const std::string& folder : folders) {
    Fd file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file.ok()) {
      reasons.push_back(absl::StrCat(folder, ": ", std::strerror(errno)));
    } else if (InMemory(file)) {
      reasons.push_back(absl::StrCat(folder, " is in memory"));
    } else {
      return std::unique_ptr<DiskRows>(new DiskRows(std::move(file)));
    }
  }
  return absl::UnavailableError(absl::StrCat("no folder for temporary files is on a disk (",
                                             absl::StrJoin(reasons, ", "), "); set TMPDIR to one"));
}

uint64_t DiskRows::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

void DiskRows::Take(const Capture& capture) {
  for (const RankData& rank : capture.ranks) {
    Take(rank.activities);
    Take(rank.api_calls);
    Take(rank.syncs);
    Take(rank.event_records);
    Take(rank.ranges);
    Take(rank.collectives);
    Take(rank.kernel_details);
    Take(rank.channel_timings);
    Take(rank.proxy_ops);
  }
}

// Only whole pages move. The first and the last page may hold other data.
bool DiskRows::TakeBytes(uintptr_t begin, size_t size) {
  MutexLock lock(&mutex_);
  if (size < kLeastBytes || mappings_ >= kMostMappings) return false;
  const Pages pages = PagesIn(begin, size);
  const auto at = static_cast<off_t>(bytes_);
  // Reserved first, because a mapped page without a place on the disk would end the process.
  if (::posix_fallocate(file_.get(), at, static_cast<off_t>(pages.size)) != 0) return false;
  if (!WriteAll(file_.get(), pages.begin, pages.size, bytes_)) return false;
  if (::mmap(reinterpret_cast<void*>(pages.begin), pages.size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED, file_.get(), at) == MAP_FAILED)
    return false;
  RaiseDataLimit(pages.size);
  bytes_ += pages.size;
  ++mappings_;
  return true;
}

void DiskRows::ForgetBytes(uintptr_t begin, size_t size) {
  const Pages pages = PagesIn(begin, size);
  if (pages.size > 0) (void)::madvise(reinterpret_cast<void*>(pages.begin), pages.size, MADV_DONTNEED);
}

}  // namespace lockstep::capture
