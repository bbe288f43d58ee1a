// Tests writer and reader of one ring together, and the reader with a hostile writer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "wire/ring/client_segment.h"
#include "wire/ring/reader.h"
#include "wire/ring/segment.h"
#include "wire/ring/writer.h"

namespace lockstep::ring {
namespace {

// The daemon's segment and a client's mapping of it.
class RingTest : public testing::Test {
 protected:
  RingTest()
      : RingTest(
            SegmentOptions{.main_ring_bytes = 64 << 10, .thread_ring_bytes = 32 << 10, .ring_count = 3}) {}
  explicit RingTest(const SegmentOptions& options) {
    EXPECT_EQ(Segment::Create(options, &segment_), SegmentError::kNone);
    EXPECT_EQ(client_.Attach(segment_.fd(), segment_.bytes()), AttachError::kNone);
  }
  ~RingTest() override { client_.Detach(); }

  // Returns all records of one turn.
  std::vector<RecordView> ReadAll(RingReader& reader) {
    std::vector<RecordView> records;
    if (reader.Read(scratch_) == ReadStatus::kRecords) {
      RecordView view;
      while (reader.Next(&view)) records.push_back(view);
      reader.Free();
    }
    return records;
  }

  bool WriteApi(RingWriter& writer, uint32_t correlation) {
    auto* api = writer.New<ApiRecord>();
    if (api == nullptr) return false;
    api->correlation = correlation;
    api->start_ns = correlation;
    writer.Commit();
    return true;
  }

  uint64_t Lost(LossReason reason, RecordKind kind) {
    return segment_.header()->lost[static_cast<size_t>(reason)][static_cast<size_t>(kind)].load();
  }

  Segment segment_;
  ClientSegment client_;
  alignas(8) std::byte scratch_[64 << 10];
};

TEST_F(RingTest, RecordsComeOutAsTheyWentIn) {
  RingWriter writer = client_.Writer(0);
  ASSERT_TRUE(writer.DefineString(7, "ncclDevKernel_AllReduce", 23));
  auto* kernel = writer.New<KernelRecord>();
  ASSERT_NE(kernel, nullptr);
  kernel->start_ns = 100;
  kernel->end_ns = 250;
  kernel->name = 7;
  writer.Commit();

  RingReader reader = segment_.Reader(0);
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].header.kind, RecordKind::kString);
  EXPECT_EQ(std::string(records[0].text().begin(), records[0].text().end()), "ncclDevKernel_AllReduce");
  EXPECT_EQ(records[1].header.kind, RecordKind::kKernel);
  EXPECT_EQ(records[1].as<KernelRecord>().end_ns, 250);
  EXPECT_EQ(records[1].as<KernelRecord>().name, 7u);
  EXPECT_EQ(reader.Pending(), 0u);
}

TEST_F(RingTest, NothingIsVisibleBeforeCommit) {
  RingWriter writer = client_.Writer(0);
  ASSERT_NE(writer.New<ApiRecord>(), nullptr);
  RingReader reader = segment_.Reader(0);
  EXPECT_EQ(reader.Read(scratch_), ReadStatus::kEmpty);
  writer.Commit();
  EXPECT_EQ(reader.Read(scratch_), ReadStatus::kRecords);
}

TEST_F(RingTest, AFullRingDropsTheNewestAndCountsItPerKind) {
  RingWriter writer = client_.Writer(1);
  const uint32_t fits = (32 << 10) / sizeof(ApiRecord);
  uint32_t written = 0;
  for (uint32_t i = 0; i < fits + 10; ++i) written += WriteApi(writer, i);
  EXPECT_EQ(Lost(LossReason::kRingFull, RecordKind::kApi), fits + 10 - written);
  EXPECT_GE(Lost(LossReason::kRingFull, RecordKind::kApi), 10u);

  RingReader reader = segment_.Reader(1);
  uint32_t next = 0;
  for (const RecordView& view : ReadAll(reader)) EXPECT_EQ(view.as<ApiRecord>().correlation, next++);
  EXPECT_EQ(next, written);
  EXPECT_TRUE(WriteApi(writer, 999)) << "the reader made room";
}

TEST_F(RingTest, RecordsOfAnySizeNeverWrap) {
  RingWriter writer = client_.Writer(1);
  RingReader reader = segment_.Reader(1);
  std::mt19937 random(1);
  std::string text(kMaxStringBytes, 'x');
  for (uint32_t id = 1; id <= 3000; ++id) {
    const size_t length = random() % 3 == 0 ? random() % kMaxStringBytes : random() % 100;
    text[0] = static_cast<char>('a' + id % 26);
    ASSERT_TRUE(writer.DefineString(id, text.data(), length));
    writer.Commit();
    auto records = ReadAll(reader);
    if (records.empty()) records = ReadAll(reader);  // the first turn had only the pad at the end of the ring
    ASSERT_EQ(records.size(), 1u) << Explain(reader.broken_reason());
    EXPECT_EQ(records[0].as<StringRecord>().id, id);
    ASSERT_EQ(records[0].text().size(), length);
    if (length > 0) {
      EXPECT_EQ(records[0].text()[0], text[0]);
    }
  }
}

TEST_F(RingTest, CutsAndCountsTooLongTexts) {
  RingWriter writer = client_.Writer(0);
  const std::string text(kMaxStringBytes + 5, 'y');
  ASSERT_TRUE(writer.DefineString(1, text.data(), text.size()));
  writer.Commit();
  RingReader reader = segment_.Reader(0);
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].text().size(), kMaxStringBytes);
  EXPECT_EQ(Lost(LossReason::kTooLarge, RecordKind::kString), 1u);
}

TEST_F(RingTest, OneReadTakesAtMostTheScratch) {
  RingWriter writer = client_.Writer(0);
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_TRUE(WriteApi(writer, i));
  RingReader reader = segment_.Reader(0);
  uint32_t seen = 0;
  while (reader.Read(std::span(scratch_).first(kMaxRecordBytes)) == ReadStatus::kRecords) {
    RecordView view;
    uint32_t in_turn = 0;
    while (reader.Next(&view)) {
      EXPECT_EQ(view.as<ApiRecord>().correlation, seen++);
      ++in_turn;
    }
    EXPECT_LE(in_turn, kMaxRecordBytes / sizeof(ApiRecord));
    reader.Free();
  }
  EXPECT_EQ(seen, 1000u);
}

TEST_F(RingTest, SkipFreesEverythingWithoutReadingIt) {
  RingWriter writer = client_.Writer(0);
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(WriteApi(writer, i));
  std::memset(reinterpret_cast<std::byte*>(&client_.header()) + client_.ring(0).offset, 0xFF, 1000);
  RingReader reader = segment_.Reader(0);
  reader.Skip();
  EXPECT_EQ(reader.Pending(), 0u);
  EXPECT_EQ(client_.ring(0).tail.load(), client_.ring(0).head.load());
  ASSERT_TRUE(WriteApi(writer, 7));
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<ApiRecord>().correlation, 7u);
}

TEST_F(RingTest, TheNextDaemonRereadsUnfreedRecords) {
  RingWriter writer = client_.Writer(0);
  for (uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(WriteApi(writer, i));
  {
    RingReader first = segment_.Reader(0);
    ASSERT_EQ(first.Read(scratch_), ReadStatus::kRecords);
    RecordView view;
    ASSERT_TRUE(first.Next(&view));
    ASSERT_TRUE(first.Next(&view));
    first.Free();
    ASSERT_TRUE(first.Next(&view));  // then the daemon dies
  }
  RingReader second = segment_.Reader(0);
  const auto records = ReadAll(second);
  ASSERT_EQ(records.size(), 8u);
  EXPECT_EQ(records[0].as<ApiRecord>().correlation, 2u);
}

TEST_F(RingTest, ARingHasOneOwnerAndKeepsItsBytesWhenReleased) {
  RingHeader& ring = client_.ring(2);
  ASSERT_TRUE(ClaimRing(ring, 11));
  EXPECT_FALSE(ClaimRing(ring, 12));
  RingWriter writer = client_.Writer(2);
  ASSERT_TRUE(WriteApi(writer, 1));
  ReleaseRing(ring);
  ASSERT_TRUE(ClaimRing(ring, 12));
  EXPECT_EQ(ring.owner_thread.load(), 12u);
  RingWriter next = client_.Writer(2);
  ASSERT_TRUE(WriteApi(next, 2));
  RingReader reader = segment_.Reader(2);
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].as<ApiRecord>().correlation, 2u);
}

TEST_F(RingTest, SkipsAndCountsUnknownKinds) {
  RingWriter writer = client_.Writer(0);
  ASSERT_NE(writer.Reserve(RecordKind::kSync, 256), nullptr);
  RingReader reader = segment_.Reader(0);
  ASSERT_TRUE(WriteApi(writer, 5));
  // The first record now has a kind of a newer client.
  auto* first = reinterpret_cast<RecordHeader*>(reinterpret_cast<std::byte*>(&client_.header()) +
                                                client_.ring(0).offset);
  first->kind = static_cast<RecordKind>(kRecordKinds + 3);
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<ApiRecord>().correlation, 5u);
  EXPECT_EQ(reader.unknown_records(), 1u);
}

TEST_F(RingTest, ReadsTheKnownPartOfALongerRecord) {
  RingWriter writer = client_.Writer(0);
  auto* longer = static_cast<SyncRecord*>(writer.Reserve(RecordKind::kSync, sizeof(SyncRecord) + 24));
  longer->correlation = 77;
  writer.Commit();
  RingReader reader = segment_.Reader(0);
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<SyncRecord>().correlation, 77u);
}

TEST_F(RingTest, ProducedEqualsReadPlusLostUnderLoad) {
  constexpr uint32_t kProduced = 400000;
  std::atomic<bool> done{false};
  std::thread producer([&] {
    RingWriter writer = client_.Writer(0);
    for (uint32_t i = 1; i <= kProduced; ++i) WriteApi(writer, i);
    done = true;
  });
  RingReader reader = segment_.Reader(0);
  uint64_t read = 0;
  uint32_t last = 0;
  for (bool finished = false; !finished;) {
    finished = done.load();
    while (reader.Read(scratch_) == ReadStatus::kRecords) {
      RecordView view;
      while (reader.Next(&view)) {
        const auto api = view.as<ApiRecord>();
        ASSERT_GT(api.correlation, last);
        ASSERT_EQ(api.start_ns, api.correlation);
        last = api.correlation;
        ++read;
      }
      reader.Free();
    }
  }
  producer.join();
  EXPECT_FALSE(reader.broken()) << Explain(reader.broken_reason());
  EXPECT_EQ(read + Lost(LossReason::kRingFull, RecordKind::kApi), kProduced);
}

TEST_F(RingTest, CountsOnlyIncreasesOfLosses) {
  LossReader losses(segment_.header());
  CountLoss(client_.header(), LossReason::kNoRing, RecordKind::kRange, 3);
  LossCounts taken = losses.Take();
  EXPECT_EQ(taken.records[static_cast<size_t>(LossReason::kNoRing)][static_cast<size_t>(RecordKind::kRange)],
            3u);
  EXPECT_EQ(taken.total(), 3u);
  EXPECT_EQ(losses.Take().total(), 0u);
  client_.header().lost[0][0] = 10;
  EXPECT_EQ(losses.Take().total(), 10u);
  client_.header().lost[0][0] = 4;
  EXPECT_EQ(losses.Take().total(), 0u);
  client_.header().lost[0][0] = 6;
  EXPECT_EQ(losses.Take().total(), 2u);
}

// ---- hostile peer ----

class HostileWriter : public RingTest {
 protected:
  std::byte* RingBytes(uint32_t index) {
    return reinterpret_cast<std::byte*>(&client_.header()) + client_.ring(index).offset;
  }
  // Writes a valid record, then applies `lie` to the ring.
  template <typename Lie>
  BrokenReason ReasonAfter(Lie lie) {
    RingWriter writer = client_.Writer(0);
    RingReader reader = segment_.Reader(0);
    WriteApi(writer, 1);
    lie(*reinterpret_cast<RecordHeader*>(RingBytes(0)));
    ReadAll(reader);
    EXPECT_EQ(reader.Read(scratch_), ReadStatus::kBroken) << "a broken ring stays broken";
    return reader.broken_reason();
  }
};

TEST_F(HostileWriter, AHeadBeyondTheRingBreaksIt) {
  EXPECT_EQ(ReasonAfter([this](RecordHeader&) { client_.ring(0).head = (64 << 10) + 8; }),
            BrokenReason::kHead);
}
TEST_F(HostileWriter, ADecreasingHeadBreaksIt) {
  EXPECT_EQ(ReasonAfter([this](RecordHeader&) { client_.ring(0).head = ~uint64_t{0} - 7; }),
            BrokenReason::kHead);
}
TEST_F(HostileWriter, AHeadBetweenRecordsBreaksIt) {
  EXPECT_EQ(ReasonAfter([this](RecordHeader&) { client_.ring(0).head = 4; }), BrokenReason::kHead);
}
TEST_F(HostileWriter, AHeadBeyondTheRingBreaksASkip) {
  RingReader reader = segment_.Reader(0);
  client_.ring(0).head = (64 << 10) + 8;
  reader.Skip();
  EXPECT_EQ(reader.broken_reason(), BrokenReason::kHead);
}
TEST_F(HostileWriter, ALengthOfZeroBreaksIt) {
  EXPECT_EQ(ReasonAfter([](RecordHeader& h) { h.bytes = 0; }), BrokenReason::kLength);
}
TEST_F(HostileWriter, AnOddLengthBreaksIt) {
  EXPECT_EQ(ReasonAfter([](RecordHeader& h) { h.bytes = 44; }), BrokenReason::kLength);
}
TEST_F(HostileWriter, ALengthAboveTheGreatestBreaksIt) {
  EXPECT_EQ(ReasonAfter([](RecordHeader& h) { h.bytes = kMaxRecordBytes + 8; }), BrokenReason::kLength);
}
TEST_F(HostileWriter, ARecordBeyondTheHeadBreaksIt) {
  EXPECT_EQ(ReasonAfter([](RecordHeader& h) { h.bytes = 256; }), BrokenReason::kCrossesEnd);
}
TEST_F(HostileWriter, ARecordShorterThanItsKindBreaksIt) {
  EXPECT_EQ(ReasonAfter([](RecordHeader& h) { h.kind = RecordKind::kKernel; }),
            BrokenReason::kTooShortForKind);
}
TEST_F(HostileWriter, AStringLongerThanItsRecordBreaksIt) {
  EXPECT_EQ(ReasonAfter([](RecordHeader& h) {
              h.kind = RecordKind::kString;
              reinterpret_cast<StringRecord&>(h).length = 0xFFFFFFF0u;
            }),
            BrokenReason::kStringLength);
}

TEST_F(HostileWriter, ChangedHeadersDoNotMoveTheReader) {
  RingWriter writer = client_.Writer(0);
  ASSERT_TRUE(WriteApi(writer, 42));
  client_.ring(0).offset = ~uint64_t{0};
  client_.ring(0).capacity = 1;
  client_.header().ring_count = 1000000;
  RingReader reader = segment_.Reader(0);
  const auto records = ReadAll(reader);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].as<ApiRecord>().correlation, 42u);
  EXPECT_EQ(segment_.ring_count(), 3u);
}

// A hostile thread changes contents, head and tail of ring 0 during the reading. The thread of ring 1 is
// honest.
TEST_F(HostileWriter, ARandomlyWrittenRingHarmsNeitherReaderNorOtherRings) {
  std::atomic<bool> stop{false};
  std::thread hostile([&] {
    std::mt19937_64 random(7);
    auto* words = reinterpret_cast<uint64_t*>(RingBytes(0));
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t r = random();
      reinterpret_cast<std::atomic<uint64_t>&>(words[r % (8 << 10)])
          .store(random() % 3 == 0 ? random() : r % 64 * 8 << 32 | r % 16);
      if (r % 5 == 0) client_.ring(0).head = r % 7 == 0 ? random() : (random() % (64 << 10)) & ~uint64_t{7};
      if (r % 11 == 0) client_.ring(0).tail = random();
    }
  });
  RingWriter honest = client_.Writer(1);
  RingReader honest_reader = segment_.Reader(1);
  uint32_t sent = 0;
  uint32_t got = 0;
  uint64_t hostile_records = 0;
  uint64_t broken = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
  while (std::chrono::steady_clock::now() < end) {
    // A new reader starts after each break, so that many invalid states are tried.
    RingReader reader = segment_.Reader(0);
    for (int turn = 0; turn < 50 && !reader.broken(); ++turn) {
      if (reader.Read(scratch_) != ReadStatus::kRecords) continue;
      RecordView view;
      size_t bytes = 0;
      while (reader.Next(&view)) {
        bytes += view.bytes.size();
        ++hostile_records;
        if (view.header.kind == RecordKind::kString) {
          ASSERT_LE(view.text().size() + sizeof(StringRecord), view.bytes.size());
        }
      }
      ASSERT_LE(bytes, sizeof scratch_) << "work of one turn is bounded by the scratch";
      reader.Free();
    }
    broken += reader.broken();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(WriteApi(honest, sent++));
    for (const RecordView& view : ReadAll(honest_reader)) ASSERT_EQ(view.as<ApiRecord>().correlation, got++);
  }
  stop = true;
  hostile.join();
  // A turn ends at the end of the ring, so two turns read the rest before and after a pad.
  for (int turn = 0; turn < 2; ++turn) {
    for (const RecordView& view : ReadAll(honest_reader)) ASSERT_EQ(view.as<ApiRecord>().correlation, got++);
  }
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(honest_reader.broken());
  EXPECT_GT(broken, 0u);
}

}  // namespace
}  // namespace lockstep::ring
