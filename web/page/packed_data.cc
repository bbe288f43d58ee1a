#include "web/page/packed_data.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/escaping.h"
#include "base/log/clean_text.h"

namespace lockstep::web {
namespace {

void AppendWord(std::string& out, uint32_t word) {
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<char>(word >> shift & 0xFF));
}

constexpr int kDroppedBits = 11;  // of the mantissa's 23 bits

float Rounded(float value) {
  if (!std::isfinite(value)) return std::numeric_limits<float>::quiet_NaN();
  // A carry into the exponent is correct rounding. Near the largest value the result would be infinite.
  const uint32_t up = std::bit_cast<uint32_t>(value) + (1u << (kDroppedBits - 1));
  const float rounded = std::bit_cast<float>(up & ~((1u << kDroppedBits) - 1));
  return std::isfinite(rounded) ? rounded : value;
}

absl::StatusOr<std::string> Gzip(std::string_view bytes) {
  constexpr int kGzipWindow = 15 + 16, kMemory = 8;
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, kGzipWindow, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::InternalError("the page's data could not be compressed: zlib has no memory");
  }
  std::string out;
  constexpr size_t kPiece = 1u << 20;
  int result = Z_OK;
  for (size_t taken = 0; result != Z_STREAM_END;) {
    if (stream.avail_in == 0 && taken < bytes.size()) {
      const size_t next = std::min(kPiece, bytes.size() - taken);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + taken));
      stream.avail_in = static_cast<uInt>(next);
      taken += next;
    }
    const size_t had = out.size();
    out.resize(had + kPiece);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream.avail_out = static_cast<uInt>(kPiece);
    result = deflate(&stream, taken == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    out.resize(had + kPiece - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace

NumbersAt PackedData::AddRounded(std::span<const float> values) {
  const NumbersAt at{numbers_.size() / sizeof(float), values.size()};
  for (const float value : values) AppendWord(numbers_, std::bit_cast<uint32_t>(Rounded(value)));
  return at;
}

NumbersAt PackedData::AddExact(std::span<const float> values) {
  const NumbersAt at{numbers_.size() / sizeof(float), values.size()};
  for (const float value : values) AppendWord(numbers_, std::bit_cast<uint32_t>(value));
  return at;
}

absl::StatusOr<std::string> PackedData::Seal(std::string json) const {
  // A name must not change the direction of the text around it.
  json = CleanLines(json);
  while (json.size() % sizeof(float) != 0) json.push_back(' ');
  std::string bytes;
  bytes.reserve(sizeof(uint32_t) + json.size() + numbers_.size());
  AppendWord(bytes, static_cast<uint32_t>(json.size()));
  bytes += json;
  bytes += numbers_;
  absl::StatusOr<std::string> packed = Gzip(bytes);
  if (!packed.ok()) return packed.status();
  return absl::Base64Escape(*packed);
}

}  // namespace lockstep::web
