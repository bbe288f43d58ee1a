// Converts handmade records of devices, contexts, streams and memory operations into a ring, and reads them
// back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "client/cupti/converter_fixture.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::MemoryOperation;
using ring::LossReason;
using ring::RecordKind;

cupti::Device5 WholeDevice() {
  cupti::Device5 d = MakeDevice(3);
  d.memory_bandwidth = 3'352'320'000;
  d.memory_bytes = 80ull << 30;
  d.core_clock_khz = 1'980'000;
  d.l2_cache_bytes = 50 << 20;
  d.copy_engines = 3;
  d.threads_per_warp = 32;
  d.max_warps_per_multiprocessor = 64;
  d.max_shared_memory_per_multiprocessor = 233'472;
  d.max_registers_per_multiprocessor = 65'536;
  d.compute_minor = 1;
  d.ecc_enabled = 1;
  d.uuid[15] = 77;
  d.is_mig_enabled = 1;
  d.gpu_instance_id = 4;
  d.compute_instance_id = 5;
  d.mig_uuid[0] = 88;
  d.is_numa_node = 1;
  d.numa_id = 0;
  return d;
}

TEST_F(ConverterTest, ADeviceKeepsItsFields) {
  Convert(WholeDevice());
  const auto devices = daemon_.DrainOnly<ring::DeviceRecord>(RecordKind::kDevice);
  ASSERT_EQ(devices.size(), 1u);
  const ring::DeviceRecord& d = devices[0];
  EXPECT_EQ(d.device, 3u);
  EXPECT_EQ(daemon_.strings[d.name], "NVIDIA H100");
  EXPECT_EQ(d.memory_bytes, 80ull << 30);
  EXPECT_EQ(d.memory_bytes_per_s, 3'352'320'000'000u);
  EXPECT_EQ(d.clock_khz, 1'980'000u);
  EXPECT_EQ(d.multiprocessors, 132u);
  EXPECT_EQ(d.compute_major, 9u);
  EXPECT_EQ(d.compute_minor, 1u);
  EXPECT_EQ(d.l2_bytes, 50u << 20);
  EXPECT_EQ(d.copy_engines, 3u);
  EXPECT_EQ(d.threads_per_warp, 32u);
  EXPECT_EQ(d.warps_per_multiprocessor, 64u);
  EXPECT_EQ(d.shared_bytes_per_multiprocessor, 233'472u);
  EXPECT_EQ(d.registers_per_multiprocessor, 65'536u);
  EXPECT_EQ(d.uuid[15], 77);
  EXPECT_EQ(d.mig_uuid[0], 88);
  EXPECT_EQ(d.gpu_instance, 4u);
  EXPECT_EQ(d.compute_instance, 5u);
  EXPECT_EQ(d.numa_node_plus_1, 1u);
  EXPECT_EQ(d.header.flags, ring::kDeviceMig | ring::kDeviceEcc);
}

TEST_F(ConverterTest, DoesNotReadBeyondAnOlderCuptisDeviceRecord) {
  cupti::Device5 hidden = WholeDevice();
  hidden.is_cuda_visible = 0;
  const struct {
    size_t bytes;
    uint16_t flags;
    uint32_t numa;
  } kVersions[] = {
      {cupti::kDeviceBytesOldest, ring::kDeviceEcc, 0},
      {cupti::kDeviceBytesWithVisibility, ring::kDeviceEcc | ring::kDeviceHidden, 0},
      {cupti::kDeviceBytesWithMig, ring::kDeviceEcc | ring::kDeviceHidden | ring::kDeviceMig, 0},
      {cupti::kDeviceBytesWithNuma, ring::kDeviceEcc | ring::kDeviceHidden | ring::kDeviceMig, 1}};
  for (const auto& version : kVersions) {
    SCOPED_TRACE(version.bytes);
    fake_.sizes[ActivityKind::kDevice] = version.bytes;
    Begin({.sizes = RecordSizes::Ask(fake_.Api())});
    Convert(hidden, hidden);
    const auto devices = daemon_.DrainOnly<ring::DeviceRecord>(RecordKind::kDevice);
    ASSERT_EQ(devices.size(), 2u);
    EXPECT_EQ(devices[0].header.flags, version.flags);
    EXPECT_EQ(devices[0].numa_node_plus_1, version.numa);
    EXPECT_EQ(devices[0].gpu_instance, version.bytes >= cupti::kDeviceBytesWithMig ? 4u : 0u);
  }
}

TEST_F(ConverterTest, CountsRecordsOfAnUnknownLayout) {
  fake_.sizes[ActivityKind::kDevice] = cupti::kDeviceBytesOldest - 8;
  fake_.sizes[ActivityKind::kMemory] = cupti::kMemoryBytesOldest - 8;
  Begin({.sizes = RecordSizes::Ask(fake_.Api())});
  Convert(WholeDevice(), MakeMemory(kT0, MemoryOperation::kAllocation, 4096, 64));
  EXPECT_TRUE(daemon_.Drain().empty());
  EXPECT_EQ(daemon_.Lost(LossReason::kUnknownKind, RecordKind::kPad), 2u);
}

TEST_F(ConverterTest, ContextsAndStreamsKeepTheirFields) {
  cupti::Context3 context = MakeContext(2, 1);
  context.parent_context_id = 1;
  context.is_green_context = 1;
  context.multiprocessors = 16;
  Convert(context, MakeStream(2, 13, -5));
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 2u);
  const auto c = records[0].as<ring::ContextRecord>();
  EXPECT_EQ(c.header.flags, ring::kContextGreen);
  EXPECT_EQ(c.context, 2u);
  EXPECT_EQ(c.device, 1u);
  EXPECT_EQ(c.api, 1u);
  EXPECT_EQ(c.null_stream, 7u);
  EXPECT_EQ(c.parent, 1u);
  EXPECT_EQ(c.multiprocessors, 16u);
  const auto s = records[1].as<ring::StreamRecord>();
  EXPECT_EQ(s.context, 2u);
  EXPECT_EQ(s.stream, 13u);
  EXPECT_EQ(s.priority, -5);
  EXPECT_EQ(s.type, 2u);
}

TEST_F(ConverterTest, AnOlderCuptisContextHasNoParent) {
  fake_.sizes[ActivityKind::kContext] = cupti::kContextBytesOldest;
  Begin({.sizes = RecordSizes::Ask(fake_.Api())});
  Convert(MakeContext(2, 1), MakeContext(3, 1));
  const auto contexts = daemon_.DrainOnly<ring::ContextRecord>(RecordKind::kContext);
  ASSERT_EQ(contexts.size(), 2u);
  EXPECT_EQ(contexts[0].parent, 0u) << "not the next record's first bytes";
  EXPECT_EQ(contexts[0].header.flags, 0);
}

TEST_F(ConverterTest, KeepsDevicesContextsAndStreamsBeforeTheWindow) {
  window_.Close();
  Convert(MakeDevice(0), MakeContext(1, 0), MakeStream(1, 7), MakeKernel(kT0, kT0 + 1, 1));
  const auto records = daemon_.Drain();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[2].header.kind, RecordKind::kStream);
  EXPECT_EQ(converter_->buffers_inside(), 0u) << "they say nothing of how far the window's records have come";
}

TEST_F(ConverterTest, MemoryOperationsOfTheWindowKeepTheirFields) {
  cupti::Memory4 allocation = MakeMemory(kT0 + 5, MemoryOperation::kAllocation, 4096, 1 << 20);
  allocation.correlation_id = 9;
  allocation.device_id = 1;
  allocation.context_id = 2;
  allocation.stream_id = 13;
  allocation.is_async = 1;
  allocation.pool = {cupti::MemoryPool::kLocal, 0, 8192, 1 << 30, 32 << 20, 2 << 20};
  cupti::Memory4 release = MakeMemory(kT0 + 6, MemoryOperation::kRelease, 4096, 1 << 20);
  release.stream_id = 77;
  cupti::Memory4 imported = MakeMemory(kT0 + 7, MemoryOperation::kAllocation, 4096, 1);
  imported.pool = {cupti::MemoryPool::kImported, 0, 8192, 0, 4711, 99};
  Convert(allocation, release, imported, MakeMemory(kT0 - 1, MemoryOperation::kAllocation, 1, 1),
          MakeMemory(kT1, MemoryOperation::kRelease, 1, 1), MakeMemory(kT0, MemoryOperation::kInvalid, 1, 1));
  const auto records = daemon_.DrainOnly<ring::MemoryOpRecord>(RecordKind::kMemoryOp);
  ASSERT_EQ(records.size(), 3u);
  const ring::MemoryOpRecord& a = records[0];
  EXPECT_EQ(a.header.flags, ring::kMemoryAsync);
  EXPECT_EQ(a.time_ns, kT0 + 5);
  EXPECT_EQ(a.address, 4096u);
  EXPECT_EQ(a.bytes, 1u << 20);
  EXPECT_EQ(a.pool_type, 1);
  EXPECT_EQ(a.pool_address, 8192u);
  EXPECT_EQ(a.pool_bytes, 32u << 20);
  EXPECT_EQ(a.pool_used_bytes, 2u << 20);
  EXPECT_EQ(a.correlation, 9u);
  EXPECT_EQ(a.device, 1u);
  EXPECT_EQ(a.context, 2u);
  EXPECT_EQ(a.stream, 13u);
  EXPECT_EQ(a.memory_kind, 3);
  EXPECT_EQ(records[1].header.flags, ring::kMemoryRelease);
  EXPECT_EQ(records[1].stream, cupti::kDoesNotApply) << "only an asynchronous one has a stream";
  EXPECT_EQ(records[1].pool_address, 0u);
  EXPECT_EQ(records[2].pool_type, 2);
  EXPECT_EQ(records[2].pool_bytes, 0u) << "that field holds the number of a process";
  EXPECT_EQ(converter_->outside(), 2u);
  EXPECT_EQ(daemon_.Lost(LossReason::kUnknownKind, RecordKind::kPad), 1u);
}

TEST_F(ConverterTest, AnOlderCuptiHasNoPoolUsage) {
  fake_.sizes[ActivityKind::kMemory] = cupti::kMemoryBytesOldest;
  Begin({.sizes = RecordSizes::Ask(fake_.Api())});
  cupti::Memory4 allocation = MakeMemory(kT0, MemoryOperation::kAllocation, 4096, 64);
  allocation.pool = {cupti::MemoryPool::kLocal, 0, 8192, 0, 1 << 20, 0};
  Convert(allocation, allocation);
  const auto records = daemon_.DrainOnly<ring::MemoryOpRecord>(RecordKind::kMemoryOp);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].pool_bytes, 1u << 20);
  EXPECT_EQ(records[0].pool_used_bytes, 0u);
}

}  // namespace
}  // namespace lockstep::client
