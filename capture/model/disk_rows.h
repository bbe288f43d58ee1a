// Moves large tables from memory into a file, so that the system can drop their pages and read them again.
//
// The addresses stay: the pages of a table are replaced by a private mapping of the same bytes. Nothing
// changes for its readers. A page that is written becomes memory again, so tables should be complete. The
// table's destructor gives the mapping back.
#ifndef LOCKSTEP_CAPTURE_MODEL_DISK_ROWS_H_
#define LOCKSTEP_CAPTURE_MODEL_DISK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
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
  // set, it grows by the bytes that moved, because it counts them still. Returns true if the table moved.
  template <typename T>
  bool Take(const std::vector<T>& table) {
    return TakeBytes(reinterpret_cast<uintptr_t>(table.data()), table.size() * sizeof(T));
  }
  // Takes the rows of all ranks.
  void Take(const Capture& capture);

  // Frees the pages of rows [first, end) that were written since Take(table) returned true. These rows have
  // their values of then, apart from rows on the first and the last page, which keep the written ones. Any
  // thread, unless another one uses these rows.
  template <typename T>
  static void Forget(const std::vector<T>& table, size_t first, size_t end) {
    ForgetBytes(reinterpret_cast<uintptr_t>(table.data() + first), (end - first) * sizeof(T));
  }

  uint64_t bytes() const;  // in the file

 private:
  explicit DiskRows(Fd file) : file_(std::move(file)) {}
  bool TakeBytes(uintptr_t begin, size_t size);
  static void ForgetBytes(uintptr_t begin, size_t size);

  const Fd file_;
  mutable Mutex mutex_;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t mappings_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_DISK_ROWS_H_
