#include "client/record/arena.h"

#include <sys/mman.h>

#include "client/record/recording_flags.h"

namespace lockstep::client {

bool Arena::Reserve(size_t bytes) {
  void* base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  // CUPTI keeps its pointers in a forked child, and may write there. The child needs pages at these places,
  // but not the parent's contents.
  if (::madvise(base, bytes, MADV_WIPEONFORK) != 0) ::madvise(base, bytes, MADV_DONTFORK);
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
  used_ = 0;
  return true;
}

Memory Arena::Take(size_t bytes) {
  const size_t rounded = (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
  if (rounded > bytes_ - used_) return {};
  Memory part{base_ + used_, rounded};
  used_ += rounded;
  return part;
}

void Arena::Discard(Memory part) { ::madvise(part.data, part.bytes, MADV_DONTNEED); }

void Arena::Touch(Memory part) {
  for (size_t offset = 0; offset < part.bytes; offset += kPageBytes) {
    *static_cast<volatile std::byte*>(part.data + offset) = std::byte{0};
  }
}

}  // namespace lockstep::client
