// The log of lockstepd and lockstep-aggregator writes one line per event to a descriptor. A line is `time
// level event key=value …`, or a JSON object with time, level, event and the event's fields. Numbers stay
// numbers in JSON.
//
// It drops lines above kLinesPerSecond, and the next line written has the number of dropped ones. A client
// that fails in a loop therefore cannot fill a disk. Any thread may call it.
#ifndef LOCKSTEP_BASE_LOG_LOG_H_
#define LOCKSTEP_BASE_LOG_LOG_H_

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mutex.h"

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

  // It does not own `fd`.
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
  // Lines since the program started.
  LogCounts counts() const;

 private:
  bool Allowed(LogLevel level, MonoTime now, uint64_t* suppressed);

  const int fd_;
  const LogLevel least_;
  const LogFormat format_;
  const Clock& clock_;
  mutable Mutex mutex_;
  MonoTime second_ ABSL_GUARDED_BY(mutex_);
  int lines_in_second_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t suppressed_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
  LogCounts counts_ ABSL_GUARDED_BY(mutex_);
};

// A callback for code that runs with or without a log. It receives one event. Log::Write and tests implement
// it. Any thread may call it.
using LogSink =
    std::function<void(LogLevel level, const char* event, std::initializer_list<LogField> fields)>;
inline void LogNothing(LogLevel, const char*, std::initializer_list<LogField>) {}

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_LOG_H_
