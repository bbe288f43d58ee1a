// AuditLog records who did what, when, and with which result. Each line is a JSON object
// (docs/formats/audit.md).
//
// A call is written before its effect, and again under the same id when it ends. A refused call is written
// once. A line that cannot be written does not stop the caller. It is counted, the log reports it once, and
// the next line written has the number of missing lines. Each line has the hash of the one before
// (AuditChain). Callers pass no secrets.
#ifndef LOCKSTEP_BASE_LOG_AUDIT_LOG_H_
#define LOCKSTEP_BASE_LOG_AUDIT_LOG_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log/line_file.h"
#include "base/log/log.h"
#include "base/mutex.h"

namespace lockstep {

// The caller, as far as it is known.
struct AuditCaller {
  // Source of this identity; "" means unknown.
  //   "token", "job_token", "munge", "certificate"
  //   "kernel": the peer of the socket
  //   "folder": a socket that only its user can reach
  //   "session": the session of a browser
  //   "program": the program that writes the log
  std::string by;
  std::optional<uid_t> uid;
  std::string peer;  // "10.0.0.7:41234"; empty: unknown
  std::string job;   // the only job that the caller may use; empty: not so limited
};

// Returns the peer of a local socket, as identified by the kernel.
inline AuditCaller LocalCaller(uid_t uid) { return {"kernel", uid, "", ""}; }

struct AuditCounts {
  uint64_t written = 0;
  uint64_t failed = 0;      // could not be written
  uint64_t suppressed = 0;  // refusals above kRefusalsPerMinute
};

// Any thread may call it.
class AuditLog {
 public:
  // The most refusals per minute that are written, because any process that reaches a port can cause
  // refusals.
  static constexpr uint64_t kRefusalsPerMinute = 60;

  struct Options {
    std::string program;  // "lockstep-aggregator 0.1.0"
    // Distinguishes the ids of this process from those of its earlier runs.
    uint64_t session = 0;
    // Returns the name of a user, empty if there is none. It may take long, so no lock is held during the
    // call.
    std::function<std::string(uid_t)> user_name;
    LogSink log = &LogNothing;
  };

  // With a null `sink` nothing is kept. `clock` must outlive this object.
  AuditLog(Options options, std::unique_ptr<LineSink> sink, const Clock& clock);

  // A call in progress. Its destructor ends it as "unknown" unless End was called, so that no call stays
  // open. One thread at a time may use it.
  class Call {
   public:
    Call(Call&& other) noexcept;
    Call& operator=(Call&&) = delete;
    ~Call();
    // `result` is "ok" or a word of docs/formats/audit.md. `text` is the message that the caller received,
    // and may be empty.
    void End(const char* result, std::string_view text, std::initializer_list<LogField> fields = {});

   private:
    friend class AuditLog;
    Call(AuditLog* log, std::string head) : log_(log), head_(std::move(head)) {}
    AuditLog* log_;  // null: ended
    std::string head_;
  };
  Call Begin(const char* what, const AuditCaller& caller, std::initializer_list<LogField> fields);
  // Records an event without a duration.
  void Note(const char* what, const AuditCaller& caller, const char* result,
            std::initializer_list<LogField> fields);
  void Refused(const char* what, const AuditCaller& caller, std::string_view reason,
               std::initializer_list<LogField> fields = {});

  AuditCounts counts() const;

 private:
  std::string Head(const char* what, const AuditCaller& caller);
  // `head` is the line without its time.
  void Write(std::string_view head, const char* stage, const char* result, std::string_view text,
             std::initializer_list<LogField> fields);
  bool MayLogRefusal();

  const Options options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  const std::unique_ptr<LineSink> sink_ ABSL_PT_GUARDED_BY(mutex_);
  AuditCounts counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t missing_ ABSL_GUARDED_BY(mutex_) = 0;  // lines since the last one that was written
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string previous_ ABSL_GUARDED_BY(mutex_);  // hash of the last line that was written
  std::optional<MonoTime> minute_ ABSL_GUARDED_BY(mutex_);
  uint64_t refusals_in_minute_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Opens the file of an audit log for AuditLog. kSyslog copies its lines to the system's log, as those of
// `program`. Errors are those of LineFile::Open.
enum class AuditCopy : uint8_t { kNone, kSyslog };
absl::StatusOr<std::unique_ptr<LineSink>> OpenAuditFile(
    const std::string& path, AuditCopy copy, const std::string& program, LogSink log,
    LineFile::OpenToAppend open = &LineFile::OpenDirectly);

// Returns the system's name of a user, empty if there is none.
std::string SystemUserName(uid_t uid);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_AUDIT_LOG_H_
