#include "base/files/file_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/fd.h"

namespace lockstep {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;

absl::Status SystemError(const char* what, const std::string& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

class AtomicFile final : public ByteSink {
 public:
  AtomicFile(Fd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), partial_(path_ + ".partial") {
    buffer_.reserve(kBufferBytes);
  }

  absl::Status Append(std::string_view bytes) override {
    if (buffer_.size() + bytes.size() > kBufferBytes) {
      if (absl::Status s = Flush(); !s.ok()) return s;
    }
    if (bytes.size() >= kBufferBytes) return Write(bytes);
    buffer_.append(bytes);
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (absl::Status s = Flush(); !s.ok()) return s;
    // A rename before the bytes are on disk would let a crash leave an empty file under the final name. Some
    // files (pipes, /dev/null) cannot be synced. That is not an error by itself: the rename below fails if
    // they cannot be renamed.
    if (::fdatasync(fd_.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return SystemError("write", partial_, errno);
    }
    fd_.reset();
    if (::rename(partial_.c_str(), path_.c_str()) != 0) return SystemError("rename to", path_, errno);
    return absl::OkStatus();
  }

 private:
  absl::Status Flush() {
    absl::Status s = Write(buffer_);
    buffer_.clear();
    return s;
  }

  absl::Status Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0) {
        if (errno == EINTR) continue;
        return SystemError("write", partial_, errno);
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  Fd fd_;
  std::string path_;
  std::string partial_;
  std::string buffer_;
};

class Gzip final : public ByteSink {
 public:
  explicit Gzip(std::unique_ptr<ByteSink> inner) : inner_(std::move(inner)), out_(kBufferBytes, '\0') {
    constexpr int kGzipWindow = 15 + 16;
    constexpr int kMemory = 9;
    ready_ = ::deflateInit2(&stream_, 1, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Gzip() override {
    if (ready_) ::deflateEnd(&stream_);
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  absl::Status Append(std::string_view bytes) override {
    // zlib counts bytes in 32 bits.
    constexpr size_t kMost = 1u << 30;
    while (bytes.size() > kMost) {
      if (absl::Status s = Deflate(bytes.substr(0, kMost), Z_NO_FLUSH); !s.ok()) return s;
      bytes.remove_prefix(kMost);
    }
    return Deflate(bytes, Z_NO_FLUSH);
  }

  absl::Status Finish() override {
    if (absl::Status s = Deflate({}, Z_FINISH); !s.ok()) return s;
    return inner_->Finish();
  }

 private:
  absl::Status Deflate(std::string_view bytes, int flush) {
    if (!ready_) return absl::ResourceExhaustedError("cannot compress: zlib found no memory");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    int code = Z_OK;
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
      stream_.avail_out = static_cast<uInt>(out_.size());
      code = ::deflate(&stream_, flush);
      if (code == Z_STREAM_ERROR) return absl::InternalError("cannot compress: zlib refused its own stream");
      const size_t made = out_.size() - stream_.avail_out;
      if (made > 0) {
        if (absl::Status s = inner_->Append({out_.data(), made}); !s.ok()) return s;
      }
    } while (stream_.avail_in > 0 || (flush == Z_FINISH && code != Z_STREAM_END) || stream_.avail_out == 0);
    return absl::OkStatus();
  }

  std::unique_ptr<ByteSink> inner_;
  std::string out_;
  z_stream stream_ = {};
  bool ready_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSink>> OpenAtomicFile(const std::string& path) {
  const std::string partial = path + ".partial";
  Fd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd.ok()) return SystemError("create", partial, errno);
  return std::make_unique<AtomicFile>(std::move(fd), path);
}

std::unique_ptr<ByteSink> GzipSink(std::unique_ptr<ByteSink> inner) {
  return std::make_unique<Gzip>(std::move(inner));
}

}  // namespace lockstep
