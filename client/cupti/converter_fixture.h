// A test fixture: a converter between a fake CUPTI and a ring that the test reads.
#ifndef LOCKSTEP_CLIENT_CUPTI_CONVERTER_FIXTURE_H_
#define LOCKSTEP_CLIENT_CUPTI_CONVERTER_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/cupti/converter.h"
#include "tests/abi/support/daemon_end.h"
#include "tests/abi/support/fake_cupti.h"

namespace lockstep::client {

inline constexpr int64_t kT0 = 1'000'000;
inline constexpr int64_t kT1 = 2'000'000;

class ConverterTest : public testing::Test {
 protected:
  explicit ConverterTest(size_t ring_bytes = 1 << 20)
      : daemon_({.main_ring_bytes = ring_bytes, .ring_count = 1}), names_bytes_(1 << 20) {
    EXPECT_TRUE(daemon_.ok);
    EXPECT_EQ(client_.Attach(daemon_.segment.fd(), daemon_.segment.bytes()), ring::AttachError::kNone);
    window_.Open(HostTime(kT0), HostTime(kT1));
    Begin({.sizes = RecordSizes::Ask(fake_.Api())});
  }
  ~ConverterTest() override { client_.Detach(); }

  void Begin(const ConverterOptions& options) {
    api_ = fake_.Api();
    converter_->Begin(api_, options, window_, client_.Writer(0), {names_bytes_.data(), names_bytes_.size()},
                      ids_);
  }

  template <typename... Records>
  void Convert(const Records&... records) {
    std::vector<uint8_t> buffer;
    const auto append = [&](const auto& record) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
      buffer.insert(buffer.end(), bytes, bytes + fake_.sizes[record.kind]);
    };
    (append(records), ...);
    converter_->Convert(buffer.data(), buffer.size());
  }

  FakeCupti fake_;
  CuptiApi api_;
  DaemonEnd daemon_;
  ring::ClientSegment client_;
  Window window_;
  StringIds ids_;
  std::vector<std::byte> names_bytes_;
  std::unique_ptr<Converter> converter_ = std::make_unique<Converter>();
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_CONVERTER_FIXTURE_H_
