// A file to which a program appends lines for years, while another program rotates it.
#ifndef LOCKSTEP_BASE_LOG_LINE_FILE_H_
#define LOCKSTEP_BASE_LOG_LINE_FILE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep {

// LineSink receives lines. LineFile and tests implement it. One thread at a time may use it.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // `line` has no line end. An error names the file that could not be written. The whole line then counts as
  // not written.
  virtual absl::Status Append(std::string_view line) = 0;
  // Returns the last line that the sink had before this object; empty if it had none.
  virtual std::string LastLine() const { return ""; }
};

// A new file has mode 0600. The file is opened for appending and each line is one write, so that several
// programs can share it. Before each line it checks that the path still leads to the open file. If the file
// was renamed or removed (logrotate), it opens a new one, without a signal.
class LineFile final : public LineSink {
 public:
  // An error names the file and the remedy. Open refuses a link, and a file that other users can read.
  // `open` opens the path for appending, and sets errno if it cannot.
  using OpenToAppend = std::function<Fd(const std::string& path)>;
  static Fd OpenDirectly(const std::string& path);
  static absl::StatusOr<std::unique_ptr<LineFile>> Open(std::string path, OpenToAppend open = &OpenDirectly);
  absl::Status Append(std::string_view line) override;
  std::string LastLine() const override { return last_line_; }

 private:
  LineFile(std::string path, OpenToAppend open) : path_(std::move(path)), open_(std::move(open)) {}
  // Reads the last line of the file at the path.
  std::string ReadLastLine() const;
  absl::Status Reopen();
  bool Moved() const;

  const std::string path_;
  const OpenToAppend open_;
  std::string last_line_;  // before Open
  Fd fd_;
  bool torn_ = false;  // the last line was written in part
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_LINE_FILE_H_
