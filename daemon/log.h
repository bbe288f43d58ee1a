// The daemon's log: one line per event, `time level event key=value …`, to a descriptor.
//
// Bounded: above kLinesPerSecond lines are dropped and the next line that gets through says how many, so that
// a client that misbehaves in a loop cannot fill a disk. Any thread.
#ifndef LOCKSTEP_DAEMON_LOG_H_
#define LOCKSTEP_DAEMON_LOG_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/fd.h"
#include "daemon/clock.h"

namespace lockstep::daemon {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

struct LogField {
  template <typename T>
  LogField(const char* k, const T& v) : key(k), value(absl::StrCat(v)) {}
  const char* key;
  std::string value;
};

struct LogCounts {
  std::array<uint64_t, 4> written{};  // by level
  uint64_t suppressed = 0;
};

class Log {
 public:
  static constexpr int kLinesPerSecond = 200;

  // Does not own `fd`.
  Log(int fd, LogLevel least, const Clock& clock) : fd_(fd), least_(least), clock_(clock) {}

  void Debug(const char* event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kDebug, event, fields);
  }
  void Info(const char* event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kInfo, event, fields);
  }
  void Warning(const char* event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kWarning, event, fields);
  }
  void Error(const char* event, std::initializer_list<LogField> fields = {}) {
    Write(LogLevel::kError, event, fields);
  }
  // Lines since the beginning.
  LogCounts counts() const;

 private:
  void Write(LogLevel level, const char* event, std::initializer_list<LogField> fields);
  bool Allowed(LogLevel level, MonoTime now, uint64_t* suppressed);

  const int fd_;
  const LogLevel least_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  MonoTime second_;
  int lines_in_second_ = 0;
  uint64_t suppressed_ = 0;  // since the last line
  LogCounts counts_;
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_LOG_H_
