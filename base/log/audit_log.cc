#include "base/log/audit_log.h"

#include <pwd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log/line_hash.h"
#include "base/log/line_text.h"
#include "base/log/syslog_lines.h"

namespace lockstep {
namespace {

constexpr int kVersion = 1;
constexpr char kSystemLog[] = "/dev/log";
constexpr size_t kLongestAuditValue = 500;

void AppendField(const char* key, std::string_view value, std::string& line) {
  absl::StrAppend(&line, ",\"", key, "\":");
  AppendQuoted(value, kLongestAuditValue, line);
}

void AppendFields(std::initializer_list<LogField> fields, std::string& line) {
  for (const LogField& field : fields) {
    if (field.is_number) {
      absl::StrAppend(&line, ",\"", field.key, "\":", field.value);
    } else if (!field.value.empty()) {
      AppendField(field.key, field.value, line);
    }
  }
}

}  // namespace

AuditLog::AuditLog(Options options, std::unique_ptr<LineSink> sink, const Clock& clock)
    : options_(std::move(options)), clock_(clock), sink_(std::move(sink)) {
  const std::string last = sink_ == nullptr ? "" : sink_->LastLine();
  if (!last.empty()) previous_ = HashOfLine(last);
}

std::string AuditLog::Head(const char* what, const AuditCaller& caller) {
  const std::string user = caller.uid && options_.user_name ? options_.user_name(*caller.uid) : "";
  uint64_t number = 0;
  {
    MutexLock lock(&mutex_);
    number = next_++;
  }
  std::string head = absl::StrFormat(",\"id\":\"%016x-%u\"", options_.session, number);
  AppendField("program", options_.program, head);
  AppendField("what", what, head);
  if (!caller.by.empty()) AppendField("by", caller.by, head);
  if (caller.uid) absl::StrAppend(&head, ",\"uid\":", *caller.uid);
  if (!user.empty()) AppendField("user", user, head);
  if (!caller.peer.empty()) AppendField("peer", caller.peer, head);
  if (!caller.job.empty()) AppendField("only_job", caller.job, head);
  return head;
}

void AuditLog::Write(std::string_view head, const char* stage, const char* result, std::string_view text,
                     std::initializer_list<LogField> fields) {
  if (sink_ == nullptr) return;
  std::string line = absl::StrCat("{\"v\":", kVersion, ",\"time\":\"", TimeText(clock_.Realtime()), "\"",
                                  absl::string_view(head.data(), head.size()));
  AppendField("stage", stage, line);
  if (result != nullptr) AppendField("result", result, line);
  if (!text.empty()) AppendField("text", text, line);
  AppendFields(fields, line);
  MutexLock lock(&mutex_);
  if (missing_ > 0) absl::StrAppend(&line, ",\"missing_before\":", missing_);
  absl::StrAppend(&line, ",\"prev\":\"", previous_, "\"}");
  const absl::Status written = sink_->Append(line);
  if (written.ok()) {
    previous_ = HashOfLine(line);
    ++counts_.written;
    if (failing_) options_.log(LogLevel::kInfo, "audit_works_again", {{"lines_missing", missing_}});
    failing_ = false;
    missing_ = 0;
    return;
  }
  ++counts_.failed;
  ++missing_;
  if (!failing_) options_.log(LogLevel::kError, "audit_failed", {{"reason", written.message()}});
  failing_ = true;
}

AuditLog::Call AuditLog::Begin(const char* what, const AuditCaller& caller,
                               std::initializer_list<LogField> fields) {
  if (sink_ == nullptr) return Call(nullptr, "");
  std::string head = Head(what, caller);
  Write(head, "begin", nullptr, "", fields);
  return Call(this, std::move(head));
}

void AuditLog::Note(const char* what, const AuditCaller& caller, const char* result,
                    std::initializer_list<LogField> fields) {
  if (sink_ != nullptr) Write(Head(what, caller), "only", result, "", fields);
}

bool AuditLog::MayLogRefusal() {
  const MonoTime now = clock_.Monotonic();
  MutexLock lock(&mutex_);
  if (!minute_ || now - *minute_ >= Nanos::Seconds(60)) {
    minute_ = now;
    refusals_in_minute_ = 0;
  }
  if (++refusals_in_minute_ <= kRefusalsPerMinute) return true;
  ++counts_.suppressed;
  ++missing_;
  return false;
}

void AuditLog::Refused(const char* what, const AuditCaller& caller, std::string_view reason,
                       std::initializer_list<LogField> fields) {
  if (sink_ != nullptr && MayLogRefusal()) Write(Head(what, caller), "only", "refused", reason, fields);
}

AuditCounts AuditLog::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

AuditLog::Call::Call(Call&& other) noexcept
    : log_(std::exchange(other.log_, nullptr)), head_(std::move(other.head_)) {}

AuditLog::Call::~Call() { End("unknown", ""); }

void AuditLog::Call::End(const char* result, std::string_view text, std::initializer_list<LogField> fields) {
  if (AuditLog* log = std::exchange(log_, nullptr)) log->Write(head_, "end", result, text, fields);
}

absl::StatusOr<std::unique_ptr<LineSink>> OpenAuditFile(const std::string& path, AuditCopy copy,
                                                        const std::string& program, LogSink log,
                                                        LineFile::OpenToAppend open) {
  absl::StatusOr<std::unique_ptr<LineFile>> file = LineFile::Open(path, std::move(open));
  if (!file.ok()) return file.status();
  if (copy == AuditCopy::kNone) return *std::move(file);
  return std::make_unique<SyslogLines>(*std::move(file), program, kSystemLog, std::move(log));
}

std::string SystemUserName(uid_t uid) {
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> text(16u << 10);
  return ::getpwuid_r(uid, &entry, text.data(), text.size(), &found) == 0 && found != nullptr ? found->pw_name
                                                                                              : "";
}

}  // namespace lockstep
