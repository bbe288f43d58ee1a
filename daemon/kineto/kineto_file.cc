#include "daemon/kineto/kineto_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rpc/status_macros.h"
#include "daemon/kineto/kineto_config.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kPieceBytes = 256u << 10;
constexpr std::chrono::milliseconds kRoomPause(20);
constexpr char kWriting[] = ".tmp";
constexpr unsigned char kGzipMagic[] = {0x1F, 0x8B};

// Level 1 shrinks a trace to a tenth. Higher levels cost processor time that belongs to the job.
class Gzip {
 public:
  enum class Input { kMore, kEnd };
  Gzip() { ok_ = deflateInit2(&stream_, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK; }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  // Appends to `out`. Returns false if zlib fails.
  bool Add(const char* bytes, size_t length, Input input, std::string& out) {
    if (!ok_) return false;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes));
    stream_.avail_in = static_cast<uInt>(length);
    std::vector<char> part(kPieceBytes);
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(part.data());
      stream_.avail_out = static_cast<uInt>(part.size());
      if (deflate(&stream_, input == Input::kEnd ? Z_FINISH : Z_NO_FLUSH) == Z_STREAM_ERROR) return false;
      out.append(part.data(), part.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
    return true;
  }

 private:
  z_stream stream_{};
  bool ok_ = false;
};

// Cuts its buffer into pieces and waits for room for each.
class Pieces {
 public:
  Pieces(const KinetoPut& put, const std::function<bool()>& cancelled, const Clock& clock, Nanos wait,
         uint64_t* sent)
      : put_(put), cancelled_(cancelled), clock_(clock), wait_(wait), sent_(sent) {}
  std::string& buffer() { return buffer_; }

  absl::Status PutWhole() {
    size_t from = 0;
    for (; buffer_.size() - from >= kPieceBytes; from += kPieceBytes) {
      LOCKSTEP_RETURN_IF_ERROR(PutOne(buffer_.substr(from, kPieceBytes), false));
    }
    buffer_.erase(0, from);
    return absl::OkStatus();
  }
  absl::Status PutLast() {
    LOCKSTEP_RETURN_IF_ERROR(PutWhole());
    return PutOne(std::move(buffer_), true);
  }

 private:
  absl::Status PutOne(std::string data, bool last) {
    v1::TraceFile piece;
    piece.set_offset(*sent_);
    piece.set_last(last);
    *sent_ += data.size();
    piece.set_data(std::move(data));
    const MonoTime until = clock_.Monotonic() + wait_;
    while (true) {
      if (cancelled_()) return absl::CancelledError("it is no longer needed");
      if (put_(piece)) return absl::OkStatus();
      if (clock_.Monotonic() >= until) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the daemon's spool had no room for it within ", wait_.seconds(),
                         " s: the aggregator was too slow or not connected; raise --spool-bytes"));
      }
      std::this_thread::sleep_for(kRoomPause);
    }
  }

  const KinetoPut& put_;
  const std::function<bool()>& cancelled_;
  const Clock& clock_;
  const Nanos wait_;
  uint64_t* const sent_;
  std::string buffer_;
};

}  // namespace

bool KinetoFile::ProcessLives() const {
  const auto info = FindProcess(access_, spec_.process.pid);
  return info && info->id == spec_.process && !info->ended;
}

std::string KinetoFile::NameOf(Place place) const {
  return place == Place::kRequested ? KinetoFileName(spec_.session, spec_.client_pid)
                                    : KinetoFallbackName(spec_.client_pid);
}

bool KinetoFile::IsComplete(Place place) {
  const std::optional<struct stat> info = FolderOf(place).Stat(NameOf(place));
  if (!info || !S_ISREG(info->st_mode) || info->st_uid != spec_.uid) return false;
  const HostTime changed(info->st_mtim.tv_sec * int64_t{1'000'000'000} + info->st_mtim.tv_nsec);
  if (place == Place::kFallback && changed < spec_.not_before) return false;
  if (seen_writing_) return true;
  const MonoTime now = clock_.Monotonic();
  if (info->st_size != last_size_) {
    last_size_ = info->st_size;
    size_since_ = now;
  }
  return now - size_since_ >= settings_.stable_after;
}

void KinetoFile::OpenFolders() {
  if (requested_ != nullptr) return;
  const ProcessId& process = spec_.process;
  requested_ = folders_.Open(process.pid, process.start_ticks, spec_.folder);
  fallback_ = folders_.Open(process.pid, process.start_ticks, settings_.fallback_folder);
}

KinetoFileStage KinetoFile::CheckStage() {
  OpenFolders();
  if (whole_) return KinetoFileStage::kWhole;
  bool writing = false;
  for (const Place place : {Place::kRequested, Place::kFallback}) {
    const std::optional<struct stat> info = FolderOf(place).Stat(NameOf(place) + kWriting);
    if (info && info->st_uid == spec_.uid &&
        (place == Place::kRequested || info->st_mtim.tv_sec >= spec_.not_before.ns() / 1'000'000'000)) {
      writing = true;
      continue;
    }
    if (!IsComplete(place)) continue;
    found_ = place;
    whole_ = true;
    return KinetoFileStage::kWhole;
  }
  seen_writing_ = seen_writing_ || writing;
  return writing || last_size_ >= 0 ? KinetoFileStage::kWriting : KinetoFileStage::kNone;
}

absl::StatusOr<Fd> KinetoFile::Open() {
  const std::string name = NameOf(found_);
  LOCKSTEP_ASSIGN_OR_RETURN(Fd fd, FolderOf(found_).Open(name));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != spec_.uid ||
      info.st_nlink != 1) {
    return absl::PermissionDeniedError(
        absl::StrCat(name, " is not a plain file of user ", spec_.uid, " with one name, and was not read"));
  }
  if (static_cast<uint64_t>(info.st_size) > settings_.most_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(name, " has ", info.st_size, " bytes; the limit is ",
                                                     settings_.most_bytes, " bytes: request a shorter time"));
  }
  return fd;
}

absl::Status KinetoFile::SendAll(int fd, const KinetoPut& put, const std::function<bool()>& cancelled,
                                 uint64_t* sent) {
  Pieces pieces(put, cancelled, clock_, settings_.wait_for_room, sent);
  std::unique_ptr<Gzip> gzip;
  std::vector<char> part(kPieceBytes);
  // The file may still grow, so the loop enforces the limit again.
  for (uint64_t taken = 0; taken <= settings_.most_bytes;) {
    const ssize_t n = read(fd, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", NameOf(found_)));
    const auto length = static_cast<size_t>(n);
    // The content decides, not the name: some builds write gzip, some do not.
    if (taken == 0 &&
        !(length >= sizeof(kGzipMagic) &&
          std::equal(std::begin(kGzipMagic), std::end(kGzipMagic), part.begin(),
                     [](unsigned char a, char b) { return a == static_cast<unsigned char>(b); }))) {
      gzip = std::make_unique<Gzip>();
    }
    if (length == 0) {
      if (taken == 0) return absl::DataLossError(absl::StrCat(NameOf(found_), " is empty"));
      if (gzip && !gzip->Add(nullptr, 0, Gzip::Input::kEnd, pieces.buffer()))
        return absl::InternalError("zlib failed");
      return pieces.PutLast();
    }
    taken += length;
    if (!gzip) {
      pieces.buffer().append(part.data(), length);
    } else if (!gzip->Add(part.data(), length, Gzip::Input::kMore, pieces.buffer())) {
      return absl::InternalError("zlib failed");
    }
    LOCKSTEP_RETURN_IF_ERROR(pieces.PutWhole());
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(NameOf(found_), " grew beyond ", settings_.most_bytes, " bytes"));
}

KinetoSendResult KinetoFile::Send(const KinetoPut& put, const std::function<bool()>& cancelled) {
  KinetoSendResult result;
  const KinetoFileStage stage = CheckStage();
  if (stage != KinetoFileStage::kWhole) {
    result.error =
        stage == KinetoFileStage::kWriting
            ? "its trace file was never completed"
            : absl::StrCat("no trace file appeared as ", spec_.folder, "/", NameOf(Place::kRequested));
    return result;
  }
  const auto fd = Open();
  const absl::Status status = fd.ok() ? SendAll(fd->get(), put, cancelled, &result.bytes) : fd.status();
  if (status.ok()) return result;
  result.error = std::string(status.message());
  if (result.bytes > 0) {
    v1::TraceFile end;
    end.set_offset(result.bytes);
    end.set_given_up(result.error);
    put(std::move(end));
  }
  return result;
}

void KinetoFile::Remove() {
  // A capture may be abandoned before the first Look.
  OpenFolders();
  const std::string name = NameOf(Place::kRequested);
  for (const std::string& each : {name, name + kWriting}) {
    if (each != name && ProcessLives()) continue;
    const std::optional<struct stat> info = requested_->Stat(each);
    if (info && info->st_uid == spec_.uid) requested_->Remove(each);
  }
}

}  // namespace lockstep::daemon
