// Copies the lines of an audit log to syslog.
#ifndef LOCKSTEP_BASE_LOG_SYSLOG_LINES_H_
#define LOCKSTEP_BASE_LOG_SYSLOG_LINES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/fd.h"
#include "base/log/line_file.h"
#include "base/log/log.h"

namespace lockstep {

// Writes each line to another sink, and then to the datagram socket of the system's log (facility authpriv,
// severity info). It never waits for the log's daemon. If that does not take a line, the program logs
// "syslog_failed" once, and "syslog_works_again" with the number of missing lines.
class SyslogLines final : public LineSink {
 public:
  // `program` names the lines' source. `socket` is /dev/log, except in tests. `inner` is not null.
  SyslogLines(std::unique_ptr<LineSink> inner, std::string program, std::string socket, LogSink log);

  // Returns the result of `inner`. A line that `inner` does not take is not copied.
  absl::Status Append(std::string_view line) override;
  std::string LastLine() const override { return inner_->LastLine(); }

 private:
  // Returns 0 or an errno.
  int Send(std::string_view line);

  const std::unique_ptr<LineSink> inner_;
  const std::string program_;
  const std::string socket_;
  const LogSink log_;
  Fd fd_;
  uint64_t missing_ = 0;  // lines since the last one that syslog took
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_SYSLOG_LINES_H_
