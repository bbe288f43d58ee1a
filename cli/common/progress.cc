#include "cli/common/progress.h"

#include <unistd.h>

#include <cstdio>

#include "base/log/clean_text.h"

namespace lockstep::cli {

Progress::Progress() : visible_(::isatty(STDERR_FILENO) == 1) {}

void Progress::Show(const std::string& line) {
  if (!visible_) return;
  MutexLock lock(&mutex_);
  if (line == shown_) return;
  // Uses a carriage return and "erase to the end of the line". These are not colours, so NO_COLOR does not
  // apply.
  std::fprintf(stderr, "\r%s\x1b[K", CleanText(line).c_str());
  std::fflush(stderr);
  shown_ = line;
}

void Progress::Clear() {
  MutexLock lock(&mutex_);
  if (shown_.empty()) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_.clear();
}

}  // namespace lockstep::cli
