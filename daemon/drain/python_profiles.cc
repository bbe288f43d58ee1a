#include "daemon/drain/python_profiles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

static_assert(static_cast<uint32_t>(v1::RECORDED_ACTIVITY_PYTHON_PROFILE) == ring::kActivityPythonProfile);
constexpr size_t kPieceBytes = 256u << 10;
constexpr Nanos kWaitForRoom = Nanos::Seconds(30);
constexpr Nanos kRetryInterval = Nanos::Millis(20);

}  // namespace

absl::Status CheckProfile(const ring::Profile& message, const Fd& file) {
  if (message.bytes > ring::kMostProfileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("its client passed a profile of ", message.bytes,
                                                   " bytes; the limit is ", ring::kMostProfileBytes,
                                                   " bytes"));
  }
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  // Only memory files have seals, so this check also guarantees that no read blocks.
  if (!file.ok() || (fcntl(file.get(), F_GET_SEALS) & kSealed) != kSealed ||
      fcntl(file.get(), F_GET_SEALS) < 0) {
    return absl::InvalidArgumentError("its client passed a profile that is not a sealed memory file");
  }
  struct stat info {};
  if (fstat(file.get(), &info) != 0 || static_cast<uint64_t>(info.st_size) != message.bytes) {
    return absl::InvalidArgumentError("its client passed a profile of another length than announced");
  }
  return absl::OkStatus();
}

PythonProfiles::~PythonProfiles() {
  for (auto& [process, entry] : entries_) {
    if (entry.timer) loop_.Cancel(*entry.timer);
  }
}

void PythonProfiles::Expect(const ProcessId& process, std::string capture, std::shared_ptr<Spool> spool) {
  Forget(process);
  Entry& entry = entries_[process];
  entry.capture = std::move(capture);
  entry.spool = std::move(spool);
}

void PythonProfiles::OnProfile(const ProcessId& process, const ring::Profile& message, Fd file) {
  const auto it = entries_.find(process);
  if (it == entries_.end() || it->second.message) return;
  it->second.message = message;
  it->second.file = std::move(file);
}

void PythonProfiles::Send(const ProcessId& process, uint64_t number, std::function<void()> done) {
  const auto it = entries_.find(process);
  if (it == entries_.end()) return done();
  Entry& entry = it->second;
  entry.done = std::move(done);
  if (!entry.message || entry.message->capture != number) return Finish(process);
  if (entry.message->bytes == 0) {
    const std::string why = FieldText(entry.message->text);
    GiveUp(process, entry, why.empty() ? "its client passed no profile and no reason" : why);
    return Finish(process);
  }
  if (const absl::Status checked = CheckProfile(*entry.message, entry.file); !checked.ok()) {
    GiveUp(process, entry, std::string(checked.message()));
    return Finish(process);
  }
  entry.give_up = clock_.Monotonic() + kWaitForRoom;
  SendPieces(process);
}

void PythonProfiles::SendPieces(const ProcessId& process) {
  Entry& entry = entries_.at(process);
  entry.timer.reset();
  while (entry.offset < entry.message->bytes) {
    bool sent = false;
    if (const absl::Status s = SendPiece(process, entry, &sent); !s.ok()) {
      GiveUp(process, entry, std::string(s.message()));
      break;
    }
    if (sent) continue;
    if (clock_.Monotonic() >= entry.give_up) {
      GiveUp(process, entry, "the daemon's spool had no room for its profile: the aggregator stored nothing");
      break;
    }
    entry.timer = loop_.After(kRetryInterval, [this, process] { SendPieces(process); });
    return;
  }
  Finish(process);
}

absl::Status PythonProfiles::SendPiece(const ProcessId& process, Entry& entry, bool* sent) {
  const size_t length = std::min<uint64_t>(kPieceBytes, entry.message->bytes - entry.offset);
  v1::TraceFile piece;
  std::string& data = *piece.mutable_data();
  data.resize(length);
  const ssize_t n = pread(entry.file.get(), data.data(), length, static_cast<off_t>(entry.offset));
  if (n != static_cast<ssize_t>(length))
    return absl::ErrnoToStatus(n < 0 ? errno : EIO, "its profile cannot be read");
  piece.set_capture(entry.capture);
  ToProto(process, piece.mutable_process());
  piece.set_kind(v1::TraceFile::PYTHON_PROFILE);
  piece.set_offset(entry.offset);
  piece.set_last(entry.offset + length == entry.message->bytes);
  piece.set_begin_host_ns(entry.message->begin_ns);
  piece.set_end_host_ns(entry.message->end_ns);
  *sent = entry.spool->AddTraceFile(std::move(piece));
  if (*sent) entry.offset += length;
  return absl::OkStatus();
}

void PythonProfiles::GiveUp(const ProcessId& process, Entry& entry, const std::string& why) {
  v1::TraceFile piece;
  piece.set_capture(entry.capture);
  ToProto(process, piece.mutable_process());
  piece.set_kind(v1::TraceFile::PYTHON_PROFILE);
  piece.set_offset(entry.offset);
  piece.set_given_up(CleanText(why, 512));
  entry.spool->AddTraceFile(std::move(piece));
}

void PythonProfiles::Finish(const ProcessId& process) {
  const std::function<void()> done = std::move(entries_.at(process).done);
  entries_.erase(process);
  done();
}

void PythonProfiles::Forget(const ProcessId& process) {
  const auto it = entries_.find(process);
  if (it == entries_.end()) return;
  if (it->second.timer) loop_.Cancel(*it->second.timer);
  entries_.erase(it);
}

}  // namespace lockstep::daemon
