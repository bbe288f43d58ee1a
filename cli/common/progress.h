// Progress shows one status line on a terminal, and nothing if stderr is not a terminal.
#ifndef LOCKSTEP_CLI_COMMON_PROGRESS_H_
#define LOCKSTEP_CLI_COMMON_PROGRESS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/mutex.h"

namespace lockstep::cli {

// Thread-safe. The destructor clears the line.
class Progress {
 public:
  Progress();
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool visible() const { return visible_; }
  // Returns at once if the line is unchanged, so it may be called for every block of a file.
  void Show(const std::string& line);
  // Call before anything else is printed on stderr.
  void Clear();

 private:
  const bool visible_;
  Mutex mutex_;
  std::string shown_ ABSL_GUARDED_BY(mutex_);  // empty: no line is shown
};

// Returns the percentage done; `total` may be an estimate.
inline int Percent(uint64_t done, uint64_t total) {
  return total == 0 ? 100
                    : static_cast<int>(100 * static_cast<double>(std::min(done, total)) /
                                       static_cast<double>(total));
}

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_PROGRESS_H_
