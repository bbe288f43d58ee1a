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

// Collects bytes and writes them to a descriptor. `name` is for errors.
class BufferedWriter {
 public:
  explicit BufferedWriter(std::string name) : name_(std::move(name)) { buffer_.reserve(kBufferBytes); }

  absl::Status Append(int fd, std::string_view bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) {
      if (absl::Status s = Flush(fd); !s.ok()) return s;
    }
    if (bytes.size() >= kBufferBytes) return Write(fd, bytes);
    buffer_.append(bytes);
    return absl::OkStatus();
  }

  // Writes the rest and waits until all bytes are on disk. Some files (pipes, /dev/null) cannot be synced,
  // which is not an error.
  absl::Status Sync(int fd) {
    if (absl::Status s = Flush(fd); !s.ok()) return s;
    if (::fdatasync(fd) != 0 && errno != EINVAL && errno != EROFS) return SystemError("write", name_, errno);
    return absl::OkStatus();
  }

 private:
  absl::Status Flush(int fd) {
    absl::Status s = Write(fd, buffer_);
    buffer_.clear();
    return s;
  }

  absl::Status Write(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd, bytes.data(), bytes.size());
      if (n < 0) {
        if (errno == EINTR) continue;
        return SystemError("write", name_, errno);
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  const std::string name_;
  std::string buffer_;
};

class AtomicFile final : public ByteSink {
 public:
  AtomicFile(Fd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)), partial_(path_ + ".partial"), writer_(partial_) {}

  absl::Status Append(std::string_view bytes) override { return writer_.Append(fd_.get(), bytes); }

  absl::Status Finish() override {
    // A rename before the bytes are on disk would let a crash leave an empty file under the final name.
    if (absl::Status s = writer_.Sync(fd_.get()); !s.ok()) return s;
    fd_.reset();
    if (::rename(partial_.c_str(), path_.c_str()) != 0) return SystemError("rename to", path_, errno);
    return absl::OkStatus();
  }

 private:
  Fd fd_;
  const std::string path_;
  const std::string partial_;
  BufferedWriter writer_;
};

class OpenFile final : public ByteSink {
 public:
  OpenFile(int fd, std::string name) : fd_(fd), writer_(std::move(name)) {}
  absl::Status Append(std::string_view bytes) override { return writer_.Append(fd_, bytes); }
  absl::Status Finish() override { return writer_.Sync(fd_); }

 private:
  const int fd_;
  BufferedWriter writer_;
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

std::unique_ptr<ByteSink> FdSink(int fd, std::string name) {
  return std::make_unique<OpenFile>(fd, std::move(name));
}

std::unique_ptr<ByteSink> GzipSink(std::unique_ptr<ByteSink> inner) {
  return std::make_unique<Gzip>(std::move(inner));
}

}  // namespace lockstep
