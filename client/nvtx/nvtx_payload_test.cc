// Registers schemas like applications, also hostile ones, and reads payloads through them.
#include "client/nvtx/nvtx_payload.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;

constexpr uint64_t kStatic = nvtx::kFirstStaticSchema;

class PayloadTest : public testing::Test {
 protected:
  static nvtx::SchemaEntry Entry(uint64_t type, const char* name, uint64_t offset = 0, uint64_t flags = 0,
                                 uint64_t length = 0) {
    return {flags, type, name, nullptr, length, offset, nullptr, nullptr};
  }
  uint64_t Register(const std::vector<nvtx::SchemaEntry>& entries, uint64_t id = 0, size_t bytes = 0,
                    const void* domain = nullptr) {
    nvtx::SchemaAttributes a{};
    a.mask = nvtx::kSchemaHasType | nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount |
             nvtx::kSchemaHasSize | nvtx::kSchemaHasId;
    a.type = nvtx::SchemaType::kStatic;
    a.entries = entries.data();
    a.entry_count = entries.size();
    a.bytes = bytes;
    a.id = id;
    return schemas_->Register(domain, &a);
  }
  NvtxPayload Read(uint64_t id, const void* bytes, size_t size, const void* domain = nullptr) const {
    const nvtx::PayloadData data{id, size, bytes};
    return schemas_->Read(domain, &data, 1);
  }
  std::unique_ptr<NvtxSchemas> schemas_ = std::make_unique<NvtxSchemas>();
};

// NCCL 2.25 and later register AllReduce with this payload.
struct AllReduce {
  uint64_t comm;
  size_t bytes;
  int32_t op;
};
std::vector<nvtx::SchemaEntry> AllReduceEntries() {
  return {{0, nvtx::kEntryUint64, "NCCL communicator ID", nullptr, 0, 0, nullptr, nullptr},
          {0, nvtx::kEntrySize, "Message size [bytes]", nullptr, 0, 8, nullptr, nullptr},
          {0, kStatic + 20, "Reduction operation", nullptr, 0, 16, nullptr, nullptr}};
}

TEST_F(PayloadTest, FindsNcclsFieldsByName) {
  ASSERT_EQ(Register(AllReduceEntries(), kStatic + 5, sizeof(AllReduce)), kStatic + 5);
  const AllReduce payload{0xFEDCBA9876543210u, 4096, 2};
  NvtxPayload p = Read(kStatic + 5, &payload, sizeof payload);
  EXPECT_EQ(static_cast<uint64_t>(p.Get(NvtxPayload::kCommunicator, 0)), payload.comm);
  EXPECT_EQ(p.Get(NvtxPayload::kBytes, 0), 4096);
  EXPECT_EQ(p.Get(NvtxPayload::kReduction, -1), 2);
  EXPECT_EQ(p.reduction, nullptr) << "its enumeration is not registered";
  EXPECT_FALSE(p.Has(NvtxPayload::kPeer));
  EXPECT_EQ(static_cast<uint64_t>(p.Get(NvtxPayload::kFirstNumber, 0)), payload.comm);

  const nvtx::EnumEntry names[] = {{"Sum", 0, 0}, {"Product", 1, 0}, {"Max", 2, 0}};
  nvtx::EnumAttributes e{};
  e.mask = nvtx::kEnumHasEntries | nvtx::kEnumHasEntryCount | nvtx::kEnumHasSize | nvtx::kEnumHasId;
  e.entries = names;
  e.entry_count = 3;
  e.id = kStatic + 20;
  EXPECT_EQ(schemas_->RegisterEnum(nullptr, &e), kStatic + 20);
  p = Read(kStatic + 5, &payload, sizeof payload);
  ASSERT_NE(p.reduction, nullptr);
  EXPECT_STREQ(p.reduction, "Max");
}

TEST_F(PayloadTest, WithoutOffsetsFieldsAreAlignedNaturally) {
  const uint64_t id =
      Register({Entry(nvtx::kEntryUint8, "a"), Entry(nvtx::kEntryInt16, "b", 0, nvtx::kEntryArrayFixed, 3),
                Entry(nvtx::kEntrySize, "Message size [bytes]"), Entry(nvtx::kEntryInt, "Peer rank")});
  EXPECT_GE(id, nvtx::kFirstDynamicSchema) << "an id of ours";
  struct {
    uint8_t a = 7;
    int16_t b[3] = {1, 2, 3};
    size_t bytes = 99;
    int peer = -3;
  } payload;
  const NvtxPayload p = Read(id, &payload, sizeof payload);
  EXPECT_EQ(p.Get(NvtxPayload::kBytes, 0), 99);
  EXPECT_EQ(p.Get(NvtxPayload::kPeer, 0), -3) << "signs are kept";
  EXPECT_EQ(p.Get(NvtxPayload::kFirstNumber, 0), 7);
}

TEST_F(PayloadTest, ReadsBeyondAFieldOfUnknownSizeOnlyWithOffsets) {
  const std::vector<nvtx::SchemaEntry> natural = {Entry(kStatic + 99, "nested"),
                                                  Entry(nvtx::kEntryInt, "Peer rank")};
  const int payload[4] = {1, 2, 3, 4};
  EXPECT_EQ(Read(Register(natural), payload, sizeof payload).known, 0u);
  const std::vector<nvtx::SchemaEntry> placed = {Entry(kStatic + 99, "nested"),
                                                 Entry(nvtx::kEntryInt, "Peer rank", 12)};
  EXPECT_EQ(Read(Register(placed), payload, sizeof payload).Get(NvtxPayload::kPeer, 0), 4);
}

TEST_F(PayloadTest, ReadsTheFieldsOfAShortPayload) {
  Register(AllReduceEntries(), kStatic + 5, sizeof(AllReduce));
  const AllReduce payload{1, 2, 3};
  for (size_t size = 0; size <= sizeof payload; ++size) {
    const std::vector<std::byte> exact(reinterpret_cast<const std::byte*>(&payload),
                                       reinterpret_cast<const std::byte*>(&payload) + size);
    const NvtxPayload p = Read(kStatic + 5, exact.data(), size);
    EXPECT_EQ(p.Has(NvtxPayload::kCommunicator), size >= 8) << size;
    EXPECT_EQ(p.Has(NvtxPayload::kBytes), size >= 16) << size;
    EXPECT_EQ(p.Has(NvtxPayload::kReduction), size >= 20) << size;
  }
}

TEST_F(PayloadTest, ReadsAPayloadOfUnknownLengthOnlyBySchemaSize) {
  const AllReduce payload{1, 2, 3};
  Register(AllReduceEntries(), kStatic + 5, sizeof(AllReduce));
  EXPECT_EQ(Read(kStatic + 5, &payload, ~size_t{0}).Get(NvtxPayload::kBytes, 0), 2);
  Register(AllReduceEntries(), kStatic + 6, 0);
  EXPECT_EQ(Read(kStatic + 6, &payload, ~size_t{0}).known, 0u);
}

TEST_F(PayloadTest, RefusesHostileSchemas) {
  EXPECT_EQ(schemas_->Register(nullptr, nullptr), 0u);
  EXPECT_EQ(Register({}), 0u);
  EXPECT_EQ(Register(std::vector<nvtx::SchemaEntry>(257, Entry(nvtx::kEntryInt, "x"))), 0u);
  EXPECT_EQ(Register({Entry(nvtx::kEntryInt, "x")}, kStatic - 1), 0u) << "ids of NVTX's own types";
  EXPECT_EQ(Register({Entry(nvtx::kEntryInt, "a"), Entry(nvtx::kEntryInt, "b", ~uint64_t{0} - 3)}), 0u);
  EXPECT_EQ(Register({Entry(nvtx::kEntryInt, "a"), Entry(nvtx::kEntryInt, "b", 62)}, 0, 64), 0u);
  EXPECT_EQ(Register({Entry(nvtx::kEntryUint64, "a", 0, nvtx::kEntryArrayFixed, uint64_t{1} << 61)}), 0u);
  EXPECT_EQ(Register({Entry(nvtx::kEntryInt, "a")}, 0, size_t{1} << 40), 0u);
  nvtx::SchemaAttributes a{};
  a.mask = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount;
  a.entry_count = 4;
  EXPECT_EQ(schemas_->Register(nullptr, &a), 0u) << "entries that are not there";
  const nvtx::SchemaEntry entry = Entry(nvtx::kEntryInt, "a");
  a.mask |= nvtx::kSchemaHasType;
  a.entries = &entry;
  a.entry_count = 1;
  a.type = nvtx::SchemaType::kUnion;
  EXPECT_EQ(schemas_->Register(nullptr, &a), 0u);
}

TEST_F(PayloadTest, IgnoresForeignAndUnregisteredSchemas) {
  int domain = 0;
  Register(AllReduceEntries(), kStatic + 5, sizeof(AllReduce), &domain);
  const AllReduce payload{1, 2, 3};
  EXPECT_NE(Read(kStatic + 5, &payload, sizeof payload, &domain).known, 0u);
  EXPECT_EQ(Read(kStatic + 5, &payload, sizeof payload).known, 0u);
  EXPECT_EQ(Read(kStatic + 6, &payload, sizeof payload, &domain).known, 0u);
  EXPECT_EQ(Read(kStatic + 5, nullptr, sizeof payload, &domain).known, 0u);
  EXPECT_EQ(schemas_->Read(&domain, nullptr, 3).known, 0u);
}

TEST_F(PayloadTest, RegisteringASchemaAgainHasNoEffect) {
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(Register(AllReduceEntries(), kStatic + 5, 24), kStatic + 5);
  int registered = 1;
  for (uint64_t id = kStatic + 100; id < kStatic + 1100; ++id) {
    if (Register({Entry(nvtx::kEntryInt, "x")}, id) != 0) ++registered;
  }
  EXPECT_EQ(registered, 512) << "and a full table says no";
  const AllReduce payload{1, 2, 3};
  EXPECT_EQ(Read(kStatic + 5, &payload, sizeof payload).Get(NvtxPayload::kBytes, 0), 2);
}

TEST_F(PayloadTest, APayloadsMessageIsTheEventsName) {
  const uint64_t id = Register(
      {Entry(nvtx::kEntryCstringUtf8, "text", 0, nvtx::kEntryMessage), Entry(nvtx::kEntryInt32, "n", 8)});
  struct {
    const char* text = "hello";
    int32_t n = -9;
  } payload;
  const NvtxPayload p = Read(id, &payload, sizeof payload);
  EXPECT_STREQ(p.message, "hello");
  EXPECT_EQ(p.Get(NvtxPayload::kFirstNumber, 0), -9);
}

}  // namespace
}  // namespace lockstep::client
