#include "daemon/drain/batcher.h"

#include <cstring>

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

namespace c = columns;

// A record's bytes and a view of them.
template <typename Record>
class Bytes {
 public:
  Bytes(ring::RecordKind kind, Record record, uint16_t flags = 0) {
    record.header = {kind, flags, sizeof(Record)};
    std::memcpy(bytes_, &record, sizeof(record));
    view_ = {record.header, bytes_};
  }
  Bytes(const Bytes&) = delete;
  const ring::RecordView& view() const { return view_; }

 private:
  std::byte bytes_[sizeof(Record)];
  ring::RecordView view_;
};

template <typename Record>
std::vector<uint64_t> RowOf(ring::RecordKind kind, const Record& record, uint16_t flags = 0) {
  const Bytes<Record> bytes(kind, record, flags);
  Row row;
  EXPECT_TRUE(Convert(bytes.view(), row));
  EXPECT_EQ(static_cast<int>(row.kind), static_cast<int>(kind));
  EXPECT_EQ(row.columns, c::Schema(row.kind).size());
  return {row.cells().begin(), row.cells().end()};
}

TEST(Convert, PutsEveryFieldOfAKernelIntoItsColumn) {
  const ring::KernelRecord record{.start_ns = 1000,
                                  .end_ns = 1500,
                                  .correlation = 3,
                                  .device = 4,
                                  .context = 5,
                                  .stream = 6,
                                  .name = 7,
                                  .grid = {8, 9, 10},
                                  .block = {11, 12, 13},
                                  .registers = 14,
                                  .static_shared_bytes = 15,
                                  .dynamic_shared_bytes = 16,
                                  .graph_node = 18,
                                  .graph = 17,
                                  .channel = 19};
  std::vector<uint64_t> row = RowOf(ring::RecordKind::kKernel, record);
  row.resize(19);  // later columns are for fields that this test does not set
  EXPECT_EQ(row,
            (std::vector<uint64_t>{1000, 500, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
}

TEST(Convert, PutsEveryFieldOfACopyIntoItsColumn) {
  const ring::MemcpyRecord record{.start_ns = 1000,
                                  .end_ns = 1500,
                                  .bytes = 7,
                                  .correlation = 3,
                                  .device = 4,
                                  .context = 5,
                                  .stream = 6,
                                  .graph_node = 13,
                                  .graph = 12,
                                  .copy_kind = 8,
                                  .src_kind = 9,
                                  .dst_kind = 10,
                                  .copy_flags = 11,
                                  .src_device = 15,
                                  .dst_device = 16};
  std::vector<uint64_t> expected{1000, 500, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 1, 15, 16};
  EXPECT_EQ(RowOf(ring::RecordKind::kMemcpy, record, ring::kMemcpyPeer), expected);
  expected[c::memcpy::kIsPeer] = 0;
  EXPECT_EQ(RowOf(ring::RecordKind::kMemcpy, record), expected);
}

TEST(Convert, PutsEveryFieldOfTheOtherKindsIntoItsColumn) {
  const auto minus = [](int64_t v) { return static_cast<uint64_t>(v); };
  EXPECT_EQ(RowOf(ring::RecordKind::kMemset, ring::MemsetRecord{.start_ns = 1,
                                                                .end_ns = 3,
                                                                .bytes = 7,
                                                                .correlation = 3,
                                                                .device = 4,
                                                                .context = 5,
                                                                .stream = 6,
                                                                .graph_node = 11,
                                                                .graph = 10,
                                                                .value = 8,
                                                                .memory_kind = 9}),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(
      RowOf(ring::RecordKind::kApi,
            ring::ApiRecord{
                .start_ns = 1, .end_ns = 3, .correlation = 3, .cbid = 4, .thread = 5, .result = 6, .name = 8},
            ring::kApiDriver),
      (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 1, 8}));
  EXPECT_EQ(RowOf(ring::RecordKind::kSync, ring::SyncRecord{.start_ns = 1,
                                                            .end_ns = 3,
                                                            .correlation = 3,
                                                            .context = 4,
                                                            .stream = 5,
                                                            .type = 6,
                                                            .event = 7}),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(RowOf(ring::RecordKind::kExternalCorrelation,
                  ring::ExternalCorrelationRecord{.external = 1, .correlation = 2, .external_kind = 3}),
            (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(
      RowOf(ring::RecordKind::kCudaEvent,
            ring::CudaEventRecord{.device_ns = 1, .correlation = 2, .context = 3, .stream = 4, .event = 5}),
      (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(RowOf(ring::RecordKind::kOverhead,
                  ring::OverheadRecord{.start_ns = 1, .end_ns = 3, .overhead_kind = 3, .thread = 4}),
            (std::vector<uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(RowOf(ring::RecordKind::kCommunicator,
                  ring::CommunicatorRecord{
                      .comm = 1, .name = 2, .rank = -1, .ranks = 4, .nodes = 5, .device_plus_1 = 6}),
            (std::vector<uint64_t>{1, 2, minus(-1), 4, 5, 6}));
  EXPECT_EQ(RowOf(ring::RecordKind::kCollective,
                  ring::CollectiveRecord{.enqueued_ns = 1,
                                         .comm = 2,
                                         .sequence = 3,
                                         .launch = 4,
                                         .count = 5,
                                         .function = 6,
                                         .datatype = 7,
                                         .algorithm = 8,
                                         .protocol = 9,
                                         .root = -10,
                                         .channels = 11,
                                         .bytes = 12,
                                         .operation = 13,
                                         .reduction = 14},
                  ring::kFromNvtx | ring::kSequenceIsLocal | 0x80),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, minus(-10), 11, 6, 12, 13, 14}));
  EXPECT_EQ(RowOf(ring::RecordKind::kPointToPoint,
                  ring::PointToPointRecord{.enqueued_ns = 1,
                                           .comm = 2,
                                           .sequence = 3,
                                           .launch = 4,
                                           .count = 5,
                                           .datatype = 6,
                                           .peer = 7,
                                           .bytes = 8,
                                           .operation = 9},
                  ring::kP2pSend | ring::kFromNvtx),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 1, 2, 8, 9}));
  EXPECT_EQ(RowOf(ring::RecordKind::kClock, ring::ClockRecord{.realtime_ns = 1,
                                                              .monotonic_ns = 2,
                                                              .monotonic_raw_ns = 3,
                                                              .tsc = 4,
                                                              .cupti_ns = 5,
                                                              .gap_ns = 6}),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(RowOf(ring::RecordKind::kKernelChannel, ring::KernelChannelRecord{.start_ns = 1,
                                                                              .end_ns = 3,
                                                                              .gpu_start_ns = 4,
                                                                              .gpu_end_ns = 9,
                                                                              .comm = 6,
                                                                              .operation = 7,
                                                                              .channel = 8}),
            (std::vector<uint64_t>{1, 2, 4, 5, 6, 7, 8}));
  EXPECT_EQ(RowOf(ring::RecordKind::kProxyOp,
                  ring::ProxyOpRecord{.start_ns = 1,
                                      .end_ns = 3,
                                      .comm = 4,
                                      .operation = 5,
                                      .peer = -6,
                                      .channel = 7,
                                      .steps = 8,
                                      .chunk_bytes = 9,
                                      .steps_seen = 10,
                                      .bytes = 11,
                                      .gpu_wait_ns = 12,
                                      .peer_wait_ns = 13,
                                      .network_wait_ns = 14,
                                      .flush_wait_ns = 15},
                  ring::kProxySend),
            (std::vector<uint64_t>{1, 2, 4, 5, minus(-6), 7, 1, 0, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(RowOf(ring::RecordKind::kThreadName, ring::ThreadNameRecord{.thread = 1, .name = 2}),
            (std::vector<uint64_t>{1, 2}));
}

TEST(Convert, PutsEveryFieldOfADeviceAndWhatIsOnItIntoItsColumn) {
  const ring::DeviceRecord device{.device = 1,
                                  .name = 2,
                                  .memory_bytes = 6,
                                  .memory_bytes_per_s = 7,
                                  .clock_khz = 8,
                                  .multiprocessors = 5,
                                  .compute_major = 3,
                                  .compute_minor = 4,
                                  .l2_bytes = 9,
                                  .copy_engines = 10,
                                  .threads_per_warp = 11,
                                  .warps_per_multiprocessor = 12,
                                  .shared_bytes_per_multiprocessor = 13,
                                  .registers_per_multiprocessor = 14,
                                  .uuid = {1, 2, 3, 4, 5, 6, 7, 8, 0xF0},
                                  .mig_uuid = {0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 10},
                                  .gpu_instance = 20,
                                  .compute_instance = 21,
                                  .numa_node_plus_1 = 22};
  EXPECT_EQ(RowOf(ring::RecordKind::kDevice, device, ring::kDeviceMig | ring::kDeviceEcc | 0x80),
            (std::vector<uint64_t>{
                1, 2,  3,  4,  5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 6, 0x0102030405060708, 0xF000000000000000,
                9, 10, 20, 21, 22}));
  EXPECT_EQ(
      RowOf(ring::RecordKind::kContext,
            ring::ContextRecord{
                .context = 1, .device = 2, .api = 3, .null_stream = 4, .parent = 5, .multiprocessors = 6},
            ring::kContextGreen | 0x80),
      (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 1}));
  EXPECT_EQ(RowOf(ring::RecordKind::kStream,
                  ring::StreamRecord{.context = 1, .stream = 2, .priority = -3, .type = 4}),
            (std::vector<uint64_t>{1, 2, static_cast<uint64_t>(int64_t{-3}), 4}));
}

TEST(Convert, PutsEveryFieldOfAMemoryOperationIntoItsColumn) {
  const ring::MemoryOpRecord record{.time_ns = 1000,
                                    .address = 5,
                                    .bytes = 6,
                                    .pool_address = 12,
                                    .pool_bytes = 13,
                                    .pool_used_bytes = 14,
                                    .correlation = 2,
                                    .device = 8,
                                    .context = 9,
                                    .stream = 10,
                                    .memory_kind = 7,
                                    .pool_type = 11};
  EXPECT_EQ(RowOf(ring::RecordKind::kMemoryOp, record, ring::kMemoryRelease),
            (std::vector<uint64_t>{1000, 2, 1, 0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(RowOf(ring::RecordKind::kMemoryOp, record, ring::kMemoryAsync)[c::memory_op::kIsAsync], 1u);
}

TEST(Convert, KeepsTheKnownSideOfACutRange) {
  const ring::RangeRecord record{
      .start_ns = 1000, .end_ns = 1500, .name = 1, .domain = 2, .thread = 3, .depth = 4, .payload = 5};
  EXPECT_EQ(RowOf(ring::RecordKind::kRange, record), (std::vector<uint64_t>{1000, 500, 1, 2, 3, 4, 5, 0}));
  ring::RangeRecord cut = record;
  cut.start_ns = 0;
  EXPECT_EQ(RowOf(ring::RecordKind::kRange, cut, ring::kRangeStartUnknown),
            (std::vector<uint64_t>{0, 1500, 1, 2, 3, 4, 5, 1}));
  cut = record;
  cut.end_ns = 0;
  EXPECT_EQ(RowOf(ring::RecordKind::kRange, cut, ring::kRangeEndUnknown),
            (std::vector<uint64_t>{1000, 0, 1, 2, 3, 4, 5, 2}));
}

TEST(Convert, RefusesRecordsThatEndBeforeTheyStart) {
  Row row;
  const Bytes<ring::KernelRecord> backwards(ring::RecordKind::kKernel, {.start_ns = 5, .end_ns = 4});
  EXPECT_FALSE(Convert(backwards.view(), row));
  const Bytes<ring::ApiRecord> negative(ring::RecordKind::kApi, {.start_ns = INT64_MIN, .end_ns = INT64_MAX});
  EXPECT_FALSE(Convert(negative.view(), row));
  const Bytes<ring::RangeRecord> range(ring::RecordKind::kRange, {.start_ns = 5, .end_ns = 4});
  EXPECT_FALSE(Convert(range.view(), row));
  const Bytes<ring::KernelChannelRecord> channel(
      ring::RecordKind::kKernelChannel, {.start_ns = 1, .end_ns = 2, .gpu_start_ns = 5, .gpu_end_ns = 4});
  EXPECT_FALSE(Convert(channel.view(), row));
  const Bytes<ring::ProxyOpRecord> proxy(ring::RecordKind::kProxyOp,
                                         {.start_ns = 1, .end_ns = 2, .network_wait_ns = -1});
  EXPECT_FALSE(Convert(proxy.view(), row));
}

class BatcherTest : public testing::Test {
 protected:
  void AddKernel(int64_t start) {
    const Bytes<ring::KernelRecord> record(ring::RecordKind::kKernel,
                                           {.start_ns = start, .end_ns = start + 10, .name = 1});
    batcher_.Add(record.view());
  }
  void AddString(uint32_t id, const std::string& text) {
    alignas(8) std::byte bytes[ring::kMaxRecordBytes] = {};
    const size_t length = (sizeof(ring::StringRecord) + text.size() + 7) / 8 * 8;
    const ring::StringRecord record{{ring::RecordKind::kString, 0, static_cast<uint32_t>(length)},
                                    id,
                                    static_cast<uint32_t>(text.size())};
    std::memcpy(bytes, &record, sizeof(record));
    std::memcpy(bytes + sizeof(record), text.data(), text.size());
    batcher_.Add({record.header, std::span<const std::byte>(bytes, length)});
  }
  static std::vector<c::DecodedBlock> Blocks(const std::string& bytes) {
    std::vector<c::DecodedBlock> blocks;
    std::span<const std::byte> rest = std::as_bytes(std::span(bytes));
    while (!rest.empty()) {
      const auto taken = c::Decode(rest, blocks.emplace_back());
      EXPECT_TRUE(taken.ok()) << taken.status();
      if (!taken.ok()) break;
      rest = rest.subspan(*taken);
    }
    return blocks;
  }
  Batcher batcher_{{"cap", {7, 8}, 9, 3}};
};

TEST_F(BatcherTest, PutsDefinitionsInFrontOfTheRowsThatUseThem) {
  AddKernel(100);
  AddString(1, "gemm");
  AddKernel(50);
  const auto batch = batcher_.Flush();
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->capture, "cap");
  EXPECT_EQ(batch->process, (ProcessId{7, 8}));
  EXPECT_EQ(batch->incarnation, 9u);
  EXPECT_EQ(batch->rows[static_cast<size_t>(c::Kind::kKernel)], 2u);
  EXPECT_EQ(batch->rows[static_cast<size_t>(c::Kind::kString)], 0u);
  EXPECT_EQ(batch->span.start, HostTime(50));
  EXPECT_EQ(batch->span.end, HostTime(110));
  const auto blocks = Blocks(batch->blocks);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].kind, c::Kind::kString);
  EXPECT_EQ(blocks[0].strings[0].text, "gemm");
  EXPECT_EQ(blocks[0].epoch, 3u);
  EXPECT_EQ(Blocks(batch->blocks.substr(0, batch->definition_bytes)).size(), 1u);
  EXPECT_EQ(blocks[1].rows, 2u);
  EXPECT_FALSE(batcher_.Flush().has_value());
}

TEST_F(BatcherTest, NumbersRowsOverAllBlocksWithoutGaps) {
  uint64_t next = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 5; ++i) AddKernel(i);
    const Bytes<ring::ApiRecord> call(ring::RecordKind::kApi, {.start_ns = 1, .end_ns = 2});
    batcher_.Add(call.view());
    const auto batch = batcher_.Flush();
    for (const auto& block : Blocks(batch->blocks)) {
      EXPECT_EQ(block.first_sequence, next);
      next += block.rows;
    }
  }
  EXPECT_EQ(next, 18u);
}

TEST_F(BatcherTest, IsFullBeforeABlockWouldBeTooLarge) {
  int64_t i = 0;
  while (!batcher_.full()) AddKernel(++i);
  EXPECT_LE(i, 8192);
  EXPECT_LT(batcher_.Flush()->blocks.size(), 1u << 20);
  EXPECT_FALSE(batcher_.full());
}

TEST_F(BatcherTest, CountsImpossibleRecords) {
  const Bytes<ring::KernelRecord> bad(ring::RecordKind::kKernel, {.start_ns = 5, .end_ns = 4});
  batcher_.Add(bad.view());
  EXPECT_EQ(batcher_.refused()[static_cast<size_t>(c::Kind::kKernel)], 1u);
  EXPECT_TRUE(batcher_.empty());
}

TEST_F(BatcherTest, LimitsTheDefinitionsOfAClient) {
  const std::string text(16'000, 'x');
  for (uint32_t id = 1; id <= 2000; ++id) {
    AddString(id, text);
    if (!batcher_.full()) continue;
    EXPECT_LE(batcher_.Flush()->definition_bytes, 1u << 20);
  }
  const uint64_t refused = batcher_.refused()[static_cast<size_t>(c::Kind::kString)];
  EXPECT_GT(refused, 1400u);
  EXPECT_LT(refused, 2000u);
}

}  // namespace
}  // namespace lockstep::daemon
