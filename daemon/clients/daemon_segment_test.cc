#include "daemon/clients/daemon_segment.h"

#include <vector>

#include "gtest/gtest.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/writer.h"

namespace lockstep::daemon {
namespace {

constexpr uint64_t kRingBytes = 64u << 10;
constexpr uint64_t kPerRing = kRingBytes / sizeof(ring::ApiRecord);

class DaemonSegmentTest : public testing::Test {
 protected:
  DaemonSegmentTest()
      : segment_(*DaemonSegment::Create(
            {.main_ring_bytes = kRingBytes, .thread_ring_bytes = kRingBytes, .ring_count = 4})) {
    EXPECT_EQ(client_.Attach(segment_->fd(), segment_->bytes()), ring::AttachError::kNone);
    for (uint32_t i = 0; i < 4; ++i) writers_.push_back(client_.Writer(i));
  }
  ~DaemonSegmentTest() override { client_.Detach(); }

  // `number` is the record's correlation.
  bool Write(size_t ring, uint32_t number) {
    auto* record = writers_[ring].New<ring::ApiRecord>();
    if (record == nullptr) return false;
    record->correlation = number;
    writers_[ring].Commit();
    return true;
  }
  void Fill(size_t ring) {
    while (Write(ring, static_cast<uint32_t>(ring))) {
    }
  }

  std::unique_ptr<DaemonSegment> segment_;
  ring::ClientSegment client_;
  std::vector<ring::RingWriter> writers_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(2 * ring::kMaxRecordBytes);
};

TEST_F(DaemonSegmentTest, AWriterAsFastAsTheReaderDoesNotKeepIt) {
  for (size_t ring = 0; ring < 4; ++ring) Fill(ring);
  const DaemonSegment::Turn turn = segment_->Drain(scratch_, UINT64_MAX, [&](const ring::RecordView& record) {
    Write(record.as<ring::ApiRecord>().correlation, record.as<ring::ApiRecord>().correlation);
  });
  EXPECT_LE(turn.records, 5 * kPerRing);
  EXPECT_FALSE(turn.drained);
}

TEST_F(DaemonSegmentTest, ATurnTakesAllThatWasThereAtItsBegin) {
  for (size_t ring = 0; ring < 4; ++ring) Fill(ring);
  const auto ignore = [](const ring::RecordView&) {};
  EXPECT_TRUE(segment_->Drain(scratch_, UINT64_MAX, ignore).drained);
  EXPECT_EQ(segment_->Drain(scratch_, UINT64_MAX, ignore).records, 0u);
}

TEST_F(DaemonSegmentTest, ALimitedTurnBeginsWithTheNextRing) {
  for (size_t ring = 0; ring < 4; ++ring) Fill(ring);
  for (size_t turn = 0; turn < 8; ++turn) {
    std::vector<uint64_t> records(4);
    segment_->Drain(scratch_, kRingBytes / 2, [&](const ring::RecordView& record) {
      ++records[record.as<ring::ApiRecord>().correlation];
    });
    for (size_t ring = 0; ring < 4; ++ring) EXPECT_EQ(records[ring] > 0, ring == turn % 4) << turn;
    Fill(turn % 4);
  }
}

TEST_F(DaemonSegmentTest, DiscardEmptiesAllRings) {
  for (size_t ring = 0; ring < 4; ++ring) Fill(ring);
  segment_->Discard();
  EXPECT_EQ(segment_->Drain(scratch_, UINT64_MAX, [](const ring::RecordView&) {}).records, 0u);
}

}  // namespace
}  // namespace lockstep::daemon
