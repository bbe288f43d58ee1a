#include "capture/model/row_overflow.h"

#include <algorithm>
#include <utility>

namespace lockstep::capture {

bool RowOverflow::Add(uint64_t rows, uint64_t bytes) {
  MutexLock lock(&mutex_);
  rows_ += rows;
  bytes_ += bytes;
  if (tried_ || fits_(rows_, bytes_)) return full();
  tried_ = true;
  if (auto disk = DiskRows::Create(folders_); disk.ok()) {
    owned_ = *std::move(disk);
    disk_ = owned_.get();
  }
  return full();
}

void RowOverflow::Remove(uint64_t rows, uint64_t bytes) {
  MutexLock lock(&mutex_);
  rows_ -= std::min(rows, rows_);
  bytes_ -= std::min(bytes, bytes_);
}

std::unique_ptr<DiskRows> RowOverflow::TakeDisk() {
  MutexLock lock(&mutex_);
  disk_ = nullptr;
  return std::move(owned_);
}

}  // namespace lockstep::capture
