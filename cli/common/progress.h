// One line on a terminal that says what is going on. Nothing anywhere else.
#ifndef LOCKSTEP_CLI_PROGRESS_H_
#define LOCKSTEP_CLI_PROGRESS_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

namespace lockstep::cli {

// Any thread. The line is gone when this is.
class Progress {
 public:
  Progress();
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool visible() const { return visible_; }
  // Costs nothing where the line is there already, so it may be called with every block of a file.
  void Show(const std::string& line);
  // Before anything else is printed on stderr.
  void Clear();

 private:
  const bool visible_;
  std::mutex mutex_;
  std::string shown_;  // empty: nothing is
};

// Of what is done of a total that may be an estimate.
inline int Percent(uint64_t done, uint64_t total) {
  return total == 0 ? 100
                    : static_cast<int>(100 * static_cast<double>(std::min(done, total)) /
                                       static_cast<double>(total));
}

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROGRESS_H_
