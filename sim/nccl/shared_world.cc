#include "sim/nccl/shared_world.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/read_clock.h"

namespace lockstep::sim {
namespace {

constexpr int64_t kJoinSeconds = 120;
constexpr long kNewsWaitNs = 5'000'000;  // an upper limit, so that a missed wake-up costs at most this time

size_t RoundUp(size_t n) { return (n + 4095) / 4096 * 4096; }

}  // namespace

struct SharedWorld::Header {
  std::atomic<uint32_t> change_count;
  std::atomic<uint32_t> joined;
  std::atomic<uint64_t> arrivals;  // arrivals at all barriers so far
  Member members[kMostRanks];
};

struct SharedWorld::Entry {
  std::atomic<uint64_t> serial_plus_one;
  std::atomic<int64_t> start_ns;
};

std::string SharedWorld::NameOf(uint64_t id) {
  char name[64];
  std::snprintf(name, sizeof name, "/lockstep-simnccl-%016llx", static_cast<unsigned long long>(id));
  return name;
}

bool SharedWorld::Map(std::string* error) {
  const auto n = static_cast<size_t>(ranks_);
  entries_at_ = RoundUp(sizeof(Header));
  transfers_at_ = RoundUp(entries_at_ + kRing * n * sizeof(Entry));
  windows_at_ = RoundUp(transfers_at_ + n * n * 2 * kRing * sizeof(Entry));
  mail_at_ = RoundUp(windows_at_ + n * kWindowBytes);
  bytes_ = RoundUp(mail_at_ + n * n * sizeof(Mail));
  // A new file is zero, so that the first rank needs no initialisation.
  const int fd = shm_open(NameOf(id_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes_)) != 0) {
    *error = "shared memory " + NameOf(id_) + ": " + std::strerror(errno) + "; is /dev/shm writable?";
    if (fd >= 0) close(fd);
    return false;
  }
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (at == MAP_FAILED) {
    *error = "shared memory " + NameOf(id_) + " of " + std::to_string(bytes_) + " bytes could not be mapped";
    return false;
  }
  base_ = static_cast<uint8_t*>(at);
  return true;
}

std::unique_ptr<SharedWorld> SharedWorld::Join(uint64_t id, int ranks, int rank, const Member& self,
                                               std::string* error) {
  if (ranks < 1 || ranks > kMostRanks || rank < 0 || rank >= ranks) {
    *error = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
             ": the simulated NCCL supports 1 to " + std::to_string(kMostRanks) + " ranks";
    return nullptr;
  }
  std::unique_ptr<SharedWorld> world(new SharedWorld(id, ranks, rank));
  if (!world->Map(error)) return nullptr;
  auto& header = *reinterpret_cast<Header*>(world->base_);
  header.members[rank] = self;
  const uint32_t joined = header.joined.fetch_add(1) + 1;
  if (joined == static_cast<uint32_t>(ranks)) shm_unlink(NameOf(id).c_str());
  world->NotifyChange();
  const MonoTime until = ReadMonotonic() + Nanos::Seconds(kJoinSeconds);
  while (true) {
    const uint32_t seen = world->change_count();
    const uint32_t there = header.joined.load();
    if (there >= static_cast<uint32_t>(ranks)) return world;
    if (ReadMonotonic() > until) {
      *error = std::to_string(there) + " of " + std::to_string(ranks) + " ranks joined in " +
               std::to_string(kJoinSeconds) +
               " s; all ranks must run on this machine with the same unique id";
      return nullptr;
    }
    world->WaitForChange(seen);
  }
}

SharedWorld::~SharedWorld() {
  if (base_ != nullptr) munmap(base_, bytes_);
}

const SharedWorld::Member& SharedWorld::member(int rank) const {
  return reinterpret_cast<const Header*>(base_)->members[rank];
}

void SharedWorld::SetSplit(int color, int key) {
  Member& self = reinterpret_cast<Header*>(base_)->members[rank_];
  self.color = color;
  self.key = key;
}

bool SharedWorld::Barrier(const std::atomic<bool>& stop) {
  auto& header = *reinterpret_cast<Header*>(base_);
  const uint64_t all = ++barriers_ * static_cast<uint64_t>(ranks_);
  header.arrivals.fetch_add(1);
  NotifyChange();
  while (!stop.load(std::memory_order_relaxed)) {
    const uint32_t seen = change_count();
    if (header.arrivals.load() >= all) return true;
    WaitForChange(seen);
  }
  return false;
}

SharedWorld::Entry& SharedWorld::entry(uint64_t serial, int rank) const {
  auto* first = reinterpret_cast<Entry*>(base_ + entries_at_);
  return first[serial % kRing * static_cast<uint64_t>(ranks_) + static_cast<uint64_t>(rank)];
}

SharedWorld::Entry& SharedWorld::transfer(int from, int to, End end, uint64_t serial) const {
  auto* first = reinterpret_cast<Entry*>(base_ + transfers_at_);
  const auto pair = static_cast<uint64_t>(from * ranks_ + to);
  return first[(pair * 2 + static_cast<uint64_t>(end)) * kRing + serial % kRing];
}

void SharedWorld::Publish(uint64_t serial, int64_t start_ns) {
  Entry& e = entry(serial, rank_);
  e.start_ns.store(start_ns, std::memory_order_relaxed);
  e.serial_plus_one.store(serial + 1, std::memory_order_release);
  NotifyChange();
}

int64_t SharedWorld::StartOf(uint64_t serial, int rank) const {
  const Entry& e = entry(serial, rank);
  return e.serial_plus_one.load(std::memory_order_acquire) == serial + 1 ? e.start_ns.load() : -1;
}

void SharedWorld::PublishTransfer(int from, int to, End end, uint64_t serial, int64_t start_ns) {
  Entry& e = transfer(from, to, end, serial);
  e.start_ns.store(start_ns, std::memory_order_relaxed);
  e.serial_plus_one.store(serial + 1, std::memory_order_release);
  NotifyChange();
}

int64_t SharedWorld::StartOfTransfer(int from, int to, End end, uint64_t serial) const {
  const Entry& e = transfer(from, to, end, serial);
  return e.serial_plus_one.load(std::memory_order_acquire) == serial + 1 ? e.start_ns.load() : -1;
}

uint8_t* SharedWorld::window(int rank) const {
  return base_ + windows_at_ + static_cast<size_t>(rank) * kWindowBytes;
}

SharedWorld::Mail& SharedWorld::mail(int from, int to) const {
  auto* first = reinterpret_cast<Mail*>(base_ + mail_at_);
  return first[from * ranks_ + to];
}

uint32_t SharedWorld::change_count() const {
  return reinterpret_cast<const Header*>(base_)->change_count.load();
}

void SharedWorld::WaitForChange(uint32_t seen) const {
  const timespec most = {0, kNewsWaitNs};
  auto* word = &reinterpret_cast<Header*>(base_)->change_count;
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &most, nullptr, 0);
}

void SharedWorld::NotifyChange() const {
  auto* word = &reinterpret_cast<Header*>(base_)->change_count;
  word->fetch_add(1);
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::sim
