#include <zstd.h>

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "formats/common/byte_source.h"

namespace lockstep::formats {
namespace {

// A frame with a larger window than zstd's own programs accept would make the reader allocate that window.
constexpr int kLargestWindowLog = 27;

struct FreeStream {
  void operator()(ZSTD_DStream* s) const { ZSTD_freeDStream(s); }
};

class Decompressor final : public ByteSource {
 public:
  explicit Decompressor(std::unique_ptr<ByteSource> inner)
      : inner_(std::move(inner)), stream_(ZSTD_createDStream()), compressed_(ZSTD_DStreamInSize()) {
    if (!stream_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kLargestWindowLog);
  }

  size_t Read(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0 && !ended_) {
      if (from_.pos == from_.size && !output_waits_) {
        from_ = {compressed_.data(), inner_->Read(compressed_), 0};
        if (from_.size == 0) {
          End(between_frames_ ? "" : "the zstd data is truncated");
          break;
        }
      }
      const size_t left = ZSTD_decompressStream(stream_.get(), &to, &from_);
      if (ZSTD_isError(left)) {
        End("the zstd data is damaged");
        break;
      }
      between_frames_ = left == 0;
      output_waits_ = to.pos == to.size && left != 0;
    }
    return to.pos;
  }

  std::string_view damage() const override { return damage_.empty() ? inner_->damage() : damage_; }
  uint64_t consumed() const override { return inner_->consumed(); }

 private:
  void End(std::string_view damage) {
    ended_ = true;
    damage_ = damage;
  }

  std::unique_ptr<ByteSource> inner_;
  std::unique_ptr<ZSTD_DStream, FreeStream> stream_;
  std::vector<char> compressed_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool between_frames_ = false;
  bool output_waits_ = false;
  bool ended_ = false;
  std::string damage_;
};

}  // namespace

std::unique_ptr<ByteSource> ZstdSource(std::unique_ptr<ByteSource> inner) {
  return std::make_unique<Decompressor>(std::move(inner));
}

}  // namespace lockstep::formats
