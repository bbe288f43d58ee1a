#include "wire/columns/frame.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"

namespace lockstep::columns {
namespace {

constexpr int kZstdLevel = 1;  // on these columns, higher levels take 3x the time for 1 % of the size

struct FreeZstd {
  void operator()(ZSTD_CCtx* c) const { ZSTD_freeCCtx(c); }
  void operator()(ZSTD_DCtx* d) const { ZSTD_freeDCtx(d); }
};

// A compression context is half a megabyte of scratch memory without state between blocks. One context per
// thread instead of one per builder saves memory in a daemon with many ranks.
ZSTD_CCtx* Compressor() {
  thread_local std::unique_ptr<ZSTD_CCtx, FreeZstd> context(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

ZSTD_DCtx* Decompressor() {
  thread_local std::unique_ptr<ZSTD_DCtx, FreeZstd> context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

// Covers the header with 0 as checksum, then the stored payload.
uint32_t Checksum(BlockHeader header, const void* payload, size_t bytes) {
  header.checksum = 0;
  uLong crc = crc32(0L, reinterpret_cast<const Bytef*>(&header), sizeof(header));
  crc = crc32_z(crc, static_cast<const Bytef*>(payload), bytes);
  return static_cast<uint32_t>(crc);
}

}  // namespace

void AppendFrame(BlockHeader header, std::span<const uint8_t> raw, std::string& out) {
  const size_t at = out.size();
  const size_t bound = ZSTD_compressBound(raw.size());
  out.resize(at + sizeof(BlockHeader) + bound);
  char* payload = out.data() + at + sizeof(BlockHeader);
  const size_t stored = ZSTD_compressCCtx(Compressor(), payload, bound, raw.data(), raw.size(), kZstdLevel);
  // The destination has compressBound bytes, so only a lack of memory can make the call fail.
  if (ZSTD_isError(stored)) throw std::bad_alloc();
  header.raw_bytes = static_cast<uint32_t>(raw.size());
  header.stored_bytes = static_cast<uint32_t>(stored);
  header.checksum = Checksum(header, payload, stored);
  std::memcpy(out.data() + at, &header, sizeof(header));
  out.resize(at + sizeof(BlockHeader) + stored);
}

absl::StatusOr<Frame> ReadFrame(std::span<const std::byte> bytes, size_t* skip) {
  if (skip != nullptr) *skip = 0;
  Frame frame;
  BlockHeader& header = frame.header;
  if (bytes.size() < sizeof(BlockHeader)) {
    // Compares the part of the magic that is there: bytes that cannot begin a block are damaged, not
    // truncated.
    if (std::memcmp(bytes.data(), &kBlockMagic, std::min(bytes.size(), sizeof(kBlockMagic))) != 0) {
      return absl::DataLossError("no block begins here: the magic number is wrong");
    }
    return absl::OutOfRangeError("the data ends inside a block header");
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kBlockMagic)
    return absl::DataLossError("no block begins here: the magic number is wrong");
  if (header.raw_bytes > kMaxRawBytes || header.stored_bytes > ZSTD_compressBound(kMaxRawBytes) ||
      header.stored_bytes > ZSTD_compressBound(header.raw_bytes)) {
    return absl::DataLossError(absl::StrCat("block sizes are impossible: ", header.stored_bytes,
                                            " bytes stored for ", header.raw_bytes, " bytes"));
  }
  if (bytes.size() - sizeof(header) < header.stored_bytes) {
    return absl::OutOfRangeError(absl::StrCat("the data ends inside a block: it has ",
                                              bytes.size() - sizeof(header), " of ", header.stored_bytes,
                                              " payload bytes"));
  }
  frame.payload = bytes.subspan(sizeof(header), header.stored_bytes);
  frame.bytes = sizeof(header) + header.stored_bytes;
  if (Checksum(header, frame.payload.data(), frame.payload.size()) != header.checksum) {
    return absl::DataLossError("the block's checksum is wrong");
  }
  if (skip != nullptr) *skip = frame.bytes;
  if (header.version == 0 || header.version > kBlockVersion) {
    return absl::UnimplementedError(absl::StrCat("block version ", header.version,
                                                 " is unknown, this program reads 1 to ", kBlockVersion,
                                                 ": use a newer Lockstep"));
  }
  if (header.kind != static_cast<uint16_t>(Kind::kString) && Schema(static_cast<Kind>(header.kind)).empty()) {
    return absl::UnimplementedError(
        absl::StrCat("blocks of kind ", header.kind, " are unknown: use a newer Lockstep"));
  }
  if (header.rows == 0 || header.rows > kMaxRows) {
    return absl::DataLossError(
        absl::StrCat("a block has ", header.rows, " rows; it must have 1 to ", kMaxRows));
  }
  return frame;
}

absl::Status Inflate(const Frame& frame, std::string& raw) {
  const unsigned long long declared = ZSTD_getFrameContentSize(frame.payload.data(), frame.payload.size());
  if (declared != frame.header.raw_bytes) {
    return absl::DataLossError("the compressed payload does not have the size that the block header states");
  }
  raw.resize(frame.header.raw_bytes);
  const size_t got =
      ZSTD_decompressDCtx(Decompressor(), raw.data(), raw.size(), frame.payload.data(), frame.payload.size());
  if (ZSTD_isError(got) || got != raw.size()) {
    return absl::DataLossError(absl::StrCat("the payload does not decompress: ",
                                            ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it is too short"));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::columns
