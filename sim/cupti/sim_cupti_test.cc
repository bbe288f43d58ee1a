// Tests the built liblockstep_sim_cupti.so from the side of a tool and of a rank. The tests share the
// process-wide library one after the other, because detach() resets it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <time.h>

#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "base/read_clock.h"
#include "sim/cupti/core.h"
#include "sim/cupti/record_size.h"
#include "wire/foreign/cupti.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

void* Library() {
  static void* const library = dlopen(LOCKSTEP_SIM_CUPTI_PATH, RTLD_NOW | RTLD_LOCAL);
  return library;
}

template <typename Fn>
Fn Find(const char* name) {
  void* symbol = dlsym(Library(), name);
  EXPECT_NE(symbol, nullptr) << name;
  return reinterpret_cast<Fn>(symbol);
}

const SimCore& Core() { return *Find<SimCoreFn>(kSimCoreSymbol)(kSimCoreVersion); }

// The data that the tool's callbacks saw. It is global, because CUPTI passes them no context.
struct Tool {
  size_t buffer_bytes = 4096;
  bool refuse = false;
  int requested = 0;
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<std::thread::id> completed_on;
};
Tool g_tool;

void Requested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  ++g_tool.requested;
  *max_records = 0;
  *bytes = g_tool.buffer_bytes;
  *buffer = g_tool.refuse ? nullptr : static_cast<uint8_t*>(aligned_alloc(8, g_tool.buffer_bytes));
}

void Completed(cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  g_tool.buffers.emplace_back(buffer, buffer + valid);
  g_tool.completed_on.push_back(std::this_thread::get_id());
  free(buffer);
}

int g_second_owner = 0;
void CompletedBySecond(cupti::Context, uint32_t, uint8_t* buffer, size_t, size_t) {
  ++g_second_owner;
  free(buffer);
}

cupti::Kernel10 Kernel(uint32_t correlation) {
  cupti::Kernel10 k{};
  k.kind = ActivityKind::kConcurrentKernel;
  k.correlation_id = correlation;
  k.name = "gemm";
  return k;
}

cupti::Api Api(uint32_t correlation) {
  cupti::Api a{};
  a.kind = ActivityKind::kRuntime;
  a.cbid = 211;
  a.correlation_id = correlation;
  return a;
}

class SimCupti : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(Library(), nullptr) << dlerror();
    g_tool = {};
    const uint32_t streams[] = {7, 20};
    const SimDevice device{3, "Simulated GPU", streams, 2, 4};
    Core().attach(&device);
  }
  void TearDown() override { Core().detach(); }

  void Register() {
    EXPECT_EQ(
        Find<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks")(Requested, Completed),
        Result::kSuccess);
  }
  Result Enable(ActivityKind kind) { return Find<cupti::ActivityEnableFn>("cuptiActivityEnable")(kind); }
  void Flush(uint32_t flags) {
    EXPECT_EQ(Find<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(flags), Result::kSuccess);
  }
  size_t Dropped() {
    size_t n = 0;
    EXPECT_EQ(
        Find<cupti::ActivityGetNumDroppedRecordsFn>("cuptiActivityGetNumDroppedRecords")(nullptr, 0, &n),
        Result::kSuccess);
    return n;
  }
  // Returns the offsets of all records in a buffer, found with `next`.
  std::vector<size_t> Walk(cupti::ActivityGetNextRecordFn next, std::vector<uint8_t>& buffer) {
    std::vector<size_t> offsets;
    cupti::Activity* record = nullptr;
    while (next(buffer.data(), buffer.size(), &record) == Result::kSuccess) {
      offsets.push_back(static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - buffer.data()));
    }
    return offsets;
  }
  std::vector<ActivityKind> Kinds() {
    std::vector<ActivityKind> kinds;
    const auto next = Find<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
    for (auto& buffer : g_tool.buffers) {
      for (size_t at : Walk(next, buffer))
        kinds.push_back(reinterpret_cast<cupti::Activity*>(buffer.data() + at)->kind);
    }
    return kinds;
  }
  const cupti::Kernel10& FirstKernel() {
    return *reinterpret_cast<cupti::Kernel10*>(g_tool.buffers.at(0).data());
  }
};

TEST_F(SimCupti, IsFoundAsTheLoadedLibcupti) {
  void* found = dlopen("libcupti.so.13", RTLD_NOLOAD | RTLD_NOW);
  ASSERT_NE(found, nullptr) << dlerror();
  EXPECT_EQ(dlsym(found, kSimCoreSymbol), dlsym(Library(), kSimCoreSymbol));
}

TEST_F(SimCupti, WithoutARankItFailsAsWithoutADriver) {
  Core().detach();
  EXPECT_EQ(Enable(ActivityKind::kConcurrentKernel), Result::kUnknown);
  EXPECT_EQ(Find<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(0), Result::kUnknown);
  EXPECT_EQ(Find<cupti::SetThreadIdTypeFn>("cuptiSetThreadIdType")(cupti::ThreadIdType::kSystem),
            Result::kUnknown);
  EXPECT_EQ(Find<cupti::ActivityPushExternalCorrelationIdFn>("cuptiActivityPushExternalCorrelationId")(
                cupti::ExternalCorrelationKind::kCustom2, 1),
            Result::kUnknown);
  EXPECT_EQ(Find<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks")(Requested, Completed),
            Result::kSuccess);
  uint32_t version = 0;
  EXPECT_EQ(Find<cupti::GetVersionFn>("cuptiGetVersion")(&version), Result::kSuccess);
  EXPECT_EQ(version, cupti::kVersion_13_0U1);
}

TEST_F(SimCupti, AKernelIsDeliveredOnlyAfterItsEnd) {
  Register();
  ASSERT_EQ(Enable(ActivityKind::kConcurrentKernel), Result::kSuccess);
  const cupti::Kernel10 k = Kernel(5);
  const uint64_t done = Core().launch(&k, sizeof k), later = Core().launch(&k, sizeof k);
  Flush(0);
  EXPECT_TRUE(g_tool.buffers.empty());
  Core().complete(done, 1000, 2000, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  Core().complete(later, 3000, 4000, ReadClockNs(CLOCK_MONOTONIC) + 3'600'000'000'000, Delivery::kDeliver);
  Flush(0);
  ASSERT_EQ(Kinds().size(), 1u);
  EXPECT_EQ(FirstKernel().start, 1000u);
  EXPECT_EQ(FirstKernel().end, 2000u);
  EXPECT_EQ(FirstKernel().correlation_id, 5u);
  EXPECT_STREQ(FirstKernel().name, "gemm");
}

TEST_F(SimCupti, AForcedFlushDeliversRunningKernelsWithZeroStamps) {
  Register();
  Enable(ActivityKind::kConcurrentKernel);
  const cupti::Kernel10 k = Kernel(9);
  const uint64_t ticket = Core().launch(&k, sizeof k);
  Flush(cupti::kFlushForced);
  ASSERT_EQ(Kinds().size(), 1u);
  EXPECT_EQ(FirstKernel().end, 0u);
  Core().complete(ticket, 1, 2, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  Flush(0);
  EXPECT_EQ(Kinds().size(), 1u) << "the record must not come twice";
}

TEST_F(SimCupti, ReturnsFullBuffersOnAnotherThreadWithoutLoss) {
  g_tool.buffer_bytes = 3 * sizeof(cupti::Kernel10) + 8;
  Register();
  Enable(ActivityKind::kConcurrentKernel);
  const cupti::Kernel10 k = Kernel(1);
  for (int i = 0; i < 100; ++i)
    Core().complete(Core().launch(&k, sizeof k), 10 + i, 20 + i, ReadClockNs(CLOCK_MONOTONIC),
                    Delivery::kDeliver);
  Core().pump(ReadClockNs(CLOCK_MONOTONIC));
  Flush(0);
  EXPECT_EQ(Kinds().size(), 100u);
  EXPECT_EQ(g_tool.buffers.size(), 34u);
  for (std::thread::id id : g_tool.completed_on) EXPECT_NE(id, std::this_thread::get_id());
  EXPECT_EQ(Dropped(), 0u);
}

TEST_F(SimCupti, ARefusedBufferAndARequestedDropAreCountedOnce) {
  // No other test uses this time stamp, because all tests share the ledger.
  constexpr int64_t kStamp = 777'777;
  g_tool.refuse = true;
  Register();
  Enable(ActivityKind::kRuntime);
  const cupti::Api a = Api(1);
  Core().record(&a, sizeof a, {}, kStamp, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  Core().pump(ReadClockNs(CLOCK_MONOTONIC));
  EXPECT_EQ(Dropped(), 1u);
  g_tool.refuse = false;
  Core().record(&a, sizeof a, {}, kStamp, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDrop);
  Core().record(&a, sizeof a, {}, kStamp, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  Flush(0);
  EXPECT_EQ(Kinds().size(), 1u);
  EXPECT_EQ(Dropped(), 1u);
  EXPECT_EQ(Dropped(), 0u);
  const SimLedgerEntry* entries = nullptr;
  const size_t n = Core().ledger(&entries);
  size_t written = 0, dropped = 0;
  for (size_t i = 0; i < n; ++i) {
    if (entries[i].stamp_ns != kStamp) continue;
    written += entries[i].outcome == SimOutcome::kWritten;
    dropped += entries[i].outcome == SimOutcome::kDropped;
  }
  EXPECT_EQ(written, 1u);
  EXPECT_EQ(dropped, 2u);
}

TEST_F(SimCupti, TheLastRegistrationWins) {
  Register();
  Enable(ActivityKind::kRuntime);
  const auto registration = Find<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks");
  EXPECT_EQ(registration(Requested, CompletedBySecond), Result::kSuccess);
  const cupti::Api a = Api(1);
  Core().record(&a, sizeof a, {}, 1, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  Flush(0);
  EXPECT_EQ(g_second_owner, 1);
  EXPECT_TRUE(g_tool.buffers.empty());
}

TEST_F(SimCupti, EnablesAndDisablesSingleCalls) {
  using cupti::CallbackDomain;
  const auto runtime = Find<cupti::ActivityEnableRuntimeApiFn>("cuptiActivityEnableRuntimeApi");
  const auto driver = Find<cupti::ActivityEnableDriverApiFn>("cuptiActivityEnableDriverApi");
  EXPECT_FALSE(Core().wants_call(CallbackDomain::kDriverApi, 652));
  EXPECT_EQ(driver(652, 1), Result::kSuccess);
  EXPECT_TRUE(Core().wants_call(CallbackDomain::kDriverApi, 652));
  EXPECT_FALSE(Core().wants_call(CallbackDomain::kDriverApi, 307));
  Enable(ActivityKind::kRuntime);
  EXPECT_EQ(runtime(138, 0), Result::kSuccess);
  EXPECT_TRUE(Core().wants_call(CallbackDomain::kRuntimeApi, 211));
  EXPECT_FALSE(Core().wants_call(CallbackDomain::kRuntimeApi, 138));
}

TEST_F(SimCupti, ACallThatReturnsAfterDisablingItsKindHasNoRecord) {
  Register();
  Enable(ActivityKind::kRuntime);
  const SimCall call{cupti::CallbackDomain::kRuntimeApi, 211};
  const cupti::Api a = Api(1);
  Core().record(&a, sizeof a, call, 1, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  Core().record(&a, sizeof a, call, 1, ReadClockNs(CLOCK_MONOTONIC) + 20'000'000, Delivery::kDeliver);
  Find<cupti::ActivityDisableFn>("cuptiActivityDisable")(ActivityKind::kRuntime);
  Core().pump(ReadClockNs(CLOCK_MONOTONIC) + 1'000'000'000);
  Flush(0);
  EXPECT_EQ(Kinds().size(), 1u) << "the one that had returned before";
}

TEST_F(SimCupti, ExternalIdsAreAStackPerThreadAndKind) {
  const auto push =
      Find<cupti::ActivityPushExternalCorrelationIdFn>("cuptiActivityPushExternalCorrelationId");
  const auto pop = Find<cupti::ActivityPopExternalCorrelationIdFn>("cuptiActivityPopExternalCorrelationId");
  push(cupti::ExternalCorrelationKind::kCustom2, 41);
  push(cupti::ExternalCorrelationKind::kCustom2, 42);
  push(cupti::ExternalCorrelationKind::kCustom0, 7);
  SimExternalId ids[8];
  EXPECT_EQ(Core().external_ids(ids, 8), 2u);
  std::thread([&] { EXPECT_EQ(Core().external_ids(ids, 8), 0u); }).join();
  uint64_t last = 0;
  EXPECT_EQ(pop(cupti::ExternalCorrelationKind::kCustom2, &last), Result::kSuccess);
  EXPECT_EQ(last, 42u);
  pop(cupti::ExternalCorrelationKind::kCustom2, nullptr);
  pop(cupti::ExternalCorrelationKind::kCustom0, nullptr);
  EXPECT_EQ(pop(cupti::ExternalCorrelationKind::kCustom2, &last), Result::kQueueEmpty);
}

TEST_F(SimCupti, DumpsExistingObjectsOnRequest) {
  Register();
  const auto dump = Find<cupti::ActivityEnableAndDumpFn>("cuptiActivityEnableAndDump");
  for (ActivityKind kind : {ActivityKind::kDevice, ActivityKind::kContext, ActivityKind::kStream})
    EXPECT_EQ(dump(kind), Result::kSuccess);
  Flush(0);
  EXPECT_EQ(Kinds(), (std::vector<ActivityKind>{ActivityKind::kDevice, ActivityKind::kContext,
                                                ActivityKind::kStream, ActivityKind::kStream}));
}

TEST_F(SimCupti, CallsHaveTheirNames) {
  const auto name = Find<cupti::GetCallbackNameFn>("cuptiGetCallbackName");
  const char* text = nullptr;
  EXPECT_EQ(name(cupti::CallbackDomain::kRuntimeApi, 211, &text), Result::kSuccess);
  EXPECT_STREQ(text, "cudaLaunchKernel_v7000");
  EXPECT_EQ(name(cupti::CallbackDomain::kDriverApi, 652, &text), Result::kSuccess);
  EXPECT_STREQ(text, "cuLaunchKernelEx");
  EXPECT_NE(name(cupti::CallbackDomain::kRuntimeApi, 100000, &text), Result::kSuccess);
}

// NVIDIA's own parser, if it is installed, checks sizes and names.
TEST_F(SimCupti, TheRealLibraryParsesOurBuffers) {
  std::string path = "/usr/local/cuda/lib64/libcupti.so.13";
  if (!std::filesystem::exists(path)) path = "/usr/local/cuda/lib/libcupti.so.13";
  void* real = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (real == nullptr) {
    printf("no real libcupti here: sizes are compared with our own declarations only\n");
  }
  g_tool.buffer_bytes = 1000;
  Register();
  for (uint32_t kind = 1; kind < 64; ++kind) {
    const size_t bytes = RecordSize(static_cast<ActivityKind>(kind));
    if (bytes == 0) continue;
    Enable(static_cast<ActivityKind>(kind));
    uint8_t record[kMaxRecordBytes] = {};
    std::memcpy(record, &kind, sizeof kind);
    for (int i = 0; i < 5; ++i)
      Core().record(record, bytes, {}, 1, ReadClockNs(CLOCK_MONOTONIC), Delivery::kDeliver);
  }
  Flush(0);
  const auto ours = Find<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
  const auto theirs =
      real == nullptr
          ? ours
          : reinterpret_cast<cupti::ActivityGetNextRecordFn>(dlsym(real, "cuptiActivityGetNextRecord"));
  size_t records = 0;
  for (auto& buffer : g_tool.buffers) {
    const std::vector<size_t> offsets = Walk(ours, buffer);
    EXPECT_EQ(Walk(theirs, buffer), offsets);
    records += offsets.size();
  }
  EXPECT_EQ(records, 17u * 5u);
  if (real == nullptr) return;
  const auto our_name = Find<cupti::GetCallbackNameFn>("cuptiGetCallbackName");
  const auto their_name = reinterpret_cast<cupti::GetCallbackNameFn>(dlsym(real, "cuptiGetCallbackName"));
  int names = 0;
  for (uint32_t cbid = 1; cbid < 1000; ++cbid) {
    for (auto domain : {cupti::CallbackDomain::kRuntimeApi, cupti::CallbackDomain::kDriverApi}) {
      const char *mine = nullptr, *real_name = nullptr;
      if (our_name(domain, cbid, &mine) != Result::kSuccess) continue;
      ASSERT_EQ(their_name(domain, cbid, &real_name), Result::kSuccess);
      EXPECT_STREQ(mine, real_name);
      ++names;
    }
  }
  EXPECT_GT(names, 50);
}

}  // namespace
}  // namespace lockstep::sim
