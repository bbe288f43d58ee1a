// The log of lockstepd and lockstep-aggregator: one line per event, to a descriptor: `time level event
// key=value …`, or a JSON object with the members time, level, event and those of the event, numbers as
// numbers.
//
// Bounded: above kLinesPerSecond lines are dropped and the next line that gets through says how many, so that
// a client that misbehaves in a loop cannot fill a disk. Any thread.
#ifndef LOCKSTEP_COMMON_LOG_LOG_H_
#define LOCKSTEP_COMMON_LOG_LOG_H_

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/fd.h"

namespace lockstep {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kText, kJson };

struct LogField {
  template <typename T>
  LogField(const char* k, const T& v) : key(k), value(absl::StrCat(v)), is_number(std::is_integral_v<T>) {}
  const char* key;
  std::string value;
  bool is_number;
};

struct LogCounts {
  std::array<uint64_t, 4> written{};  // by level
  uint64_t suppressed = 0;
};

class Log {
 public:
  static constexpr int kLinesPerSecond = 200;

  // Does not own `fd`.
  Log(int fd, LogLevel least, const Clock& clock, LogFormat format = LogFormat::kText)
      : fd_(fd), least_(least), format_(format), clock_(clock) {}

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
  void Write(LogLevel level, const char* event, std::initializer_list<LogField> fields);
  // Lines since the beginning.
  LogCounts counts() const;

 private:
  bool Allowed(LogLevel level, MonoTime now, uint64_t* suppressed);

  const int fd_;
  const LogLevel least_;
  const LogFormat format_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  MonoTime second_;
  int lines_in_second_ = 0;
  uint64_t suppressed_ = 0;  // since the last line
  LogCounts counts_;
};

// For code that runs with and without a log: one event. Implemented by: a Log's Write, and tests. Any thread.
using LogSink =
    std::function<void(LogLevel level, const char* event, std::initializer_list<LogField> fields)>;
inline void LogNothing(LogLevel, const char*, std::initializer_list<LogField>) {}

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_LOG_LOG_H_
