#include "formats/common/byte_source.h"

#include <isa-l/igzip_lib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"

namespace lockstep::formats {
namespace {

constexpr size_t kCompressedChunk = 128 * 1024;

class Inflater final : public ByteSource {
 public:
  explicit Inflater(std::unique_ptr<ByteSource> inner)
      : inner_(std::move(inner)), compressed_(kCompressedChunk) {
    StartMember();
  }

  size_t Read(std::span<char> out) override {
    if (ended_) return 0;
    size_t filled = 0;
    while (filled == 0 && !ended_) {
      // isal_inflate runs even without input, because its state may still hold output.
      state_.next_out = reinterpret_cast<uint8_t*>(out.data());
      state_.avail_out = static_cast<uint32_t>(std::min<size_t>(out.size(), 1u << 30));
      const uint32_t room = state_.avail_out;
      const int result = isal_inflate(&state_);
      filled = room - state_.avail_out;
      if (result != ISAL_DECOMP_OK) {
        End(result == ISAL_INCORRECT_CHECKSUM ? "the gzip checksum does not match"
                                              : "the gzip data is damaged");
      } else if (state_.block_state == ISAL_BLOCK_FINISH) {
        NextMember();
      } else if (filled == 0 && state_.avail_in == 0) {
        Refill();
      }
    }
    return filled;
  }

  std::string_view damage() const override { return damage_.empty() ? inner_->damage() : damage_; }
  uint64_t leftover() const override { return leftover_; }
  uint64_t consumed() const override { return inner_->consumed(); }

 private:
  void StartMember() {
    const uint32_t avail_in = state_.avail_in;
    uint8_t* const next_in = state_.next_in;
    isal_inflate_init(&state_);
    state_.crc_flag = ISAL_GZIP;
    state_.avail_in = avail_in;
    state_.next_in = next_in;
  }

  void Refill() {
    const size_t read = inner_->Read(compressed_);
    state_.next_in = reinterpret_cast<uint8_t*>(compressed_.data());
    state_.avail_in = static_cast<uint32_t>(read);
    if (read == 0) End("the gzip data is truncated");
  }

  // Starts the next member. Without one, the stream ends; zeros after the last member are padding.
  void NextMember() {
    while (state_.avail_in < 2) {
      char* const front = compressed_.data();
      const size_t kept = state_.avail_in;
      if (kept != 0) *front = static_cast<char>(*state_.next_in);
      const size_t read = inner_->Read(std::span(front + kept, compressed_.size() - kept));
      state_.next_in = reinterpret_cast<uint8_t*>(front);
      state_.avail_in = static_cast<uint32_t>(kept + read);
      if (read == 0) break;
    }
    const bool another = state_.avail_in >= 2 && state_.next_in[0] == 0x1f && state_.next_in[1] == 0x8b;
    if (another) {
      StartMember();
    } else {
      ended_ = true;
      CountLeftover();
    }
  }

  void CountLeftover() {
    const char* at = reinterpret_cast<const char*>(state_.next_in);
    size_t size = state_.avail_in;
    while (size != 0) {
      if (leftover_ != 0 || std::any_of(at, at + size, [](char c) { return c != 0; })) leftover_ += size;
      at = compressed_.data();
      size = inner_->Read(compressed_);
    }
  }

  void End(std::string_view damage) {
    ended_ = true;
    damage_ = damage;
  }

  std::unique_ptr<ByteSource> inner_;
  std::vector<char> compressed_;
  inflate_state state_ = {};
  bool ended_ = false;
  uint64_t leftover_ = 0;
  std::string damage_;
};

// Returns `first` and then the bytes of `rest`.
class Unread final : public ByteSource {
 public:
  Unread(std::string first, std::unique_ptr<ByteSource> rest)
      : first_(std::move(first)), rest_(std::move(rest)) {}

  size_t Read(std::span<char> out) override {
    if (at_ == first_.size()) return rest_->Read(out);
    const size_t n = std::min(out.size(), first_.size() - at_);
    std::memcpy(out.data(), first_.data() + at_, n);
    at_ += n;
    return n;
  }
  std::string_view damage() const override { return rest_->damage(); }
  uint64_t leftover() const override { return rest_->leftover(); }
  uint64_t consumed() const override { return rest_->consumed(); }

 private:
  std::string first_;
  size_t at_ = 0;
  std::unique_ptr<ByteSource> rest_;
};

}  // namespace

std::string Peek(std::unique_ptr<ByteSource>& source, size_t bytes) {
  std::string first(bytes, '\0');
  size_t filled = 0;
  while (filled < bytes) {
    const size_t read = source->Read(std::span(first).subspan(filled));
    if (read == 0) break;
    filled += read;
  }
  first.resize(filled);
  source = std::make_unique<Unread>(first, std::move(source));
  return first;
}

size_t MemorySource::Read(std::span<char> out) {
  const size_t n = std::min(out.size(), bytes_.size() - at_);
  if (n != 0) std::memcpy(out.data(), bytes_.data() + at_, n);
  at_ += n;
  return n;
}

size_t FileSource::Read(std::span<char> out) {
  while (damage_.empty()) {
    const ssize_t n = ::read(fd_.get(), out.data(), out.size());
    if (n >= 0) {
      consumed_ += static_cast<uint64_t>(n);
      return static_cast<size_t>(n);
    }
    if (errno != EINTR) damage_ = absl::StrCat("reading failed: ", std::strerror(errno));
  }
  return 0;
}

std::unique_ptr<ByteSource> GzipSource(std::unique_ptr<ByteSource> inner) {
  return std::make_unique<Inflater>(std::move(inner));
}

absl::StatusOr<OpenedTrace> OpenTrace(const std::string& path) {
  InputFile file = OpenInputFile(path, Pipes::kOfShell);
  if (!file.fd.ok()) {
    const std::string sentence = absl::StrCat(path, " ", file.why);
    if (file.error == ENOENT) return absl::NotFoundError(sentence);
    if (file.error == EACCES) return absl::PermissionDeniedError(sentence);
    return absl::InvalidArgumentError(
        absl::StrCat(sentence, file.error == EINVAL ? "; give a file, or /dev/stdin for a pipe" : ""));
  }
  OpenedTrace opened;
  opened.bytes = file.bytes;
  opened.source = std::make_unique<FileSource>(std::move(file.fd));
  // A pipe cannot be read at a place, so the first bytes are read and kept.
  const std::string first = Peek(opened.source, 4);
  const bool gzip = first.starts_with("\x1f\x8b");
  const bool zstd = first == "\x28\xb5\x2f\xfd";
  if (gzip) opened.source = GzipSource(std::move(opened.source));
  if (zstd) opened.source = ZstdSource(std::move(opened.source));
  return opened;
}

}  // namespace lockstep::formats
