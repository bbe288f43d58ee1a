#include "daemon/drain/spool.h"

#include <map>
#include <random>
#include <set>

#include "daemon/node/clock_fake.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr size_t kKernel = static_cast<size_t>(columns::Kind::kKernel);
constexpr size_t kApi = static_cast<size_t>(columns::Kind::kApi);

BatchData Batch(int32_t pid, uint64_t kernels, const std::string& definitions = "", size_t bytes = 1000,
                const std::string& capture = "c") {
  BatchData batch;
  batch.capture = capture;
  batch.process = {pid, 1};
  batch.incarnation = 7;
  batch.definition_bytes = definitions.size();
  batch.blocks = definitions + std::string(bytes, 'b');
  batch.rows[kKernel] = kernels;
  batch.rows[kApi] = 1;
  batch.span = {HostTime(static_cast<int64_t>(kernels)), HostTime(static_cast<int64_t>(kernels) + 10)};
  return batch;
}

v1::CaptureEnd End(int32_t pid) {
  v1::CaptureEnd end;
  end.set_capture("c");
  ToProto({pid, 1}, end.mutable_process());
  return end;
}

class SpoolTest : public testing::Test {
 protected:
  FakeClock clock_;
  losses::LossTable losses_{{"ring", "spool"}};
};

std::vector<v1::FromDaemon> TakeAll(Spool& spool) {
  std::vector<v1::FromDaemon> all;
  v1::FromDaemon message;
  while (spool.Take(message)) all.push_back(message);
  return all;
}

uint64_t SequenceOf(const v1::FromDaemon& m) {
  return m.has_batch() ? m.batch().sequence() : m.has_gap() ? m.gap().first_sequence() : m.end().sequence();
}

std::vector<v1::FromDaemon> TakeAndAcknowledgeAll(Spool& spool) {
  std::vector<v1::FromDaemon> all;
  v1::FromDaemon message;
  spool.Resume(0, 64);
  while (spool.Take(message)) {
    spool.Acknowledge(SequenceOf(message), 64);
    all.push_back(message);
  }
  return all;
}

TEST_F(SpoolTest, SendsNothingWithoutCredit) {
  Spool spool(1 << 20, clock_, losses_);
  spool.Add(Batch(1, 5));
  v1::FromDaemon message;
  EXPECT_FALSE(spool.Take(message));
  spool.Resume(0, 1);
  spool.Add(Batch(1, 6));
  ASSERT_TRUE(spool.Take(message));
  EXPECT_EQ(message.batch().sequence(), 1u);
  EXPECT_EQ(message.batch().rows(), 6u);
  EXPECT_EQ(message.batch().incarnation(), 7u);
  EXPECT_FALSE(spool.Take(message));
  spool.Acknowledge(1, 1);
  ASSERT_TRUE(spool.Take(message));
  EXPECT_EQ(message.batch().sequence(), 2u);
}

TEST_F(SpoolTest, ResendsUnacknowledgedEntriesOnANewStream) {
  Spool spool(1 << 20, clock_, losses_);
  spool.Resume(0, 10);
  for (uint64_t i = 0; i < 4; ++i) spool.Add(Batch(1, i));
  EXPECT_EQ(TakeAll(spool).size(), 4u);
  spool.Acknowledge(1, 10);
  // The stream broke. The aggregator had acknowledged only 1, but has stored up to 2.
  spool.Resume(2, 10);
  const auto again = TakeAll(spool);
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(SequenceOf(again[0]), 3u);
  EXPECT_EQ(SequenceOf(again[1]), 4u);
  EXPECT_EQ(again[0].batch().blocks(), Batch(1, 2).blocks);
  spool.Acknowledge(4, 10);
  EXPECT_TRUE(spool.empty());
  EXPECT_EQ(spool.stats().bytes, 0u);
}

TEST_F(SpoolTest, ReportsSentEntriesAndTheOldestAge) {
  Spool spool(1 << 20, clock_, losses_);
  EXPECT_EQ(spool.stats().oldest_age, Nanos());
  spool.Resume(0, 10);
  spool.Add(Batch(1, 1));
  clock_.Advance(Nanos::Seconds(2));
  spool.Add(Batch(1, 2));
  clock_.Advance(Nanos::Seconds(1));
  EXPECT_EQ(spool.stats().oldest_age, Nanos::Seconds(3));
  EXPECT_EQ(TakeAll(spool).size(), 2u);
  EXPECT_EQ(spool.stats().oldest_age, Nanos::Seconds(3)) << "sent is not yet stored";
  spool.Acknowledge(1, 10);
  EXPECT_EQ(spool.stats().oldest_age, Nanos::Seconds(1));
  spool.Resume(1, 10);
  EXPECT_EQ(TakeAll(spool).size(), 1u);
  EXPECT_EQ(spool.stats().sent, 2u);
  EXPECT_EQ(spool.stats().resent, 1u);
  EXPECT_EQ(spool.stats().acknowledged, 1u);
}

TEST_F(SpoolTest, CountsDroppedRecordsAndLossesOfCaptureEnds) {
  Spool spool(3000, clock_, losses_);
  for (uint64_t i = 1; i <= 6; ++i) spool.Add(Batch(1, 10));
  v1::CaptureEnd end = End(1);
  v1::Loss* loss = end.add_losses();
  loss->set_stage("ring");
  loss->set_kind(kApi);
  loss->set_records(7);
  spool.AddEnd(end);
  metrics::Page page;
  losses_.Write(page.Counter("lost_total", ""));
  const uint64_t dropped = spool.stats().dropped_records;
  ASSERT_GT(dropped, 0u);
  // Each batch holds 10 kernels and one API call.
  const std::string kernels = "{stage=\"spool\",kind=\"kernel\"} " + std::to_string(dropped / 11 * 10) + "\n";
  EXPECT_NE(page.text().find(kernels), std::string::npos) << page.text();
  EXPECT_NE(page.text().find("{stage=\"spool\",kind=\"api\"} " + std::to_string(dropped / 11) + "\n"),
            std::string::npos);
  EXPECT_NE(page.text().find("{stage=\"ring\",kind=\"api\"} 7\n"), std::string::npos);
}

TEST_F(SpoolTest, ReplacesTheOldestUnsentBatchByAGapThatKeepsItsDefinitions) {
  Spool spool(4000, clock_, losses_);
  for (uint64_t i = 1; i <= 6; ++i) spool.Add(Batch(1, i, "def" + std::to_string(i) + ";"));
  spool.AddEnd(End(1));
  EXPECT_LE(spool.stats().bytes, 4000u);
  const auto sent = TakeAndAcknowledgeAll(spool);
  ASSERT_TRUE(sent[0].has_gap());
  const v1::Gap& gap = sent[0].gap();
  EXPECT_EQ(gap.first_sequence(), 1u);
  EXPECT_EQ(gap.last_sequence(), 1u);
  EXPECT_EQ(gap.capture(), "c");
  EXPECT_EQ(gap.process().pid(), 1);
  uint64_t kernels = 0;
  for (const auto& message : sent) {
    if (message.has_batch()) kernels += message.batch().rows() - 1;
  }
  const v1::Loss* lost = nullptr;
  for (const auto& loss : gap.losses()) {
    EXPECT_EQ(loss.stage(), "spool");
    if (loss.kind() == kKernel) lost = &loss;
  }
  ASSERT_NE(lost, nullptr);
  EXPECT_EQ(kernels + lost->records(), 1u + 2 + 3 + 4 + 5 + 6);
  EXPECT_EQ(lost->from_ns(), 1);
  EXPECT_GT(lost->to_ns(), 11);
  EXPECT_EQ(gap.definitions().substr(0, 15), "def1;def2;def3;");
  EXPECT_TRUE(sent.back().has_end());
}

TEST_F(SpoolTest, DropsDefinitionsWhenNothingElseCanBeDropped) {
  Spool spool(8000, clock_, losses_);
  constexpr uint64_t kBatches = 50;
  for (uint64_t i = 0; i < kBatches; ++i) {
    BatchData batch = Batch(1, 1, std::string(1000, 'd'));
    batch.definitions = 3;
    spool.Add(std::move(batch));
    EXPECT_LE(spool.stats().bytes, 8000u) << i;
  }
  uint64_t lost = 0;
  size_t kept = 0;
  for (const auto& message : TakeAndAcknowledgeAll(spool)) {
    if (message.has_batch()) kept += message.batch().blocks().find('b') / 1000;
    if (message.has_gap()) kept += message.gap().definitions().size() / 1000;
    for (const auto& loss : message.gap().losses()) {
      if (loss.kind() == static_cast<uint32_t>(columns::Kind::kString)) lost += loss.records();
    }
  }
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(lost + 3 * kept, 3 * kBatches);
}

TEST_F(SpoolTest, SpoolsOfOneBudgetShareItsCap) {
  const auto budget = std::make_shared<SpoolBudget>(8000);
  Spool one(budget, clock_, losses_);
  {
    Spool other(budget, clock_, losses_);
    for (int i = 0; i < 20; ++i) other.Add(Batch(1, 1));
    for (int i = 0; i < 20; ++i) one.Add(Batch(2, 1));
    EXPECT_LE(budget->bytes.load(), 8000u + 2 * 512);
    EXPECT_GT(one.stats().dropped_records, 0u);
    other.Resume(0, 64);
    EXPECT_FALSE(TakeAll(other).empty());
  }
  EXPECT_EQ(budget->bytes.load(), one.stats().bytes) << "a spool that has gone gives its memory back";
  EXPECT_EQ(budget->in_flight_bytes.load(), 0u);
}

TEST_F(SpoolTest, GivesEachProcessItsOwnGap) {
  Spool spool(3000, clock_, losses_);
  for (uint64_t i = 0; i < 10; ++i) {
    spool.Add(Batch(1, 1));
    spool.Add(Batch(2, 1));
  }
  std::map<int32_t, int> gaps;
  for (const auto& m : TakeAndAcknowledgeAll(spool)) {
    if (m.has_gap()) ++gaps[m.gap().process().pid()];
  }
  EXPECT_EQ(gaps, (std::map<int32_t, int>{{1, 1}, {2, 1}}));
}

TEST_F(SpoolTest, NeverDropsEntriesInFlight) {
  Spool spool(4000, clock_, losses_);
  spool.Resume(0, 64);
  spool.Add(Batch(1, 1));
  spool.Add(Batch(1, 2));
  const auto flying = TakeAll(spool);
  ASSERT_EQ(flying.size(), 2u);
  for (uint64_t i = 0; i < 20; ++i) spool.Add(Batch(1, 3));
  spool.Resume(0, 64);  // the stream broke: both are to be sent again, as batches
  v1::FromDaemon message;
  ASSERT_TRUE(spool.Take(message));
  EXPECT_TRUE(message.has_batch());
  EXPECT_EQ(message.batch().sequence(), 1u);
}

TEST_F(SpoolTest, LeavesRoomForNewBatchesWhileOldOnesAreInFlight) {
  Spool spool(10'000, clock_, losses_);
  spool.Resume(0, 64);
  for (uint64_t i = 0; i < 6; ++i) spool.Add(Batch(1, 1));
  EXPECT_LE(TakeAll(spool).size(), 4u);
  EXPECT_LE(spool.stats().bytes, 10'000u);
}

TEST_F(SpoolTest, SendsABatchThatIsLargerThanTheSpool) {
  Spool spool(100, clock_, losses_);
  spool.Resume(0, 64);
  spool.AddEnd(End(1));
  v1::FromDaemon message;
  EXPECT_TRUE(spool.Take(message));
}

TEST_F(SpoolTest, DropsOnlyUnsentEntriesOfACapture) {
  Spool spool(1 << 20, clock_, losses_);
  spool.Resume(0, 1);
  spool.Add(Batch(1, 1, "", 1000, "gone"));
  v1::FromDaemon message;
  ASSERT_TRUE(spool.Take(message));
  spool.Add(Batch(1, 2, "", 1000, "gone"));
  spool.Add(Batch(1, 3, "", 1000, "kept"));
  spool.Forget("gone");
  spool.Acknowledge(1, 64);
  const auto rest = TakeAll(spool);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].batch().capture(), "kept");
  EXPECT_EQ(SequenceOf(rest[0]), 2u);
}

TEST_F(SpoolTest, CallsReadyWhenThereIsAMessage) {
  Spool spool(1 << 20, clock_, losses_);
  int calls = 0;
  spool.OnReady([&] { ++calls; });
  spool.Add(Batch(1, 1));
  spool.AddEnd(End(1));
  spool.Acknowledge(0, 5);
  EXPECT_EQ(calls, 3);
}

// The guarantee of the spool, for any order of adds, streams, breaks and acknowledgements. Every record is
// delivered once or counted as lost once, and every definition arrives.
TEST_F(SpoolTest, DeliversOrCountsEveryRecordExactlyOnce) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    Spool spool(20'000, clock_, losses_);
    std::map<uint64_t, v1::FromDaemon> stored;  // entries stored by the aggregator, by sequence number
    uint64_t stored_through = 0;
    uint64_t produced = 0;
    int definitions = 0;
    std::vector<v1::FromDaemon> wire;
    const auto deliver = [&] {
      for (const auto& m : wire) {
        if (SequenceOf(m) == stored_through + 1) stored[++stored_through] = m;
      }
      wire.clear();
    };
    for (int step = 0; step < 600; ++step) {
      switch (random() % 5) {
        case 0:
        case 1: {
          const uint64_t kernels = random() % 100;
          produced += kernels + 1;
          spool.Add(Batch(static_cast<int32_t>(random() % 3), kernels,
                          "<" + std::to_string(definitions++) + ">", random() % 3000));
          break;
        }
        case 2:
          for (auto& m : TakeAll(spool)) wire.push_back(m);
          break;
        case 3:
          deliver();
          spool.Acknowledge(stored_through, static_cast<uint32_t>(random() % 10));
          break;
        default:
          if (random() % 2 == 0) deliver();  // otherwise: lost with the stream
          wire.clear();
          spool.Resume(stored_through, 8);
          break;
      }
    }
    deliver();
    for (int i = 0; i < 10000 && !spool.empty(); ++i) {
      spool.Resume(stored_through, 64);
      wire = TakeAll(spool);
      deliver();
      spool.Acknowledge(stored_through, 64);
    }
    uint64_t delivered = 0;
    uint64_t lost = 0;
    std::string all_definitions;
    for (const auto& [sequence, m] : stored) {
      if (m.has_batch()) {
        delivered += m.batch().rows();
        all_definitions += m.batch().blocks();
      } else {
        for (const auto& loss : m.gap().losses()) lost += loss.records();
        all_definitions += m.gap().definitions();
      }
    }
    EXPECT_EQ(produced, delivered + lost) << "seed " << seed;
    EXPECT_GT(lost, 0u);
    EXPECT_EQ(lost, spool.stats().dropped_records);
    for (int d = 0; d < definitions; ++d) {
      EXPECT_NE(all_definitions.find("<" + std::to_string(d) + ">"), std::string::npos) << d;
    }
  }
}

v1::TraceFile Piece(uint64_t offset, size_t bytes, const std::string& capture = "c") {
  v1::TraceFile piece;
  piece.set_capture(capture);
  piece.set_offset(offset);
  piece.set_data(std::string(bytes, 'x'));
  return piece;
}

TEST_F(SpoolTest, PiecesOfTraceFilesWaitForRoomAndAreNeverDropped) {
  Spool spool(100'000, clock_, losses_);
  EXPECT_TRUE(spool.AddTraceFile(Piece(0, 200'000))) << "one goes, however small the spool is";
  EXPECT_FALSE(spool.AddTraceFile(Piece(200'000, 1'000)));
  v1::TraceFile end = Piece(200'000, 0);
  end.set_given_up("why");
  EXPECT_TRUE(spool.AddTraceFile(end));
  // Batches are still accepted, and only batches are dropped for them.
  for (int i = 0; i < 5; ++i) spool.Add(Batch(1, 1));
  spool.Resume(0, 16);
  v1::FromDaemon message;
  ASSERT_TRUE(spool.Take(message));
  EXPECT_EQ(message.trace_file().sequence(), 1u);
  EXPECT_EQ(message.trace_file().data().size(), 200'000u);
  spool.Acknowledge(1, 16);
  ASSERT_TRUE(spool.Take(message));
  EXPECT_EQ(message.trace_file().given_up(), "why");
  EXPECT_EQ(message.trace_file().sequence(), 2u);
  spool.Acknowledge(2, 16);
  EXPECT_TRUE(spool.AddTraceFile(Piece(0, 40'000)));
  EXPECT_FALSE(spool.AddTraceFile(Piece(40'000, 40'000))) << "half of the spool is for batches";
  spool.Forget("c");
  EXPECT_TRUE(spool.AddTraceFile(Piece(0, 40'000))) << "what is forgotten gives its room back";
}

}  // namespace
}  // namespace lockstep::daemon
