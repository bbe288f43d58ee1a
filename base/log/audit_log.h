// Who did what, when, and how it ended: one JSON object a line, docs/formats/audit.md.
//
// A call is written down before its effect and again, under the same id, when it is over; a refused one once.
// A line that cannot be written stops nobody: it is counted, said once in the log, and the next line that is
// written says how many are missing. No secret is handed to it.
#ifndef LOCKSTEP_COMMON_LOG_AUDIT_LOG_H_
#define LOCKSTEP_COMMON_LOG_AUDIT_LOG_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log/line_file.h"
#include "base/log/log.h"

namespace lockstep {

// Who called, as far as that is known.
struct AuditCaller {
  // How it is known: "token", "munge", "kernel" (the socket's other end), "folder" (a socket that only its
  // user can reach), "session" (a browser's), "program" (the one that writes the log); "" where nothing is
  // known.
  std::string by;
  std::optional<uid_t> uid;
  std::string peer;  // "10.0.0.7:41234"; empty: not known
};

struct AuditCounts {
  uint64_t written = 0;
  uint64_t failed = 0;      // could not be written
  uint64_t suppressed = 0;  // refusals beyond what is written of them
};

// Any thread.
class AuditLog {
 public:
  // Refusals per minute that are written: anybody who reaches a port can make them.
  static constexpr uint64_t kRefusalsPerMinute = 60;

  struct Options {
    std::string program;  // "lockstep-aggregator 0.1.0"
    // Tells this process's ids from those of its other lives.
    uint64_t session = 0;
    // A user's name; empty: none. May take long, so it is asked outside of locks.
    std::function<std::string(uid_t)> user_name;
    LogSink log = &LogNothing;
  };

  // Null `sink`: nothing is kept. `clock` outlives it.
  AuditLog(Options options, std::unique_ptr<LineSink> sink, const Clock& clock);

  // A call that has begun. Destroyed without End it ends as "unknown", so that no call stays open. One
  // thread.
  class Call {
   public:
    Call(Call&& other) noexcept;
    Call& operator=(Call&&) = delete;
    ~Call();
    // `result`: "ok", or a word of docs/formats/audit.md. `text`: what the caller was told; may be empty.
    void End(const char* result, std::string_view text, std::initializer_list<LogField> fields = {});

   private:
    friend class AuditLog;
    Call(AuditLog* log, std::string head) : log_(log), head_(std::move(head)) {}
    AuditLog* log_;  // null: ended
    std::string head_;
  };
  Call Begin(const char* what, const AuditCaller& caller, std::initializer_list<LogField> fields);
  // Of something that takes no time.
  void Note(const char* what, const AuditCaller& caller, const char* result,
            std::initializer_list<LogField> fields);
  void Refused(const char* what, const AuditCaller& caller, std::string_view reason,
               std::initializer_list<LogField> fields = {});

  AuditCounts counts() const;

 private:
  std::string Head(const char* what, const AuditCaller& caller);
  // `head` without the time.
  void Write(std::string_view head, const char* stage, const char* result, std::string_view text,
             std::initializer_list<LogField> fields);
  bool MayRefuse();

  const Options options_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  const std::unique_ptr<LineSink> sink_;
  AuditCounts counts_;
  uint64_t next_ = 1;
  uint64_t missing_ = 0;  // lines since the last one that was written
  bool failing_ = false;
  std::optional<MonoTime> minute_;
  uint64_t refusals_in_minute_ = 0;
};

// The name that the system has for a user; empty: none.
std::string SystemUserName(uid_t uid);

}  // namespace lockstep

#endif  // LOCKSTEP_COMMON_LOG_AUDIT_LOG_H_
