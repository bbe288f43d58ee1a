// A trace's bytes, read once from front to back.
//
// Implemented by: FileSource (a file as it lies), MemorySource (bytes at hand: tests, fuzzer), GzipSource and
// ZstdSource (another source inflated). One thread at a time.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_BYTE_SOURCE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep::trace {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Fills the front of `out` (never empty) and says how much of it; 0 is the end, and stays so.
  virtual size_t Read(std::span<char> out) = 0;

  // Why the end came before the end of the data, as half a sentence ("the gzip data ends in the middle");
  // empty when it did not. Meaningful once Read() returned 0. Bytes read until then are good as far as
  // anybody can tell.
  virtual std::string_view damage() const = 0;

  // Bytes behind the end of compressed data that are no more of it, and no padding. Meaningful once Read()
  // returned 0.
  virtual uint64_t leftover() const { return 0; }

  // Bytes taken from the file so far, for progress.
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

// Any number of gzip members one after another, as one stream. `inner` starts with a gzip header.
std::unique_ptr<ByteSource> GzipSource(std::unique_ptr<ByteSource> inner);

// Any number of zstd frames, as GzipSource.
std::unique_ptr<ByteSource> ZstdSource(std::unique_ptr<ByteSource> inner);

// The first bytes, fewer at the end of the data; `source` gives them again.
std::string Peek(std::unique_ptr<ByteSource>& source, size_t bytes);

// The file's bytes, inflated when they begin as gzip or zstd does: the name says nothing. kNotFound,
// kPermissionDenied or kInvalidArgument (a folder) with one sentence that names the file.
struct OpenedTrace {
  std::unique_ptr<ByteSource> source;
  uint64_t bytes = 0;  // of the file as it lies
};
absl::StatusOr<OpenedTrace> OpenTrace(const std::string& path);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_BYTE_SOURCE_H_
