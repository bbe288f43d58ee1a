// Compares the bytes of every record and message with files that later versions must still read. A difference
// requires a new minor version if something was appended, else a new major version. See docs/formats/ring.md
// and handshake.md.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "wire/ring/handshake.h"
#include "wire/ring/reader.h"
#include "wire/ring/writer.h"

namespace lockstep::ring {
namespace {

const std::string kFolder = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/ring/";

std::vector<char> ReadGolden(const std::string& name) {
  std::ifstream file(kFolder + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void ExpectGolden(const std::string& name, const std::vector<char>& actual) {
  if (ReadGolden(name) == actual) return;
  std::ofstream(name + ".actual", std::ios::binary)
      .write(actual.data(), static_cast<std::streamsize>(actual.size()));
  ADD_FAILURE() << "the bytes differ from " << kFolder << name << "; what came out is in ./" << name
                << ".actual";
}

constexpr uint64_t kCapacity = 4096;
constexpr int64_t kT = 1'700'000'000'000'000'000;

// Writes one record of each kind, as in the example of the document.
void WriteOneOfEach(RingWriter& writer) {
  ASSERT_TRUE(writer.DefineString(1, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 40));
  *writer.New<KernelRecord>() = {{RecordKind::kKernel, 0, sizeof(KernelRecord)},
                                 kT,
                                 kT + 1500,
                                 101,
                                 2,
                                 1,
                                 13,
                                 1,
                                 {24, 1, 1},
                                 {512, 1, 1},
                                 96,
                                 1024,
                                 82240,
                                 0x1122334455667788u,
                                 5,
                                 3};
  *writer.New<MemcpyRecord>() = {{RecordKind::kMemcpy, kMemcpyPeer, sizeof(MemcpyRecord)},
                                 kT + 1,
                                 kT + 2,
                                 1 << 20,
                                 102,
                                 2,
                                 1,
                                 14,
                                 0,
                                 0,
                                 10,
                                 3,
                                 3,
                                 1,
                                 2,
                                 6};
  *writer.New<MemsetRecord>() = {
      {RecordKind::kMemset, 0, sizeof(MemsetRecord)}, kT + 3, kT + 4, 4096, 103, 2, 1, 14, 0, 0, 0xAB, 3, {}};
  *writer.New<ApiRecord>() = {
      {RecordKind::kApi, kApiDriver, sizeof(ApiRecord)}, kT + 5, kT + 6, 101, 652, 4711, 0, 0, {}};
  *writer.New<SyncRecord>() = {
      {RecordKind::kSync, 0, sizeof(SyncRecord)}, kT + 7, kT + 8, 104, 1, 0xFFFFFFFFu, 4, 0xFFFFFFFFu, {}};
  *writer.New<ExternalCorrelationRecord>() = {
      {RecordKind::kExternalCorrelation, 0, sizeof(ExternalCorrelationRecord)}, 77, 101, 5};
  *writer.New<CudaEventRecord>() = {
      {RecordKind::kCudaEvent, 0, sizeof(CudaEventRecord)}, kT + 9, 105, 1, 13, 6};
  *writer.New<OverheadRecord>() = {
      {RecordKind::kOverhead, 0, sizeof(OverheadRecord)}, kT + 10, kT + 11, 1 << 16, 4711};
  *writer.New<RangeRecord>() = {
      {RecordKind::kRange, kRangeEndUnknown, sizeof(RangeRecord)}, kT + 12, 0, 1, 0, 4711, 2, 42};
  constexpr uint64_t kComm = 0xFEEDFACECAFEBEEFu;
  *writer.New<CommunicatorRecord>() = {
      {RecordKind::kCommunicator, 0, sizeof(CommunicatorRecord)}, kComm, 1, 3, 8, 2, 4, {}};
  *writer.New<CollectiveRecord>() = {{RecordKind::kCollective, kFromNvtx, sizeof(CollectiveRecord)},
                                     kT + 13,
                                     kComm,
                                     9,
                                     77,
                                     1 << 24,
                                     1,
                                     1,
                                     1,
                                     1,
                                     -1,
                                     16,
                                     1 << 25,
                                     500,
                                     1,
                                     {}};
  *writer.New<PointToPointRecord>() = {{RecordKind::kPointToPoint, kP2pSend, sizeof(PointToPointRecord)},
                                       kT + 14,
                                       kComm,
                                       3,
                                       78,
                                       100,
                                       1,
                                       5,
                                       400,
                                       501};
  *writer.New<ClockRecord>() = {
      {RecordKind::kClock, 0, sizeof(ClockRecord)}, kT, 123456789, 123456000, 987654321, kT + 1, 43};
  *writer.New<KernelChannelRecord>() = {{RecordKind::kKernelChannel, 0, sizeof(KernelChannelRecord)},
                                        kT + 15,
                                        kT + 16,
                                        5000,
                                        6000,
                                        kComm,
                                        500,
                                        7,
                                        {}};
  *writer.New<ProxyOpRecord>() = {{RecordKind::kProxyOp, kProxySend, sizeof(ProxyOpRecord)},
                                  kT + 17,
                                  kT + 18,
                                  kComm,
                                  501,
                                  5,
                                  7,
                                  4,
                                  1 << 17,
                                  3,
                                  {},
                                  3 << 17,
                                  11,
                                  12,
                                  13,
                                  14};
  *writer.New<ThreadNameRecord>() = {{RecordKind::kThreadName, 0, sizeof(ThreadNameRecord)}, 4711, 1};
  *writer.New<DeviceRecord>() = {{RecordKind::kDevice, kDeviceMig | kDeviceEcc, sizeof(DeviceRecord)},
                                 2,
                                 1,
                                 80ull << 30,
                                 3'352'000'000'000,
                                 1'980'000,
                                 132,
                                 9,
                                 0,
                                 50 << 20,
                                 3,
                                 32,
                                 64,
                                 233'472,
                                 65'536,
                                 {0x01, 0x02, 0x03},
                                 {0x0a, 0x0b, 0x0c},
                                 4,
                                 5,
                                 2,
                                 {}};
  *writer.New<ContextRecord>() = {
      {RecordKind::kContext, kContextGreen, sizeof(ContextRecord)}, 3, 2, 1, 7, 1, 16};
  *writer.New<StreamRecord>() = {{RecordKind::kStream, 0, sizeof(StreamRecord)}, 1, 13, -5, 2};
  *writer.New<MemoryOpRecord>() = {
      {RecordKind::kMemoryOp, kMemoryRelease | kMemoryAsync, sizeof(MemoryOpRecord)},
      kT + 19,
      0x7f0000000000,
      1 << 21,
      0x7e0000000000,
      1 << 25,
      1 << 24,
      106,
      2,
      1,
      13,
      3,
      1,
      {}};
  writer.Commit();
}

struct Ring {
  SegmentHeader segment{};
  RingHeader header{};
  alignas(64) std::byte bytes[kCapacity] = {};
};

TEST(GoldenTest, WritesEveryRecordByteForByte) {
  auto ring = std::make_unique<Ring>();
  RingWriter writer(ring->segment, ring->header, ring->bytes, kCapacity);
  WriteOneOfEach(writer);
  const auto* bytes = reinterpret_cast<const char*>(ring->bytes);
  ExpectGolden("records.bin", {bytes, bytes + ring->header.head.load()});
}

// Reads `name` and returns the greatest kind. Fields that its minor version did not have must be 0.
uint32_t ReadRecordsOf(const std::string& name, bool appended) {
  const std::vector<char> golden = ReadGolden(name);
  EXPECT_FALSE(golden.empty()) << kFolder << name;
  if (golden.empty()) return 0;
  EXPECT_LE(golden.size(), kCapacity);
  auto ring = std::make_unique<Ring>();
  std::memcpy(ring->bytes, golden.data(), golden.size());
  ring->header.head = golden.size();
  RingReader reader(&ring->header, ring->bytes, kCapacity);
  alignas(8) std::byte scratch[kMaxRecordBytes];
  EXPECT_EQ(reader.Read(scratch), ReadStatus::kRecords);
  RecordView view;
  uint32_t kind = 0;
  while (reader.Next(&view)) {
    EXPECT_EQ(static_cast<uint32_t>(view.header.kind), ++kind);
    if (view.header.kind == RecordKind::kKernel) {
      EXPECT_EQ(view.as<KernelRecord>().graph_node, 0x1122334455667788u);
      EXPECT_EQ(view.as<KernelRecord>().block[0], 512);
    }
    if (view.header.kind == RecordKind::kCollective) {
      EXPECT_EQ(view.as<CollectiveRecord>().root, -1);
      EXPECT_EQ(view.as<CollectiveRecord>().channels, 16u);
      EXPECT_EQ(view.as<CollectiveRecord>().bytes, appended ? 1u << 25 : 0u);
      EXPECT_EQ(view.as<CollectiveRecord>().reduction, appended ? 1u : 0u);
    }
    if (view.header.kind == RecordKind::kCommunicator) {
      EXPECT_EQ(view.as<CommunicatorRecord>().device_plus_1, appended ? 4u : 0u);
    }
    if (view.header.kind == RecordKind::kPointToPoint) {
      EXPECT_EQ(view.as<PointToPointRecord>().operation, appended ? 501u : 0u);
    }
    if (view.header.kind == RecordKind::kProxyOp) {
      EXPECT_EQ(view.as<ProxyOpRecord>().flush_wait_ns, 14);
    }
    if (view.header.kind == RecordKind::kClock) {
      EXPECT_EQ(view.as<ClockRecord>().gap_ns, 43);
    }
    if (view.header.kind == RecordKind::kDevice) {
      EXPECT_EQ(view.as<DeviceRecord>().multiprocessors, 132u);
      EXPECT_EQ(view.as<DeviceRecord>().mig_uuid[0], 0x0a);
      EXPECT_EQ(view.as<DeviceRecord>().numa_node_plus_1, 2u);
    }
    if (view.header.kind == RecordKind::kStream) {
      EXPECT_EQ(view.as<StreamRecord>().priority, -5);
    }
    if (view.header.kind == RecordKind::kMemoryOp) {
      EXPECT_EQ(view.as<MemoryOpRecord>().address, 0x7f0000000000u);
      EXPECT_EQ(view.as<MemoryOpRecord>().pool_type, 1);
    }
  }
  EXPECT_FALSE(reader.broken()) << Explain(reader.broken_reason());
  return kind;
}

TEST(GoldenTest, ReadsTheFileOfEveryRecord) {
  EXPECT_EQ(ReadRecordsOf("records.bin", true), kRecordKinds - 1);
}

TEST(GoldenTest, ReadsRecordsWithFewerFields) {
  EXPECT_EQ(ReadRecordsOf("records_1_4.bin", true), kRecordKinds - 1);
}

TEST(GoldenTest, ReadsRecordsOfMinorVersionOne) {
  EXPECT_EQ(ReadRecordsOf("records_1_1.bin", true), static_cast<uint32_t>(RecordKind::kThreadName));
}

TEST(GoldenTest, ReadsMinorVersionZeroWithZerosForLaterFields) {
  EXPECT_EQ(ReadRecordsOf("records_1_0.bin", false), static_cast<uint32_t>(RecordKind::kClock));
}

template <typename Message>
void Append(std::vector<char>* out, MessageType type, Message message) {
  message.header = {kHandshakeMagic, type, sizeof message};
  const auto* bytes = reinterpret_cast<const char*>(&message);
  out->insert(out->end(), bytes, bytes + sizeof message);
}

TEST(GoldenTest, WritesEveryMessageByteForByte) {
  std::vector<char> messages;
  Hello hello{};
  hello.layout_major = 1;
  hello.claimed_pid = 4242;
  hello.process_start_ticks = 99887766;
  hello.cupti_version = 130001;
  hello.entry = 1;
  std::strcpy(hello.version, "0.1.0");
  std::strcpy(hello.program, "python3");
  std::strcpy(hello.identity, "OMPI_COMM_WORLD_RANK=5\nOMPI_COMM_WORLD_SIZE=8\n");
  Append(&messages, MessageType::kHello, hello);
  Welcome welcome{};
  welcome.layout_major = 1;
  welcome.segment_bytes = 24'915'968;
  welcome.incarnation = 7;
  welcome.epoch = 1;
  Append(&messages, MessageType::kWelcome, welcome);
  Refuse refuse{};
  std::strcpy(refuse.reason, "its pid cannot be translated: run the daemon with hostPID");
  Append(&messages, MessageType::kRefuse, refuse);
  Arm arm{};
  arm.capture = 17;
  arm.epoch = 2;
  arm.activities = kDefaultActivities;
  Append(&messages, MessageType::kArm, arm);
  Start start{};
  start.capture = 17;
  start.t0_realtime_ns = kT;
  start.t1_realtime_ns = kT + 2'000'000'000;
  Append(&messages, MessageType::kStart, start);
  Append(&messages, MessageType::kStop, Stop{{}, 17, 1, 0});
  State state{};
  state.capture = 17;
  state.state = ClientState::kDone;
  state.cupti_version = 130001;
  state.records = 14731;
  state.outside_window = 210;
  state.cut = Cut::kEndMissed;
  Append(&messages, MessageType::kState, state);
  start.t1_realtime_ns = kT + 60'000'000'000;
  start.begin = Begin::kAtRange;
  start.end = End::kAfterSteps;
  start.steps = 3;
  std::strcpy(start.range, "batch@train");
  Append(&messages, MessageType::kStart, start);
  State waiting{};
  waiting.capture = 17;
  waiting.state = ClientState::kWaiting;
  waiting.step = 212;
  waiting.step_ns = 110'000'000;
  Append(&messages, MessageType::kState, waiting);
  State held{};
  held.capture = 17;
  held.state = ClientState::kFailed;
  std::strcpy(held.text, "CUPTI's subscriber in this process is NVIDIA Nsight Systems");
  held.refusal = Refusal::kHeld;
  std::strcpy(held.holder, "NVIDIA Nsight Systems");
  Append(&messages, MessageType::kState, held);
  Profile profile{};
  profile.capture = 17;
  profile.bytes = 41'000;
  profile.begin_ns = 1'700'000'000'001'000'000;
  profile.end_ns = 1'700'000'002'000'500'000;
  Append(&messages, MessageType::kProfile, profile);
  Presence presence{};
  presence.layout_major = 1;
  presence.layout_minor = 6;
  presence.claimed_pid = 4200;
  presence.entry = 1;
  std::strcpy(presence.version, "0.1.0");
  std::strcpy(presence.program, "torchrun");
  Append(&messages, MessageType::kPresence, presence);
  ExpectGolden("handshake.bin", messages);
}

}  // namespace
}  // namespace lockstep::ring
