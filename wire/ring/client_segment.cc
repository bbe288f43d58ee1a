#include "wire/ring/client_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::ring {

AttachError ClientSegment::Attach(int memfd, uint64_t announced_bytes) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = ::fcntl(memfd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return AttachError::kNotSealed;
  struct stat info;
  // Uses the system call, because glibc has fstat as a symbol only since 2.33, and the client runs on 2.28.
  if (::syscall(SYS_fstat, memfd, &info) != 0) return AttachError::kSize;
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes != announced_bytes || bytes > kMaxSegmentBytes) return AttachError::kSize;
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (base == MAP_FAILED) return AttachError::kMap;
  SegmentGeometry geometry;
  if (ReadGeometry(static_cast<std::byte*>(base), bytes, &geometry) != GeometryError::kNone ||
      ::madvise(base, bytes, MADV_DONTFORK) != 0) {
    ::munmap(base, bytes);
    return AttachError::kGeometry;
  }
  Detach();
  base_ = static_cast<std::byte*>(base);
  geometry_ = geometry;
  return AttachError::kNone;
}

void ClientSegment::Detach() {
  if (base_ != nullptr) ::munmap(base_, geometry_.segment_bytes);
  base_ = nullptr;
  geometry_ = {};
}

}  // namespace lockstep::ring
