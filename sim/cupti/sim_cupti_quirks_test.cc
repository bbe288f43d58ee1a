// Tests how the simulated CUPTI behaves as each release, the faults that it shows on request, and its
// callback API. The library reads the environment when it is opened, so that each test opens a copy of its
// own.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/read_clock.h"
#include "sim/cupti/core.h"
#include "sim/cupti/cupti_settings.h"
#include "wire/foreign/cupti.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;
using cupti::Result;

int64_t MonoNow() { return ReadClockNs(CLOCK_MONOTONIC); }

bool g_refuse = false;
uint8_t g_fill = 0;
uint8_t g_last_byte = 0;  // of the last buffer that came back
std::vector<std::vector<uint8_t>> g_buffers;

void QuirkRequested(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *max_records = 0;
  *bytes = 4096;
  *buffer = g_refuse ? nullptr : static_cast<uint8_t*>(aligned_alloc(8, *bytes));
  if (*buffer != nullptr) std::memset(*buffer, g_fill, *bytes);
}
void QuirkCompleted(cupti::Context, uint32_t, uint8_t* buffer, size_t bytes, size_t valid) {
  g_last_byte = buffer[bytes - 1];
  g_buffers.emplace_back(buffer, buffer + valid);
  free(buffer);
}

class Quirks : public ::testing::Test {
 protected:
  void TearDown() override {
    g_refuse = false;
    g_fill = 0;
    g_buffers.clear();
    std::filesystem::remove_all(folder_);
  }

  void Open(const char* version = nullptr, const char* faults = nullptr) {
    char path[] = "/tmp/sim-cupti-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
    std::filesystem::copy_file(LOCKSTEP_SIM_CUPTI_PATH, folder_ + "/libcupti.so.13");
    version == nullptr ? unsetenv("SIMGPU_CUPTI_VERSION") : setenv("SIMGPU_CUPTI_VERSION", version, 1);
    faults == nullptr ? unsetenv("SIMGPU_CUPTI_FAULTS") : setenv("SIMGPU_CUPTI_FAULTS", faults, 1);
    library_ = dlopen((folder_ + "/libcupti.so.13").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    core_ = Find<SimCoreFn>(kSimCoreSymbol)(kSimCoreVersion);
    const SimDevice device{3, "Simulated GPU", nullptr, 0, 4};
    core_->attach(&device);
    EXPECT_FALSE(core_->used());
    Find<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks")(QuirkRequested,
                                                                               QuirkCompleted);
    EXPECT_TRUE(core_->used());
  }
  template <typename Fn>
  Fn Find(const char* name) {
    void* symbol = dlsym(library_, name);
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<Fn>(symbol);
  }
  void Enable(ActivityKind kind) {
    EXPECT_EQ(Find<cupti::ActivityEnableFn>("cuptiActivityEnable")(kind), Result::kSuccess);
  }
  void Flush() { Find<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(0); }
  // The record size that the library itself uses; the client asks for it at run time.
  size_t SteppedSize(ActivityKind kind) {
    const auto next = Find<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
    alignas(8) uint8_t bytes[1024] = {};
    const auto filler = static_cast<uint32_t>(ActivityKind::kRuntime);
    for (size_t at = 8; at < sizeof bytes; at += 8) std::memcpy(bytes + at, &filler, sizeof filler);
    std::memcpy(bytes, &kind, sizeof kind);
    cupti::Activity* record = nullptr;
    if (next(bytes, sizeof bytes, &record) != Result::kSuccess) return 0;
    if (next(bytes, sizeof bytes, &record) != Result::kSuccess) return 0;
    return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - bytes);
  }
  void RunKernel(uint32_t correlation, uint32_t graph = 0) {
    cupti::Kernel10 k{};
    k.kind = ActivityKind::kConcurrentKernel;
    k.correlation_id = correlation;
    k.graph_id = graph;
    const int64_t now = ReadClockNs(CLOCK_REALTIME);
    core_->complete(core_->launch(&k, sizeof k), now - 2000, now - 1000, MonoNow(), Delivery::kDeliver);
  }
  void MakeCall(uint32_t correlation, uint32_t cbid = cupti::runtime_cbid::kLaunchKernel) {
    cupti::Api a{};
    a.kind = ActivityKind::kRuntime;
    a.cbid = cbid;
    a.correlation_id = correlation;
    a.end = static_cast<uint64_t>(ReadClockNs(CLOCK_REALTIME));
    a.start = a.end - 500;
    core_->record(&a, sizeof a, {cupti::CallbackDomain::kRuntimeApi, cbid}, 1, MonoNow(), Delivery::kDeliver);
  }
  template <typename Record>
  std::vector<Record> All(ActivityKind kind) {
    std::vector<Record> found;
    const auto next = Find<cupti::ActivityGetNextRecordFn>("cuptiActivityGetNextRecord");
    for (auto& buffer : g_buffers) {
      cupti::Activity* record = nullptr;
      while (next(buffer.data(), buffer.size(), &record) == Result::kSuccess) {
        if (record->kind != kind) continue;
        found.emplace_back();
        const auto left =
            static_cast<size_t>(buffer.data() + buffer.size() - reinterpret_cast<uint8_t*>(record));
        std::memcpy(&found.back(), record, std::min(sizeof(Record), left));
      }
    }
    return found;
  }

  std::string folder_;
  void* library_ = nullptr;
  const SimCore* core_ = nullptr;
};

TEST_F(Quirks, EachReleaseHasItsRecordSizes) {
  struct Row {
    const char* version;
    size_t kernel, copy, set, peer, sync;
  };
  constexpr Row kRows[] = {{"13", 160, 72, 72, 80, 40},     {"14", 160, 80, 80, 88, 40},
                           {"15", 168, 80, 80, 88, 40},     {"17", 176, 88, 88, 96, 40},
                           {"18", 200, 88, 88, 96, 40},     {"21", 208, 88, 88, 96, 40},
                           {"26", 208, 96, 88, 96, 56},     {"28", 208, 96, 88, 96, 56},
                           {"130000", 216, 96, 88, 96, 56}, {"130001", 216, 96, 88, 96, 56}};
  for (const Row& row : kRows) {
    Open(row.version);
    uint32_t version = 0;
    EXPECT_EQ(Find<cupti::GetVersionFn>("cuptiGetVersion")(&version), Result::kSuccess);
    EXPECT_EQ(std::to_string(version), row.version);
    EXPECT_EQ(SteppedSize(ActivityKind::kConcurrentKernel), row.kernel) << row.version;
    EXPECT_EQ(SteppedSize(ActivityKind::kMemcpy), row.copy) << row.version;
    EXPECT_EQ(SteppedSize(ActivityKind::kMemset), row.set) << row.version;
    EXPECT_EQ(SteppedSize(ActivityKind::kMemcpyPeer), row.peer) << row.version;
    EXPECT_EQ(SteppedSize(ActivityKind::kSynchronization), row.sync) << row.version;
    Enable(ActivityKind::kConcurrentKernel);
    RunKernel(1);
    RunKernel(2);
    Flush();
    ASSERT_EQ(g_buffers.size(), 1u) << row.version;
    EXPECT_EQ(g_buffers[0].size(), 2 * row.kernel) << row.version;
    TearDown();
  }
}

TEST_F(Quirks, IgnoresAnInvalidNumber) {
  const char* error = nullptr;
  EXPECT_EQ(CuptiSettings::Parse("twelve", nullptr, &error).version, cupti::kVersion_13_0U1);
  EXPECT_STREQ(error, "twelve");
  const CuptiSettings settings = CuptiSettings::Parse("26", "drop=3,graph_correlation,nonsense", &error);
  EXPECT_EQ(settings.version, 26u);
  EXPECT_EQ(settings.drop, 3u);
  EXPECT_TRUE(settings.graph_correlation);
  EXPECT_NE(error, nullptr);
}

TEST_F(Quirks, ARefusedBufferCrashesBefore12Point9) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Open("26");
  Enable(ActivityKind::kConcurrentKernel);
  g_refuse = true;
  RunKernel(1);
  EXPECT_DEATH(core_->pump(MonoNow()), "refused a buffer");
}

TEST_F(Quirks, HostRecordsUseThreadBuffersUntilDisabled) {
  Open();
  Enable(ActivityKind::kRuntime);
  MakeCall(1);
  std::thread([&] { MakeCall(2); }).join();
  Flush();
  EXPECT_EQ(g_buffers.size(), 2u);
  size_t bytes = 1;
  uint8_t off = 0;
  EXPECT_EQ(Find<cupti::ActivitySetAttributeFn>("cuptiActivitySetAttribute")(
                cupti::Attribute::kPerThreadActivityBuffer, &bytes, &off),
            Result::kSuccess);
  g_buffers.clear();
  MakeCall(3);
  std::thread([&] { MakeCall(4); }).join();
  Flush();
  EXPECT_EQ(g_buffers.size(), 1u);
  EXPECT_EQ(All<cupti::Api>(ActivityKind::kRuntime).size(), 2u);
}

// A clock with half the rate of CLOCK_REALTIME and a large offset.
uint64_t StolenClock() {
  return 1'000'000'000'000'000 + static_cast<uint64_t>(ReadClockNs(CLOCK_REALTIME)) / 2;
}
bool Stolen(uint64_t stamp) { return stamp > StolenClock() - 1'000'000'000 && stamp <= StolenClock(); }

TEST_F(Quirks, AReplacedClockChangesOnlyHostRecords) {
  Open();
  Enable(ActivityKind::kRuntime);
  Enable(ActivityKind::kConcurrentKernel);
  const auto steal =
      Find<cupti::ActivityRegisterTimestampCallbackFn>("cuptiActivityRegisterTimestampCallback");
  EXPECT_EQ(steal(StolenClock), Result::kSuccess);
  usleep(3000);
  uint64_t stamp = 0;
  Find<cupti::GetTimestampFn>("cuptiGetTimestamp")(&stamp);
  EXPECT_TRUE(Stolen(stamp)) << stamp;
  MakeCall(1);
  RunKernel(1);
  Flush();
  const auto calls = All<cupti::Api>(ActivityKind::kRuntime);
  const auto kernels = All<cupti::Kernel10>(ActivityKind::kConcurrentKernel);
  ASSERT_EQ(calls.size(), 1u);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_TRUE(Stolen(calls[0].start)) << calls[0].start;
  // A delay inside a pair of clock reads changes the measured rate. The unconverted duration is 500 ns.
  EXPECT_NEAR(static_cast<double>(calls[0].end - calls[0].start), 250.0, 100.0) << "the rate of that clock";
  EXPECT_FALSE(Stolen(kernels[0].start));
  EXPECT_EQ(kernels[0].end - kernels[0].start, 1000u);
  EXPECT_EQ(steal(nullptr), Result::kSuccess);
  Find<cupti::GetTimestampFn>("cuptiGetTimestamp")(&stamp);
  EXPECT_FALSE(Stolen(stamp));
}

TEST_F(Quirks, DeviceRecordsFollowAReplacedClockFrom13Point3) {
  Open("130303");
  Enable(ActivityKind::kConcurrentKernel);
  Find<cupti::ActivityRegisterTimestampCallbackFn>("cuptiActivityRegisterTimestampCallback")(StolenClock);
  RunKernel(1);
  Flush();
  const auto kernels = All<cupti::Kernel10>(ActivityKind::kConcurrentKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_TRUE(Stolen(kernels[0].start)) << kernels[0].start;
}

TEST_F(Quirks, ShowsFaultsOnRequest) {
  Open(nullptr, "zero_stamps=2,drop=5");
  Enable(ActivityKind::kConcurrentKernel);
  for (uint32_t i = 1; i <= 10; ++i) RunKernel(i);
  Flush();
  size_t zero = 0;
  for (const auto& k : All<cupti::Kernel10>(ActivityKind::kConcurrentKernel))
    zero += k.start == 0 && k.end == 0;
  EXPECT_EQ(All<cupti::Kernel10>(ActivityKind::kConcurrentKernel).size(), 8u);
  EXPECT_EQ(zero, 4u);
  size_t dropped = 0;
  Find<cupti::ActivityGetNumDroppedRecordsFn>("cuptiActivityGetNumDroppedRecords")(nullptr, 0, &dropped);
  EXPECT_EQ(dropped, 2u);
}

TEST_F(Quirks, GraphsHaveWrongCorrelationsFromTheSecondSessionOnRequest) {
  Open(nullptr, "graph_correlation");
  const auto disable = Find<cupti::ActivityDisableFn>("cuptiActivityDisable");
  for (int session = 0; session < 2; ++session) {
    Enable(ActivityKind::kConcurrentKernel);
    RunKernel(40, 1);
    RunKernel(50);
    Flush();
    disable(ActivityKind::kConcurrentKernel);
  }
  std::vector<uint32_t> correlations;
  for (const auto& k : All<cupti::Kernel10>(ActivityKind::kConcurrentKernel))
    correlations.push_back(k.correlation_id);
  EXPECT_EQ(correlations, (std::vector<uint32_t>{40, 50, 41, 50}));
}

TEST_F(Quirks, KeepsEmptyBuffersOnRequest) {
  Open(nullptr, "keep_buffers");
  Enable(ActivityKind::kConcurrentKernel);
  RunKernel(1);
  Flush();
  Flush();
  EXPECT_EQ(g_buffers.size(), 1u) << "the next buffer is empty and stays";
  RunKernel(2);
  Flush();
  EXPECT_EQ(g_buffers.size(), 2u);
  EXPECT_EQ(All<cupti::Kernel10>(ActivityKind::kConcurrentKernel).size(), 2u);
}

TEST_F(Quirks, FillsBuffersWithZerosOnRequest) {
  Open(nullptr, "zeroing");
  Enable(ActivityKind::kConcurrentKernel);
  g_fill = 0xAB;
  RunKernel(1);
  Flush();
  EXPECT_EQ(g_last_byte, 0);
  // A tool may fill them itself.
  size_t bytes = 1;
  uint8_t on = 1;
  EXPECT_EQ(Find<cupti::ActivitySetAttributeFn>("cuptiActivitySetAttribute")(
                cupti::Attribute::kZeroedOutActivityBuffer, &bytes, &on),
            Result::kSuccess);
  RunKernel(2);
  Flush();
  EXPECT_EQ(g_last_byte, 0xAB);
}

TEST_F(Quirks, CountsDropsLateOnRequest) {
  Open(nullptr, "drop=1,late_drops=60");
  Enable(ActivityKind::kConcurrentKernel);
  RunKernel(1);
  Flush();
  const auto dropped = [this] {
    size_t count = 0;
    Find<cupti::ActivityGetNumDroppedRecordsFn>("cuptiActivityGetNumDroppedRecords")(nullptr, 0, &count);
    return count;
  };
  EXPECT_EQ(dropped(), 0u);
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  EXPECT_EQ(dropped(), 1u);
  EXPECT_EQ(dropped(), 0u);
}

TEST_F(Quirks, AnotherToolFinalizesItOnRequest) {
  Open(nullptr, "finalize=30");
  Enable(ActivityKind::kConcurrentKernel);
  RunKernel(1);
  Flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(core_->wants(ActivityKind::kConcurrentKernel));
  RunKernel(2);
  Flush();
  EXPECT_EQ(All<cupti::Kernel10>(ActivityKind::kConcurrentKernel).size(), 1u);
}

TEST_F(Quirks, LosesAndRepeatsRecordsOnRequest) {
  Open(nullptr, "vanish=4,twice=5");
  Enable(ActivityKind::kConcurrentKernel);
  for (uint32_t i = 1; i <= 10; ++i) RunKernel(i);
  Flush();
  std::multimap<uint32_t, int> found;
  for (const auto& k : All<cupti::Kernel10>(ActivityKind::kConcurrentKernel))
    found.emplace(k.correlation_id, 0);
  EXPECT_EQ(found.count(4) + found.count(8), 0u);
  EXPECT_EQ(found.count(5), 2u);
  EXPECT_EQ(found.count(10), 2u);
  EXPECT_EQ(found.size(), 10u);
}

TEST_F(Quirks, MakesKernelsWrongOnRequest) {
  Open(nullptr, "stretch=50,early=100,correlation=2");
  Enable(ActivityKind::kConcurrentKernel);
  const int64_t before = ReadClockNs(CLOCK_REALTIME);
  RunKernel(1);
  RunKernel(2);
  Flush();
  const auto kernels = All<cupti::Kernel10>(ActivityKind::kConcurrentKernel);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].end - kernels[0].start, 1500u);
  EXPECT_LT(kernels[0].start, static_cast<uint64_t>(before - 90'000));
  EXPECT_EQ(kernels[0].correlation_id, 1u);
  EXPECT_NE(kernels[1].correlation_id, 2u);
}

TEST_F(Quirks, LosesItsDeviceOnRequest) {
  Open(nullptr, "device_lost=30");
  Enable(ActivityKind::kConcurrentKernel);
  RunKernel(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(core_->wants(ActivityKind::kConcurrentKernel));
  EXPECT_EQ(Find<cupti::ActivityFlushAllFn>("cuptiActivityFlushAll")(0), Result::kUnknown);
  EXPECT_EQ(Find<cupti::ActivityEnableFn>("cuptiActivityEnable")(ActivityKind::kMemcpy), Result::kUnknown);
  EXPECT_TRUE(g_buffers.empty());
}

TEST_F(Quirks, RefusesToEnableKindsAtFirstOnRequest) {
  Open(nullptr, "not_initialized=1,unknown=1");
  const auto enable = Find<cupti::ActivityEnableFn>("cuptiActivityEnable");
  EXPECT_EQ(enable(ActivityKind::kMemcpy), Result::kNotInitialized);
  EXPECT_EQ(enable(ActivityKind::kMemcpy), Result::kUnknown);
  EXPECT_EQ(enable(ActivityKind::kMemcpy), Result::kSuccess);
}

TEST_F(Quirks, HasARivalForAWhileOnRequest) {
  Open(nullptr, "rival=200");
  const auto register_callbacks = Find<cupti::ActivityRegisterCallbacksFn>("cuptiActivityRegisterCallbacks");
  EXPECT_EQ(register_callbacks(QuirkRequested, QuirkCompleted), Result::kNotCompatible);
  const auto subscribe = Find<cupti::SubscribeV2Fn>("cuptiSubscribe_v2");
  void* handle = nullptr;
  char holder[64] = {};
  cupti::SubscriberParams params{sizeof params, "test", holder, sizeof holder};
  const cupti::CallbackFn callback = [](void*, cupti::CallbackDomain, uint32_t, const void*) {};
  EXPECT_EQ(subscribe(&handle, callback, nullptr, &params), Result::kMultipleSubscribersNotSupported);
  EXPECT_EQ(std::string(holder), std::string(cupti::kSubscriberPrefix) + "Rival");
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  EXPECT_EQ(register_callbacks(QuirkRequested, QuirkCompleted), Result::kSuccess);
  EXPECT_EQ(subscribe(&handle, callback, nullptr, &params), Result::kSuccess);
}

TEST_F(Quirks, StampsWithTheProcessorsCounterOnRequest) {
  Open(nullptr, "tsc_clock");
  uint64_t stamp = 0;
  const uint64_t before = ReadTicks();
  Find<cupti::GetTimestampFn>("cuptiGetTimestamp")(&stamp);
  EXPECT_LE(before, stamp);
  EXPECT_LE(stamp, ReadTicks());
  Enable(ActivityKind::kConcurrentKernel);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  RunKernel(1);
  Flush();
  const auto kernels = All<cupti::Kernel10>(ActivityKind::kConcurrentKernel);
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_GT(kernels[0].end, before);
  EXPECT_LT(kernels[0].end, ReadTicks());
}

TEST_F(Quirks, ReportsAndDumpsALaterStream) {
  Open();
  Enable(ActivityKind::kStream);
  cupti::Stream s{};
  s.kind = ActivityKind::kStream;
  s.stream_id = 21;
  int handle = 0;
  core_->object(&s, sizeof s, &handle);
  uint32_t id = 0;
  EXPECT_EQ(Find<cupti::GetStreamIdExFn>("cuptiGetStreamIdEx")(nullptr, &handle, 0, &id), Result::kSuccess);
  EXPECT_EQ(id, 21u);
  Find<cupti::ActivityEnableAndDumpFn>("cuptiActivityEnableAndDump")(ActivityKind::kStream);
  core_->object_gone(ActivityKind::kStream, 21);
  Find<cupti::ActivityEnableAndDumpFn>("cuptiActivityEnableAndDump")(ActivityKind::kStream);
  Flush();
  EXPECT_EQ(All<cupti::Stream>(ActivityKind::kStream).size(), 2u) << "when made, and while it was there";
}

struct Seen {
  int entered = 0, left = 0;
  uint64_t carried = 0;
};
void OnCall(void* user, cupti::CallbackDomain, uint32_t, const void* data) {
  auto* seen = static_cast<Seen*>(user);
  const auto& call = *static_cast<const cupti::CallbackData*>(data);
  if (call.site == cupti::CallbackSite::kEnter) {
    ++seen->entered;
    *call.correlation_data = 77;
  } else {
    ++seen->left;
    seen->carried = *call.correlation_data;
  }
}

TEST_F(Quirks, ASecondSubscriberReceivesTheFirstOnesName) {
  Open();
  const auto subscribe = Find<cupti::SubscribeV2Fn>("cuptiSubscribe_v2");
  Seen seen;
  void *first = nullptr, *second = nullptr;
  cupti::SubscriberParams mine{sizeof mine, "kineto", nullptr, 0};
  EXPECT_EQ(subscribe(&first, OnCall, &seen, &mine), Result::kSuccess);
  char holder[64] = {};
  cupti::SubscriberParams other{sizeof other, "other", holder, sizeof holder};
  EXPECT_EQ(subscribe(&second, OnCall, &seen, &other), Result::kMultipleSubscribersNotSupported);
  EXPECT_STREQ(holder, "CUPTI for kineto");
  EXPECT_EQ(Find<cupti::SubscribeFn>("cuptiSubscribe")(&second, OnCall, &seen),
            Result::kMultipleSubscribersNotSupported);

  const auto enable = Find<cupti::EnableCallbackFn>("cuptiEnableCallback");
  EXPECT_EQ(enable(1, first, cupti::CallbackDomain::kRuntimeApi, 211), Result::kSuccess);
  uint64_t carried = 0;
  SimCallSite site{cupti::CallbackDomain::kRuntimeApi, 211, {}};
  site.data.correlation_data = &carried;
  core_->call(&site);
  site.data.site = cupti::CallbackSite::kExit;
  core_->call(&site);
  site.cbid = 20;
  core_->call(&site);
  EXPECT_EQ(seen.entered, 1);
  EXPECT_EQ(seen.left, 1);
  EXPECT_EQ(seen.carried, 77u);

  const auto unsubscribe = Find<cupti::UnsubscribeFn>("cuptiUnsubscribe");
  EXPECT_EQ(unsubscribe(second), Result::kInvalidParameter);
  EXPECT_EQ(unsubscribe(first), Result::kSuccess);
  site.cbid = 211;
  core_->call(&site);
  EXPECT_EQ(seen.left, 1);
  EXPECT_EQ(Find<cupti::SubscribeFn>("cuptiSubscribe")(&second, OnCall, &seen), Result::kSuccess);
}

}  // namespace
}  // namespace lockstep::sim
