// ByteSource reads the bytes of a trace once, from front to back.
//
// Implemented by FileSource (the bytes of a file), MemorySource (bytes in memory, for tests and the fuzzer),
// GzipSource and ZstdSource (another source, inflated). One thread at a time may use a source.
#ifndef LOCKSTEP_FORMATS_COMMON_BYTE_SOURCE_H_
#define LOCKSTEP_FORMATS_COMMON_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep::formats {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills the front of `out`, which is never empty, and returns the number of bytes. It returns 0 at the end,
  // and again on every later call.
  virtual size_t Read(std::span<char> out) = 0;

  // Half a sentence that says why reading stopped before the end of the data ("the gzip data ends in the
  // middle"); empty if reading reached the end. Valid after Read() returned 0. The source knows of no error
  // in the bytes that Read() returned until then.
  virtual std::string_view damage() const = 0;

  // Number of bytes after the end of the compressed data that are neither data nor padding. Valid after
  // Read() returned 0.
  virtual uint64_t leftover() const { return 0; }

  // Number of bytes read from the file so far, for progress.
  virtual uint64_t consumed() const = 0;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  size_t Read(std::span<char> out) override;
  std::string_view damage() const override { return ""; }
  uint64_t consumed() const override { return at_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
};

class FileSource final : public ByteSource {
 public:
  explicit FileSource(Fd fd) : fd_(std::move(fd)) {}
  size_t Read(std::span<char> out) override;
  std::string_view damage() const override { return damage_; }
  uint64_t consumed() const override { return consumed_; }

 private:
  Fd fd_;
  uint64_t consumed_ = 0;
  std::string damage_;
};

// Inflates any number of consecutive gzip members as one stream. `inner` starts with a gzip header.
std::unique_ptr<ByteSource> GzipSource(std::unique_ptr<ByteSource> inner);

// Inflates any number of consecutive zstd frames as one stream.
std::unique_ptr<ByteSource> ZstdSource(std::unique_ptr<ByteSource> inner);

// Returns the first `bytes` bytes, or fewer if the data ends before. `source` returns them again.
std::string Peek(std::unique_ptr<ByteSource>& source, size_t bytes);

// Opens a file and inflates it if its first bytes are those of gzip or zstd; the file's name does not matter.
// Fails with kNotFound, kPermissionDenied or kInvalidArgument (a folder, a FIFO, a device, a socket) and one
// sentence that names the file. A pipe of the shell is read.
struct OpenedTrace {
  std::unique_ptr<ByteSource> source;
  uint64_t bytes = 0;  // size of the file, not inflated
};
absl::StatusOr<OpenedTrace> OpenTrace(const std::string& path);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_BYTE_SOURCE_H_
