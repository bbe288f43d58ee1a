// Moves large tables from memory into a file, so that the system can drop their pages and read them again.
//
// The addresses stay: the pages of a table are replaced by a private mapping of the same bytes. Nothing
// changes for its readers. A page that is written becomes memory again, so tables should be complete. The
// table's destructor gives the mapping back.
#ifndef LOCKSTEP_CAPTURE_MODEL_DISK_ROWS_H_
#define LOCKSTEP_CAPTURE_MODEL_DISK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// Any thread. The tables may outlive it.
class DiskRows {
 public:
  // Creates a file without a name in the first of these folders that is on a disk. The file ends with this
  // object and its tables, also if the process is killed. Fails with kUnavailable and each folder's reason.
  static absl::StatusOr<std::unique_ptr<DiskRows>> Create(const std::vector<std::string>& folders);

  // No other thread may use the table at the same time. A small table stays in memory. So does one that
  // does not fit on the disk. An error of the disk ends the process when the page is read. If RLIMIT_DATA is
  // set, it grows by the bytes that moved, because it counts them still. A table that was written since it
  // moved may move again: its written pages then go to the same place. Returns the bytes that are on the disk
  // now; 0: the table stays in memory.
  template <typename T>
  uint64_t Take(const std::vector<T>& table) {
    return TakeBytes(reinterpret_cast<uintptr_t>(table.data()), table.size() * sizeof(T));
  }
  // Takes the tables of the rank, or of all ranks. Returns the bytes that are on the disk now.
  uint64_t Take(const RankData& rank);
  uint64_t Take(const Capture& capture);

  // Frees the pages of rows [first, end) that were written since Take(table) moved it. These rows have
  // their values of then, apart from rows on the first and the last page, which keep the written ones. Any
  // thread, unless another one uses these rows.
  template <typename T>
  static void Forget(const std::vector<T>& table, size_t first, size_t end) {
    ForgetBytes(reinterpret_cast<uintptr_t>(table.data() + first), (end - first) * sizeof(T));
  }

  uint64_t bytes() const;  // in the file

 private:
  // A part of the file. Its bytes belong to the pages at an address.
  struct Place {
    size_t size;
    uint64_t offset;
  };

  // The pages of a table, or some of them.
  struct Pages {
    uintptr_t begin;
    size_t size;
  };

  explicit DiskRows(Fd file);
  static Pages PagesIn(uintptr_t begin, size_t size);
  uint64_t TakeBytes(uintptr_t begin, size_t size);
  std::vector<Pages> WrittenIn(Pages pages) const;
  bool Move(Pages pages, uint64_t offset) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Place> NewPlace(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreePlacesAt(uintptr_t begin, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void ForgetBytes(uintptr_t begin, size_t size);

  const Fd file_;
  const Fd page_map_;  // of this process; not open if the system has none
  mutable Mutex mutex_;
  std::map<uintptr_t, Place> places_ ABSL_GUARDED_BY(mutex_);  // by address; some tables may have ended
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;                 // of all places
  uint64_t end_ ABSL_GUARDED_BY(mutex_) = 0;                   // of the file
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_DISK_ROWS_H_
