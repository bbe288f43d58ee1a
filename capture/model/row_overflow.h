// Moves a capture's rows to a disk while a reader reads it, once the memory will not hold what follows.
//
// Without it, the reading would need memory for the whole capture, which the analysis then moves. The content
// of the capture is the same with it and without it.
#ifndef LOCKSTEP_CAPTURE_MODEL_ROW_OVERFLOW_H_
#define LOCKSTEP_CAPTURE_MODEL_ROW_OVERFLOW_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "capture/model/capture.h"
#include "capture/model/disk_rows.h"

namespace lockstep::capture {

// Any thread. The tables that moved may outlive it.
class RowOverflow {
 public:
  // Returns true if the memory holds that many kernels, copies and calls in a capture of that many bytes, and
  // all that is made of them.
  using Fits = std::function<bool(uint64_t rows, uint64_t bytes)>;

  // `fits` may be called from any thread, by one thread at a time. The file is created in one of the folders
  // (DiskRows::Create) when the first rows do not fit. Without a folder on a disk, all rows stay in memory.
  RowOverflow(Fits fits, std::vector<std::string> disk_folders)
      : fits_(std::move(fits)), folders_(std::move(disk_folders)) {}

  // A reader reports what it has read. Returns true if complete tables should move from now on.
  bool Add(uint64_t rows, uint64_t bytes);
  // A reader has freed rows that it reported.
  void Remove(uint64_t rows, uint64_t bytes);
  bool full() const { return disk_ != nullptr; }

  // Moves a complete table, without the memory that it keeps for further rows. No other thread may use it at
  // the same time. Does nothing before Add() returned true.
  template <typename T>
  void Move(std::vector<T>& table) {
    if (DiskRows* disk = disk_) {
      table.shrink_to_fit();
      disk->Take(table);
    }
  }
  // Moves the tables of a rank. Their rows may still be written. A written part is in memory until it moves
  // again.
  void Move(const RankData& rank) {
    if (DiskRows* disk = disk_) disk->Take(rank);
  }

  // Returns the file, or null if all rows stayed in memory. No table moves afterwards.
  std::unique_ptr<DiskRows> TakeDisk();

 private:
  const Fits fits_;
  const std::vector<std::string> folders_;
  Mutex mutex_;
  uint64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool tried_ ABSL_GUARDED_BY(mutex_) = false;  // to create the file
  std::unique_ptr<DiskRows> owned_ ABSL_GUARDED_BY(mutex_);
  std::atomic<DiskRows*> disk_ = nullptr;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_ROW_OVERFLOW_H_
