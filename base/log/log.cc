#include "base/log/log.h"

#include <unistd.h>

#include "base/log/clean_text.h"
#include "base/log/line_text.h"

namespace lockstep {
namespace {

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error"};
constexpr size_t kLongestValue = 500;

std::string TextLine(const std::string& time, const char* level, const char* event,
                     std::initializer_list<LogField> fields, uint64_t suppressed) {
  std::string line = absl::StrCat(time, " ", level, " ", event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    const std::string clean = CleanText(field.value, kLongestValue);
    if (!clean.empty() && clean.find_first_of(" \"=") == std::string::npos) {
      line += clean;
    } else {
      AppendQuoted(clean, kLongestValue, line);
    }
  }
  if (suppressed > 0) absl::StrAppend(&line, " lines_suppressed_before=", suppressed);
  return line;
}

std::string JsonLine(const std::string& time, const char* level, const char* event,
                     std::initializer_list<LogField> fields, uint64_t suppressed) {
  std::string line =
      absl::StrCat("{\"time\":\"", time, "\",\"level\":\"", level, "\",\"event\":\"", event, "\"");
  for (const LogField& field : fields) {
    absl::StrAppend(&line, ",\"", field.key, "\":");
    if (field.is_number) {
      line += field.value;
    } else {
      AppendQuoted(field.value, kLongestValue, line);
    }
  }
  if (suppressed > 0) absl::StrAppend(&line, ",\"lines_suppressed_before\":", suppressed);
  return line + "}";
}

}  // namespace

LogCounts Log::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

bool Log::Allowed(LogLevel level, MonoTime now, uint64_t* suppressed) {
  MutexLock lock(&mutex_);
  if (now - second_ >= Nanos::Seconds(1)) {
    second_ = now;
    lines_in_second_ = 0;
  }
  if (++lines_in_second_ > kLinesPerSecond) {
    ++suppressed_;
    ++counts_.suppressed;
    return false;
  }
  ++counts_.written[static_cast<size_t>(level)];
  *suppressed = suppressed_;
  suppressed_ = 0;
  return true;
}

void Log::Write(LogLevel level, const char* event, std::initializer_list<LogField> fields) {
  if (level < least_) return;
  uint64_t suppressed = 0;
  if (!Allowed(level, clock_.Monotonic(), &suppressed)) return;
  const std::string time = TimeText(clock_.Realtime());
  const char* level_name = kLevelNames[static_cast<int>(level)];
  std::string line = format_ == LogFormat::kJson ? JsonLine(time, level_name, event, fields, suppressed)
                                                 : TextLine(time, level_name, event, fields, suppressed);
  line += '\n';
  // One write per line keeps lines of several threads apart. A log that cannot be written must not stop the
  // program.
  [[maybe_unused]] const ssize_t written = write(fd_, line.data(), line.size());
}

}  // namespace lockstep
