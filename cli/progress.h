// One line on a terminal that says what is going on. Nothing anywhere else.
#ifndef LOCKSTEP_CLI_PROGRESS_H_
#define LOCKSTEP_CLI_PROGRESS_H_

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
  void Show(const std::string& line);
  // Before anything else is printed on stderr.
  void Clear();

 private:
  const bool visible_;
  std::mutex mutex_;
  bool shown_ = false;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROGRESS_H_
