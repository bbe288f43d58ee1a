// A file that lines are appended to for years, and that somebody else rotates.
#ifndef LOCKSTEP_COMMON_LOG_LINE_FILE_H_
#define LOCKSTEP_COMMON_LOG_LINE_FILE_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep {

// Where lines go. Implemented by: LineFile, and tests. One thread at a time.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // `line` without its end. An error says where it could not be written; then nothing of it counts as
  // written.
  virtual absl::Status Append(std::string_view line) = 0;
};

// Mode 0600 where it is made; opened to append only, so that several programs may share it, one write for
// each line. Before each line it looks whether its path still leads to the file: one that was renamed or
// removed (logrotate) is followed by a new one, without a signal.
class LineFile final : public LineSink {
 public:
  // kPermissionDenied and others name the file and what to do. A link, or a file that others may read, is
  // refused.
  static absl::StatusOr<std::unique_ptr<LineFile>> Open(std::string path);
  absl::Status Append(std::string_view line) override;

 private:
  explicit LineFile(std::string path) : path_(std::move(path)) {}
  absl::Status Reopen();
  bool Moved() const;

  const std::string path_;
  Fd fd_;
  bool torn_ = false;  // the last line was written in part
};

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_LOG_LINE_FILE_H_
