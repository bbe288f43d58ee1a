// Converts handmade CUPTI records into a ring, and reads them back.
#include "client/cupti/converter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cupti/converter_fixture.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using ring::LossReason;
using ring::RecordKind;
using testing::ElementsAre;

TEST_F(ConverterTest, AnEventWithoutAStampIsKeptWithItsCall) {
  const auto event = [](uint32_t correlation, uint32_t id) {
    cupti::CudaEvent2 e{};
    e.kind = cupti::ActivityKind::kCudaEvent;
    e.correlation_id = correlation;
    e.context_id = 1;
    e.stream_id = 7;
    e.event_id = id;
    return e;
  };
  // The events come after their call, before it, from a call outside the window, and from a lost call.
  Convert(MakeApi(kT0 + 1, kT0 + 2, 1), event(1, 101), event(2, 102), MakeApi(kT0 + 3, kT0 + 4, 2),
          MakeApi(kT1 + 1, kT1 + 2, 3), event(3, 103), MakeApi(kT0 + 5, kT0 + 6, 4), event(5, 105));
  converter_->End();
  std::vector<uint32_t> events;
  for (const auto& record : daemon_.Drain()) {
    if (record.header.kind != RecordKind::kCudaEvent) continue;
    const auto e = record.as<ring::CudaEventRecord>();
    EXPECT_EQ(e.device_ns, 0);
    EXPECT_EQ(e.context, 1u);
    EXPECT_EQ(e.stream, 7u);
    events.push_back(e.event);
  }
  EXPECT_THAT(events, ElementsAre(101u, 102u, 105u));
  EXPECT_EQ(converter_->outside(), 2u);
}

TEST_F(ConverterTest, DropsWrongCorrelationsOfGraphs) {
  Begin({.sizes = RecordSizes::Ask(fake_.Api()), .graph_correlation = false});
  cupti::Kernel10 of_graph = MakeKernel(kT0 + 1, kT0 + 2, 41);
  of_graph.graph_id = 9;
  const cupti::Kernel10 plain = MakeKernel(kT0 + 3, kT0 + 4, 42);
  Convert(of_graph, plain);
  std::vector<uint32_t> correlations;
  for (const auto& record : daemon_.Drain()) {
    if (record.header.kind == RecordKind::kKernel)
      correlations.push_back(record.as<ring::KernelRecord>().correlation);
  }
  EXPECT_THAT(correlations, ElementsAre(0u, 42u));
}

TEST_F(ConverterTest, AKernelKeepsEveryField) {
  cupti::Kernel10 k = MakeKernel(kT0, kT0 + 50, 42, "void gemm<float>(int)", 13);
  k.device_id = 3;
  k.context_id = 2;
  k.grid_x = 70000;
  k.grid_y = 2;
  k.block_x = 128;
  k.block_y = 4;
  k.registers_per_thread = 96;
  k.static_shared_memory = 1024;
  k.dynamic_shared_memory = 49152;
  k.graph_node_id = 0x1234567890ull;
  k.graph_id = 9;
  k.channel_id = 17;
  k.launch_type = 1;
  Convert(k);
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 1u);
  const ring::KernelRecord& r = records[0];
  EXPECT_EQ(r.start_ns, kT0);
  EXPECT_EQ(r.end_ns, kT0 + 50);
  EXPECT_EQ(r.correlation, 42u);
  EXPECT_EQ(r.device, 3u);
  EXPECT_EQ(r.context, 2u);
  EXPECT_EQ(r.stream, 13u);
  EXPECT_EQ(daemon_.strings[r.name], "void gemm<float>(int)");
  EXPECT_THAT(r.grid, ElementsAre(70000u, 2u, 1u));
  EXPECT_THAT(r.block, ElementsAre(128, 4, 1));
  EXPECT_EQ(r.registers, 96);
  EXPECT_EQ(r.static_shared_bytes, 1024u);
  EXPECT_EQ(r.dynamic_shared_bytes, 49152u);
  EXPECT_EQ(r.graph_node, 0x1234567890ull);
  EXPECT_EQ(r.graph, 9u);
  EXPECT_EQ(r.channel, 17u);
  EXPECT_EQ(r.launch_type, 2);
}

TEST_F(ConverterTest, DoesNotReadBeyondAnOlderRecord) {
  fake_.sizes[cupti::ActivityKind::kConcurrentKernel] = cupti::kKernelBytesOldest;
  Begin({.sizes = RecordSizes::Ask(fake_.Api())});
  cupti::Kernel10 k = MakeKernel(kT0, kT0 + 50, 1);
  Convert(k, MakeKernel(kT0 + 60, kT0 + 70, 2));
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].graph_node, 0u);
  EXPECT_EQ(records[0].graph, 0u);
  EXPECT_EQ(records[0].channel, 0u);
  EXPECT_EQ(records[1].correlation, 2u);
}

TEST_F(ConverterTest, KeepsRecordsThatStartInTheWindowAndCountsOthersAsOutside) {
  Convert(MakeKernel(kT0 - 1, kT0 + 10, 1), MakeKernel(kT0, kT0 + 10, 2), MakeKernel(kT1 - 1, kT1 + 100, 3),
          MakeKernel(kT1, kT1 + 10, 4));
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].correlation, 2u);
  EXPECT_EQ(records[1].correlation, 3u);
  EXPECT_EQ(converter_->outside(), 2u);
  EXPECT_EQ(daemon_.LostInAll(), 0u);
}

TEST_F(ConverterTest, KeepsAndLosesNothingBeforeTheWindowIsKnown) {
  window_.Close();
  Convert(MakeKernel(kT0, kT0 + 10, 1), MakeKernel(0, 0, 2), MakeApi(kT0, kT0 + 5, 3));
  EXPECT_TRUE(daemon_.Drain().empty());
  EXPECT_EQ(converter_->outside(), 3u);
  EXPECT_EQ(daemon_.LostInAll(), 0u);
}

TEST_F(ConverterTest, CountsImpossibleStampsAsLostByKind) {
  cupti::Memcpy6 copy{};
  copy.kind = cupti::ActivityKind::kMemcpy;
  copy.start = kT0 + 5;
  Convert(MakeKernel(0, 0, 1), MakeKernel(kT0 + 10, kT0 + 9, 2), copy, MakeKernel(kT0 + 1, kT0 + 1, 3));
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 1u) << "zero length is a length";
  EXPECT_EQ(records[0].correlation, 3u);
  converter_->End();
  EXPECT_EQ(daemon_.Lost(LossReason::kBadStamp, RecordKind::kKernel), 2u);
  EXPECT_EQ(daemon_.Lost(LossReason::kBadStamp, RecordKind::kMemcpy), 1u);
}

TEST_F(ConverterTest, LosesAtMostOneUnrunKernelPerStream) {
  Convert(MakeKernel(kT0, kT0 + 1, 1, "a", 7), MakeKernel(kT1 + 1, kT1 + 2, 2, "a", 7),
          MakeKernel(0, 0, 3, "a", 7), MakeKernel(0, 0, 4, "a", 8), MakeKernel(0, 0, 5, "a", 8),
          MakeKernel(0, 0, 6, "a", 9));
  converter_->End();
  EXPECT_EQ(daemon_.Lost(LossReason::kBadStamp, RecordKind::kKernel), 2u)
      << "streams 8 and 9; stream 7 has left the window";
  EXPECT_EQ(converter_->outside(), 3u);
}

TEST_F(ConverterTest, LosesUnstampedRecordsBeforeAStampedOne) {
  Convert(MakeKernel(kT0, kT0 + 1, 1, "a", 7), MakeKernel(0, 0, 2, "a", 7), MakeKernel(0, 0, 3, "a", 7));
  EXPECT_EQ(daemon_.Lost(LossReason::kBadStamp, RecordKind::kKernel), 0u) << "they may not have run yet";
  Convert(MakeKernel(kT0 + 5, kT0 + 6, 4, "a", 7));
  EXPECT_EQ(daemon_.Lost(LossReason::kBadStamp, RecordKind::kKernel), 2u);
  converter_->End();
  EXPECT_EQ(daemon_.Lost(LossReason::kBadStamp, RecordKind::kKernel), 2u);
}

TEST_F(ConverterTest, UnfinishedTracksReachZeroOnceTheWindowIsComplete) {
  Convert(MakeKernel(kT0, kT0 + 1, 1, "a", 7), MakeKernel(kT0, kT0 + 1, 2, "a", 8), MakeApi(kT0, kT0 + 1, 1));
  EXPECT_EQ(converter_->unfinished_tracks(), 3u);
  EXPECT_EQ(converter_->buffers_inside(), 1u);
  Convert(MakeKernel(kT1, kT1 + 1, 3, "a", 7), MakeKernel(kT1 + 1, kT1 + 1, 4, "a", 7));
  EXPECT_EQ(converter_->unfinished_tracks(), 2u);
  EXPECT_EQ(converter_->buffers_inside(), 1u);
  Convert(MakeApi(kT1, kT1 + 1, 5), MakeKernel(kT1, kT1 + 1, 3, "a", 8),
          MakeKernel(kT1, kT1 + 1, 3, "a", 99));
  EXPECT_EQ(converter_->unfinished_tracks(), 0u);
}

TEST_F(ConverterTest, CopiesAndSetsKeepTheirFields) {
  cupti::Memcpy6 copy{};
  copy.kind = cupti::ActivityKind::kMemcpy;
  copy.copy_kind = 1;
  copy.src_kind = 2;
  copy.dst_kind = 3;
  copy.flags = cupti::kMemcpyFlagAsync;
  copy.bytes = 1 << 20;
  copy.start = kT0 + 1;
  copy.end = kT0 + 2;
  copy.correlation_id = 5;
  copy.stream_id = 14;
  copy.graph_node_id = 77;
  cupti::MemcpyPeer4 peer{};
  peer.kind = cupti::ActivityKind::kMemcpyPeer;
  peer.copy_kind = 10;
  peer.bytes = 64;
  peer.start = kT0 + 3;
  peer.end = kT0 + 4;
  peer.src_device_id = 1;
  peer.dst_device_id = 6;
  peer.correlation_id = 8;
  cupti::Memset4 set{};
  set.kind = cupti::ActivityKind::kMemset;
  set.value = 0xAB;
  set.bytes = 4096;
  set.start = kT0 + 5;
  set.end = kT0 + 6;
  set.memory_kind = 3;
  set.correlation_id = 9;
  Convert(copy, peer, set);
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 3u);
  const auto a = records[0].as<ring::MemcpyRecord>();
  EXPECT_EQ(a.header.flags, 0);
  EXPECT_EQ(a.bytes, 1u << 20);
  EXPECT_THAT((std::vector<int>{a.copy_kind, a.src_kind, a.dst_kind, a.copy_flags}), ElementsAre(1, 2, 3, 1));
  EXPECT_EQ(a.graph_node, 77u);
  EXPECT_EQ(a.stream, 14u);
  const auto b = records[1].as<ring::MemcpyRecord>();
  EXPECT_EQ(b.header.flags, ring::kMemcpyPeer);
  EXPECT_EQ(b.src_device, 1u);
  EXPECT_EQ(b.dst_device, 6u);
  EXPECT_EQ(b.correlation, 8u);
  const auto c = records[2].as<ring::MemsetRecord>();
  EXPECT_EQ(c.value, 0xABu);
  EXPECT_EQ(c.memory_kind, 3);
  EXPECT_EQ(c.bytes, 4096u);
}

TEST_F(ConverterTest, CallsKeepTheirFieldsAndTheirBaseName) {
  Convert(MakeApi(kT0, kT0 + 5, 1, 211), MakeApi(kT0, kT0 + 5, 2, 225), MakeApi(kT0, kT0 + 5, 3, 9999),
          MakeApi(kT0, kT0 + 5, 4, 652, cupti::ActivityKind::kDriver));
  const auto records = daemon_.DrainOnly<ring::ApiRecord>(RecordKind::kApi);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(daemon_.strings[records[0].name], "cudaLaunchKernel");
  EXPECT_EQ(daemon_.strings[records[1].name], "cudaMemcpyAsync");
  EXPECT_EQ(records[2].name, 0u);
  EXPECT_EQ(daemon_.strings[records[3].name], "cuLaunchKernelEx");
  EXPECT_EQ(records[0].header.flags, 0);
  EXPECT_EQ(records[3].header.flags, ring::kApiDriver);
  EXPECT_EQ(records[0].thread, 100u);
}

TEST_F(ConverterTest, SynchronizationsAndOverheadKeepTheirFields) {
  cupti::Synchronization2 sync{};
  sync.kind = cupti::ActivityKind::kSynchronization;
  sync.type = cupti::SynchronizationType::kStreamSynchronize;
  sync.start = kT0 + 1;
  sync.end = kT0 + 900;
  sync.stream_id = 7;
  sync.cuda_event_id = cupti::kDoesNotApply;
  sync.correlation_id = 6;
  cupti::Overhead3 overhead{};
  overhead.kind = cupti::ActivityKind::kOverhead;
  overhead.overhead_kind = cupti::OverheadKind::kBufferFlush;
  overhead.object_kind = cupti::ObjectKind::kThread;
  overhead.object = {1, 4711, 0};
  overhead.start = kT0 + 2;
  overhead.end = kT0 + 3;
  Convert(sync, overhead);
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].as<ring::SyncRecord>().type, 3u);
  EXPECT_EQ(records[0].as<ring::SyncRecord>().stream, 7u);
  EXPECT_EQ(records[0].as<ring::SyncRecord>().event, 0xFFFFFFFFu);
  EXPECT_EQ(records[1].as<ring::OverheadRecord>().thread, 4711u);
  EXPECT_EQ(records[1].as<ring::OverheadRecord>().overhead_kind, 1u << 16);
}

TEST_F(ConverterTest, AnExternalCorrelationFollowsItsCall) {
  Convert(MakeExternal(900, 1), MakeApi(kT0 - 10, kT0 + 5, 1), MakeExternal(901, 2),
          MakeApi(kT0, kT0 + 5, 2));
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].as<ring::ExternalCorrelationRecord>().external, 901u);
  EXPECT_EQ(records[0].as<ring::ExternalCorrelationRecord>().external_kind, 5u);
  EXPECT_EQ(records[1].as<ring::ApiRecord>().correlation, 2u);
  EXPECT_EQ(converter_->outside(), 2u);
}

TEST_F(ConverterTest, AnExternalCorrelationWaitsForACallInTheNextBuffer) {
  Convert(MakeExternal(900, 1));
  Convert(MakeKernel(kT0, kT0 + 1, 1));
  Convert(MakeApi(kT0, kT0 + 5, 1));
  EXPECT_EQ(daemon_.DrainOnly<ring::ExternalCorrelationRecord>(RecordKind::kExternalCorrelation).size(), 1u);
}

TEST_F(ConverterTest, AnExternalCorrelationWithoutACallIsOutside) {
  for (uint32_t i = 0; i < 200; ++i) Convert(MakeExternal(i, 1000 + i));
  converter_->End();
  EXPECT_TRUE(daemon_.Drain().empty());
  EXPECT_EQ(converter_->outside(), 200u);
}

TEST_F(ConverterTest, AnExternalCorrelationOfALostCallFollowsTheCallBefore) {
  Convert(MakeApi(kT0 + 10, kT0 + 20, 1), MakeExternal(901, 2), MakeApi(kT0 + 40, kT0 + 50, 3));
  converter_->End();
  EXPECT_EQ(daemon_.DrainOnly<ring::ExternalCorrelationRecord>(RecordKind::kExternalCorrelation).size(), 1u);
}

TEST_F(ConverterTest, WithoutCallsAnExternalCorrelationFollowsItsDeviceRecord) {
  Begin({.sizes = RecordSizes::Ask(fake_.Api()), .decided_by_api = false});
  Convert(MakeExternal(900, 1), MakeKernel(kT0, kT0 + 5, 1), MakeExternal(901, 2),
          MakeKernel(kT1, kT1 + 5, 2));
  const auto records = daemon_.DrainOnly<ring::ExternalCorrelationRecord>(RecordKind::kExternalCorrelation);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].external, 900u);
}

TEST_F(ConverterTest, UnrequestedDriverCallsStillDecide) {
  Begin({.sizes = RecordSizes::Ask(fake_.Api()), .driver_records = false});
  Convert(MakeExternal(900, 1), MakeApi(kT0, kT0 + 5, 1, 652, cupti::ActivityKind::kDriver));
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].header.kind, RecordKind::kExternalCorrelation);
}

TEST_F(ConverterTest, DefinesAStringOnceBeforeItsFirstUse) {
  const std::string a = "kernel_a";
  const std::string again = "kernel_a";  // the same name at another address
  Convert(MakeKernel(kT0, kT0 + 1, 1, a.c_str()), MakeKernel(kT0, kT0 + 1, 2, a.c_str()),
          MakeKernel(kT0, kT0 + 1, 3, again.c_str()));
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(daemon_.string_records, 1u);
  EXPECT_EQ(records[0].name, records[2].name);
}

TEST_F(ConverterTest, RereadsANameWhoseAddressIsReused) {
  char name[32] = "first_module_kernel";
  Convert(MakeKernel(kT0, kT0 + 1, 1, name));
  std::strcpy(name, "second_module_kernel");
  Convert(MakeKernel(kT0, kT0 + 1, 2, name));
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(daemon_.strings[records[0].name], "first_module_kernel");
  EXPECT_EQ(daemon_.strings[records[1].name], "second_module_kernel");
}

TEST_F(ConverterTest, ANullNameHasIdZero) {
  Convert(MakeKernel(kT0, kT0 + 1, 1, nullptr));
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].name, 0u);
}

TEST_F(ConverterTest, DefinesNamesAtEachUseOnceMemoryIsFull) {
  names_bytes_.resize(4096);
  Begin({.sizes = RecordSizes::Ask(fake_.Api())});
  std::vector<std::string> names;
  for (int i = 0; i < 500; ++i) names.push_back("a_kernel_with_a_name_of_some_length_" + std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < names.size(); ++i) {
      Convert(MakeKernel(kT0, kT0 + 1, i, names[i].c_str()));
    }
  }
  const auto records = daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel);
  ASSERT_EQ(records.size(), 1000u);
  for (const auto& r : records) EXPECT_EQ(daemon_.strings[r.name], names[r.correlation]);
  EXPECT_GT(daemon_.string_records, 500u);
}

class SmallRing : public ConverterTest {
 protected:
  SmallRing() : ConverterTest(64 << 10) {}
};

TEST_F(SmallRing, CountsEachLostRecordAndRetriesLostNames) {
  std::vector<std::string> names;
  for (int i = 0; i < 2000; ++i) names.push_back("kernel_number_" + std::to_string(i));
  uint64_t stored = 0;
  for (int round = 0; round < 20; ++round) {
    for (uint32_t i = 0; i < names.size(); ++i) Convert(MakeKernel(kT0, kT0 + 1, i, names[i].c_str()));
    for (const auto& r : daemon_.DrainOnly<ring::KernelRecord>(RecordKind::kKernel)) {
      ++stored;
      if (r.name != 0) {
        EXPECT_EQ(daemon_.strings.count(r.name), 1u) << "an id without its definition";
      }
    }
  }
  const uint64_t lost = daemon_.Lost(LossReason::kRingFull, RecordKind::kKernel);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(stored + lost, 20u * names.size());
}

TEST_F(ConverterTest, CountsUnknownKinds) {
  cupti::GraphTrace2 graph{};
  graph.kind = cupti::ActivityKind::kGraphTrace;
  Convert(graph, MakeKernel(kT0, kT0 + 1, 1));
  EXPECT_EQ(daemon_.Lost(LossReason::kUnknownKind, RecordKind::kPad), 1u);
  EXPECT_EQ(daemon_.Drain().size(), 1u);
}

TEST_F(ConverterTest, ReadsABufferUpToAPartialRecord) {
  std::vector<uint8_t> buffer(sizeof(cupti::Kernel10) + 100);
  const cupti::Kernel10 k = MakeKernel(kT0, kT0 + 1, 1);
  std::memcpy(buffer.data(), &k, sizeof k);
  std::memcpy(buffer.data() + sizeof k, &k, 100);
  converter_->Convert(buffer.data(), buffer.size());
  EXPECT_EQ(daemon_.Drain().size(), 1u);
}

TEST(RecordBytesTest, MatchTheLibrarysRecordSizes) {
  FakeCupti fake;
  fake.sizes[cupti::ActivityKind::kConcurrentKernel] = 208;
  EXPECT_EQ(RecordBytes(fake.Api(), cupti::ActivityKind::kConcurrentKernel), 208u);
  EXPECT_EQ(RecordBytes(fake.Api(), cupti::ActivityKind::kRuntime), 40u);
  EXPECT_EQ(RecordBytes(fake.Api(), static_cast<cupti::ActivityKind>(63)), 0u);
}

}  // namespace
}  // namespace lockstep::client
