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
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::capture {
namespace {

// Smaller tables are not worth a mapping. Those of hundreds of short ranks are larger.
constexpr size_t kLeastBytes = size_t{64} << 10;
// A table with more written parts moves in whole. Parts with fewer pages between them are one.
constexpr size_t kMostParts = 64, kPagesBetweenParts = 16;
// The kernel allows 65,530 mappings. Each table makes up to three of one.
constexpr size_t kMostPlaces = 12'000;

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

void ChangeDataLimit(int64_t bytes) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  limit.rlim_cur = std::min(limit.rlim_max, limit.rlim_cur + static_cast<rlim_t>(bytes));
  (void)::setrlimit(RLIMIT_DATA, &limit);
}

size_t PageSize() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace

DiskRows::DiskRows(Fd file)
    : file_(std::move(file)), page_map_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

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

uint64_t DiskRows::Take(const RankData& rank) {
  uint64_t frames = 0;
  if (rank.frames != nullptr)
    frames = Take(rank.frames->frames) + Take(rank.frames->details) + Take(rank.frames->allocations);
  return frames + Take(rank.activities) + Take(rank.api_calls) + Take(rank.syncs) + Take(rank.event_records) +
         Take(rank.ranges) + Take(rank.collectives) + Take(rank.kernel_details) + Take(rank.copy_details) +
         Take(rank.channel_timings) + Take(rank.proxy_ops) + Take(rank.memory_ops);
}

uint64_t DiskRows::Take(const Capture& capture) {
  uint64_t moved = 0;
  for (const RankData& rank : capture.ranks) moved += Take(rank);
  return moved;
}

// Only whole pages move. The first and the last page may hold other data.
DiskRows::Pages DiskRows::PagesIn(uintptr_t begin, size_t size) {
  const size_t page = PageSize();
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + size) / page * page;
  return {first, end > first ? end - first : 0};
}

uint64_t DiskRows::TakeBytes(uintptr_t begin, size_t size) {
  MutexLock lock(&mutex_);
  if (size < kLeastBytes) return 0;
  const Pages pages = PagesIn(begin, size);
  const auto known = places_.find(pages.begin);
  if (known != places_.end() && known->second.size == pages.size) {
    for (const Pages& written : WrittenIn(pages)) {
      if (!Move(written, known->second.offset + (written.begin - pages.begin))) return 0;
    }
    return pages.size;
  }
  const std::optional<Place> place = NewPlace(pages.size);
  if (!place || !Move(pages, place->offset)) return 0;
  FreePlacesAt(pages.begin, pages.size);
  places_.emplace(pages.begin, *place);
  bytes_ += pages.size;
  ChangeDataLimit(static_cast<int64_t>(pages.size));
  return pages.size;
}

bool DiskRows::Move(Pages pages, uint64_t offset) {
  return WriteAll(file_.get(), pages.begin, pages.size, offset) &&
         ::mmap(reinterpret_cast<void*>(pages.begin), pages.size, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED, file_.get(), static_cast<off_t>(offset)) != MAP_FAILED;
}

// Returns the pages that are memory of this process. They may include others. If another table has come to
// these addresses, all its pages are among them.
std::vector<DiskRows::Pages> DiskRows::WrittenIn(Pages pages) const {
  // Documented in admin-guide/mm/pagemap of the kernel.
  constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62, kOfFile = uint64_t{1} << 61;
  const size_t page = PageSize();
  std::vector<uint64_t> entries(pages.size / page);
  const size_t bytes = entries.size() * sizeof(uint64_t);
  const auto at = static_cast<off_t>(pages.begin / page * sizeof(uint64_t));
  if (::pread(page_map_.get(), entries.data(), bytes, at) != static_cast<ssize_t>(bytes)) return {pages};
  std::vector<Pages> written;
  for (size_t i = 0; i < entries.size(); ++i) {
    if ((entries[i] & kPresentOrSwapped) == 0 || (entries[i] & kOfFile) != 0) continue;
    const uintptr_t begin = pages.begin + i * page;
    if (written.empty() || written.back().begin + written.back().size + kPagesBetweenParts * page < begin)
      written.push_back({begin, 0});
    written.back().size = begin + page - written.back().begin;
    if (written.size() > kMostParts) return {pages};
  }
  return written;
}

// nullopt: the disk is full, or the process has too many mappings.
std::optional<DiskRows::Place> DiskRows::NewPlace(size_t size) {
  if (places_.size() >= kMostPlaces) return std::nullopt;
  const Place place = {size, end_};
  // Reserved first, because a mapped page without a place on the disk would end the process.
  if (::posix_fallocate(file_.get(), static_cast<off_t>(place.offset), static_cast<off_t>(size)) != 0)
    return std::nullopt;
  end_ += size;
  return place;
}

// The tables that had these addresses have ended, or have just moved to another place. A page of an old place
// that another object uses now was written, so it does not need the file.
void DiskRows::FreePlacesAt(uintptr_t begin, size_t size) {
  auto it = places_.lower_bound(begin);
  if (it != places_.begin() && std::prev(it)->first + std::prev(it)->second.size > begin) --it;
  while (it != places_.end() && it->first < begin + size) {
    (void)::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(it->second.offset), static_cast<off_t>(it->second.size));
    bytes_ -= it->second.size;
    ChangeDataLimit(-static_cast<int64_t>(it->second.size));
    it = places_.erase(it);
  }
}

void DiskRows::ForgetBytes(uintptr_t begin, size_t size) {
  const Pages pages = PagesIn(begin, size);
  if (pages.size > 0) (void)::madvise(reinterpret_cast<void*>(pages.begin), pages.size, MADV_DONTNEED);
}

}  // namespace lockstep::capture
