// Fits the analysis of a capture into a limited memory: with fewer threads, then with large tables on disk,
// then with fewer steps.
#ifndef LOCKSTEP_ANALYSIS_GAINS_FIT_MEMORY_H_
#define LOCKSTEP_ANALYSIS_GAINS_FIT_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "capture/model/disk_rows.h"
#include "capture/model/row_overflow.h"

namespace lockstep::analysis {

enum class MayShorten : uint8_t { kNo, kYes };

struct MemoryLimit {
  uint64_t bytes = 0;               // of the whole process; 0: no limit
  std::string option = "--memory";  // that sets it, for errors and notes
  unsigned threads = 0;             // most that may be used; 0: one per core
  // Folders for a temporary file, in order of preference. Empty: nothing is written to a disk.
  std::vector<std::string> disk_folders;
  uint64_t other_bytes = 0;  // that the process holds besides the capture, such as another capture
  bool with_page = false;    // report.html follows
  bool with_copy = false;    // Analyze() gets a pattern, for which it copies the capture
  // kNo: the caller needs all rows, for example to write them in another format.
  MayShorten may_shorten = MayShorten::kYes;
};

struct MemoryFit {
  unsigned threads = 1;                     // for Analyze(), like `disk`
  std::unique_ptr<capture::DiskRows> disk;  // has the capture's rows; null: all tables stay in memory
  std::string note;  // says which steps stayed; empty: all rows stayed. The capture's notes have it, too.
};

// Returns true if one thread can analyse that many rows without a disk. For capture::RowOverflow.
capture::RowOverflow::Fits FitsWithoutDisk(const MemoryLimit& limit);

// Call it right before Analyze(), on one thread. `disk` has rows that moved while they were read, or is null.
//
// If one thread needs too much, it moves the capture's rows to a disk. If that does not suffice, it removes
// rows from the capture. The last whole steps stay, as many as fit, and a note says how many of how many.
// Fails with kResourceExhausted if even two steps do not fit, or if the capture has no steps. The error has
// the rows, the memory that they need, the limit and the remedy.
absl::StatusOr<MemoryFit> FitIntoMemory(const MemoryLimit& limit, capture::Capture& capture,
                                        std::unique_ptr<capture::DiskRows> disk = nullptr);

// Like FitIntoMemory(), for an output that needs all rows and no analysis. Returns the file; null: all rows
// are in memory.
absl::StatusOr<std::unique_ptr<capture::DiskRows>> FitRowsIntoMemory(
    const MemoryLimit& limit, capture::Capture& capture, std::unique_ptr<capture::DiskRows> disk = nullptr);

// For people: "512 MiB", "1.4 GiB".
std::string MemoryText(uint64_t bytes);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_FIT_MEMORY_H_
