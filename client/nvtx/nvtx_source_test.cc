// Calls NVTX's function tables like a library that uses NVTX, into rings, and reads the records back.
#include "client/nvtx/nvtx_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/nvtx/nvtx_injection.h"
#include "tests/abi/support/daemon_end.h"
#include "wire/ring/progress_reader.h"

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;
using nvtx::Core;
using nvtx::Core2;
using ring::LossReason;
using ring::RangeRecord;
using ring::RecordKind;

RecordingFlags g_flags;
Recorder g_recorder(g_flags);
Window g_window;
ActivityClock g_clock;
StringIds g_ids;
// Handlers use one source per process, so all tests share it.
Trigger g_trigger(g_window);
OperationLog g_log(kSystemTiming);
NvtxSource g_source(g_flags, g_recorder, g_clock, g_window, g_trigger, g_log);
uint64_t g_capture = 0;

void OnThreadExit(void* value) {
  g_recorder.OnThreadExit(value, [](ThreadSlot& slot) { g_source.CloseOpen(slot); });
}

// The tables of one library that uses NVTX.
struct Library {
  nvtx::FunctionPointer core[nvtx::kCoreSlots] = {};
  nvtx::FunctionPointer core2[nvtx::kCore2Slots] = {};
  nvtx::FunctionPointer* core_table[nvtx::kCoreSlots];
  nvtx::FunctionPointer* core2_table[nvtx::kCore2Slots];
  static inline Library* current = nullptr;
  static inline uint32_t slots = nvtx::kCoreSlots;

  Library() {
    for (uint32_t i = 0; i < nvtx::kCoreSlots; ++i) core_table[i] = &core[i];
    for (uint32_t i = 0; i < nvtx::kCore2Slots; ++i) core2_table[i] = &core2[i];
    current = this;
  }
  static const void* Export(nvtx::ExportTable table) {
    static constexpr nvtx::ExportTableCallbacks kCallbacks = {sizeof(nvtx::ExportTableCallbacks), Table};
    return table == nvtx::ExportTable::kCallbacks ? &kCallbacks : nullptr;
  }
  static int Table(nvtx::Module module, nvtx::FunctionTable* table, uint32_t* n) {
    *n = slots;
    if (module == nvtx::Module::kCore)
      *table = current->core_table;
    else if (module == nvtx::Module::kCore2)
      *table = current->core2_table;
    else
      return 0;
    return 1;
  }
  template <typename Fn>
  Fn At(Core slot) const {
    return reinterpret_cast<Fn>(core[static_cast<uint32_t>(slot)]);
  }
  template <typename Fn>
  Fn At(Core2 slot) const {
    return reinterpret_cast<Fn>(core2[static_cast<uint32_t>(slot)]);
  }

  int Push(const char* text) const { return At<nvtx::RangePushAFn>(Core::kRangePushA)(text); }
  int Pop() const { return At<nvtx::RangePopFn>(Core::kRangePop)(); }
  int Push(nvtx::DomainHandle domain, const nvtx::EventAttributes& a) const {
    return At<nvtx::DomainRangePushExFn>(Core2::kDomainRangePushEx)(domain, &a);
  }
  int Pop(nvtx::DomainHandle domain) const {
    return At<nvtx::DomainRangePopFn>(Core2::kDomainRangePop)(domain);
  }
};

nvtx::EventAttributes Named(const char* text) {
  nvtx::EventAttributes a{};
  a.version = 3;
  a.size = sizeof a;
  a.message_type = nvtx::MessageType::kAscii;
  a.message.ascii = text;
  return a;
}

class NvtxTest : public testing::Test {
 protected:
  NvtxTest()
      : daemon_({.main_ring_bytes = 64 << 10, .ring_count = 6}), memory_(ring::kMaxRings * (16u << 10)) {
    static const bool once = g_recorder.Init(OnThreadExit);
    EXPECT_TRUE(once);
    EXPECT_EQ(client_.Attach(daemon_.segment.fd(), daemon_.segment.bytes()), ring::AttachError::kNone);
    EXPECT_TRUE(InstallNvtxHandlers(g_source, Library::Export));
  }
  ~NvtxTest() override {
    if (on_) End();
    client_.Detach();
  }

  void Arm() {
    ++g_capture;
    g_source.Begin(g_capture);
    g_recorder.Begin(g_capture, client_, {memory_.data(), memory_.size()}, g_ids);
    g_flags.nvtx = g_capture;
    on_ = true;
  }
  void Open() { g_window.Open(g_clock.now(), HostTime::Max()); }
  void Begin() {
    Arm();
    Open();
  }
  // Ends the capture like Capture::Close.
  std::vector<RangeRecord> End() {
    if (ThreadSlot* slot = g_recorder.Enter()) {
      g_source.CloseStarted(*slot);
      g_recorder.Leave(*slot);
    }
    EXPECT_TRUE(g_recorder.End(kSystemTiming, &totals_, [](ThreadSlot& slot) { g_source.CloseOpen(slot); }));
    g_window.Close();
    on_ = false;
    return daemon_.DrainOnly<RangeRecord>(RecordKind::kRange);
  }
  std::string NameOf(const RangeRecord& r) { return daemon_.strings[r.name]; }

  Library library_;
  DaemonEnd daemon_;
  ring::ClientSegment client_;
  std::vector<std::byte> memory_;
  RecorderTotals totals_;
  bool on_ = false;
};

TEST_F(NvtxTest, NestedRangesKeepNameDepthAndOrder) {
  Begin();
  EXPECT_EQ(library_.Push("outer"), 0);
  EXPECT_EQ(library_.Push("inner"), 1);
  EXPECT_EQ(library_.Pop(), 1);
  EXPECT_EQ(library_.Pop(), 0);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(NameOf(ranges[0]), "inner");
  EXPECT_EQ(ranges[0].depth, 1u);
  EXPECT_EQ(NameOf(ranges[1]), "outer");
  EXPECT_EQ(ranges[1].depth, 0u);
  EXPECT_LE(ranges[1].start_ns, ranges[0].start_ns);
  EXPECT_GE(ranges[1].end_ns, ranges[0].end_ns);
  EXPECT_EQ(ranges[0].header.flags, 0);
  EXPECT_EQ(totals_.records, 4u) << "two ranges, two strings";
}

TEST_F(NvtxTest, WritesNothingWhileIdle) {
  EXPECT_EQ(library_.Push("nobody listens"), nvtx::kNoPushPopTracking);
  EXPECT_EQ(library_.Pop(), nvtx::kNoPushPopTracking);
  library_.At<nvtx::MarkAFn>(Core::kMarkA)("nor here");
  EXPECT_TRUE(daemon_.Drain().empty());
  EXPECT_EQ(daemon_.LostInAll(), 0u);
}

TEST_F(NvtxTest, StepsGoToTheLogWhileProgressIsFollowed) {
  g_log.Attach(&client_);
  library_.Push("step 1");
  g_flags.progress = 1;
  EXPECT_EQ(library_.Push("step 7"), nvtx::kNoPushPopTracking);
  library_.Push("forward");
  library_.At<nvtx::RangeStartAFn>(Core::kRangeStartA)("ProfilerStep#8");
  // lockstep_step_begin logs its own.
  const auto ours = library_.At<nvtx::DomainCreateAFn>(Core2::kDomainCreateA)(kLockstepDomain.data());
  g_source.Push(ours, {"step 9", 6}, 0);
  g_flags.progress = 0;
  library_.Push("step 10");
  g_log.Attach(nullptr);
  const std::vector<ring::LoggedStep> steps = ring::ReadLog(daemon_.segment, HostTime()).steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number, 7u);
  EXPECT_EQ(steps[1].number, 8u);
  EXPECT_FALSE(steps[0].marked);
  EXPECT_GE(steps[1].begin, steps[0].begin);
  EXPECT_TRUE(daemon_.Drain().empty());
}

TEST_F(NvtxTest, DomainsHaveSeparateStacksAndNames) {
  const auto nccl = library_.At<nvtx::DomainCreateAFn>(Core2::kDomainCreateA)("NCCL");
  const auto torch = library_.At<nvtx::DomainCreateAFn>(Core2::kDomainCreateA)("torch");
  Begin();
  library_.Push(nccl, Named("ncclAllReduce"));
  library_.Push(torch, Named("aten::mm"));
  library_.Pop(nccl);  // the innermost range of its domain, not of the thread
  library_.Pop(torch);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(NameOf(ranges[0]), "ncclAllReduce");
  EXPECT_EQ(daemon_.strings[ranges[0].domain], "NCCL");
  EXPECT_EQ(NameOf(ranges[1]), "aten::mm");
  EXPECT_EQ(daemon_.strings[ranges[1].domain], "torch");
}

TEST_F(NvtxTest, ReadsRegisteredTextsWideTextsAndPayloads) {
  const auto handle =
      library_.At<nvtx::DomainRegisterStringAFn>(Core2::kDomainRegisterStringA)(nullptr, "registered");
  Begin();
  nvtx::EventAttributes a = Named("");
  a.message_type = nvtx::MessageType::kRegistered;
  a.message.registered = handle;
  a.payload_type = nvtx::PayloadType::kInt32;
  a.payload.i32 = -5;
  library_.Push(nullptr, a);
  library_.Pop(nullptr);
  a.message_type = nvtx::MessageType::kUnicode;
  a.message.unicode = L"gr\u00f6\u00dfe \u20ac \U0001F600";
  library_.Push(nullptr, a);
  library_.Pop(nullptr);
  library_.At<nvtx::RangePushWFn>(Core::kRangePushW)(L"wide");
  library_.Pop();
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(NameOf(ranges[0]), "registered");
  EXPECT_EQ(static_cast<int64_t>(ranges[0].payload), -5);
  EXPECT_EQ(NameOf(ranges[1]),
            "gr\xC3\xB6\xC3\x9F"
            "e \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(NameOf(ranges[2]), "wide");
}

TEST_F(NvtxTest, ForeignHandlesAndAttributesHaveNoName) {
  Begin();
  nvtx::EventAttributes a = Named("x");
  a.message_type = nvtx::MessageType::kRegistered;
  a.message.registered = &a;
  library_.Push(&a, a);
  library_.Pop(&a);
  a.size = 16;  // the attributes of an older NVTX end before the message
  library_.Push(nullptr, a);
  library_.Pop(nullptr);
  library_.At<nvtx::RangePushExFn>(Core::kRangePushEx)(nullptr);
  library_.Pop();
  library_.Push(static_cast<const char*>(nullptr));
  library_.Pop();
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 4u);
  for (const auto& r : ranges) {
    EXPECT_EQ(r.name, 0u);
    EXPECT_EQ(r.domain, 0u);
  }
}

TEST_F(NvtxTest, MarksAreInstants) {
  Begin();
  library_.At<nvtx::MarkAFn>(Core::kMarkA)("epoch 3");
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].header.flags, ring::kRangeMark);
  EXPECT_EQ(ranges[0].start_ns, ranges[0].end_ns);
  EXPECT_EQ(NameOf(ranges[0]), "epoch 3");
}

TEST_F(NvtxTest, ARangeMayStartOnOneThreadAndEndOnAnother) {
  Begin();
  const auto id = library_.At<nvtx::RangeStartAFn>(Core::kRangeStartA)("prefetch");
  EXPECT_NE(id, 0u);
  std::thread([&] { library_.At<nvtx::RangeEndFn>(Core::kRangeEnd)(id); }).join();
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(NameOf(ranges[0]), "prefetch");
  EXPECT_EQ(ranges[0].thread, static_cast<uint32_t>(::gettid())) << "where it started";
  EXPECT_EQ(ranges[0].header.flags, 0);
}

TEST_F(NvtxTest, ARangePushedBeforeTrackingHasNoStartAndNoName) {
  Begin();
  library_.Pop();
  library_.At<nvtx::RangeEndFn>(Core::kRangeEnd)(0);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 2u);
  for (const auto& r : ranges) {
    EXPECT_EQ(r.header.flags, ring::kRangeStartUnknown);
    EXPECT_EQ(r.start_ns, 0);
    EXPECT_GT(r.end_ns, 0);
    EXPECT_EQ(r.name, 0u);
  }
}

TEST_F(NvtxTest, ARangePushedWhileArmedKeepsItsNameButNotItsStart) {
  Arm();
  library_.Push("spans T0");
  library_.Push("over before T0");
  library_.Pop();
  Open();
  library_.Pop();
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(NameOf(ranges[0]), "spans T0");
  EXPECT_EQ(ranges[0].header.flags, ring::kRangeStartUnknown);
  EXPECT_EQ(ranges[0].start_ns, 0);
  EXPECT_EQ(totals_.outside, 1u);
}

TEST_F(NvtxTest, WritesOpenRangesWithoutAnEnd) {
  Begin();
  std::thread elsewhere([&] { library_.Push("of a thread that ended"); });
  elsewhere.join();
  library_.Push("open");
  library_.Push("open too");
  library_.At<nvtx::RangeStartAFn>(Core::kRangeStartA)("started");
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 4u);
  std::vector<std::string> names;
  for (const auto& r : ranges) {
    EXPECT_EQ(r.header.flags, ring::kRangeEndUnknown);
    EXPECT_EQ(r.end_ns, 0);
    EXPECT_GT(r.start_ns, 0);
    names.push_back(NameOf(r));
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("of a thread that ended", "open", "open too", "started"));
}

TEST_F(NvtxTest, ACaptureExcludesOpenRangesOfTheLastCapture) {
  Begin();
  library_.Push("of the first");
  const auto id = library_.At<nvtx::RangeStartAFn>(Core::kRangeStartA)("of the first, too");
  EXPECT_EQ(End().size(), 2u);
  Begin();
  library_.Push("of the second");
  library_.Pop();
  library_.At<nvtx::RangeEndFn>(Core::kRangeEnd)(id);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(NameOf(ranges[0]), "of the second");
  EXPECT_EQ(ranges[0].depth, 0u);
  EXPECT_EQ(ranges[1].header.flags, ring::kRangeStartUnknown);
}

TEST_F(NvtxTest, MoreThreadsThanRingsRecordBecauseRingsAreReused) {
  Begin();
  for (int i = 0; i < 100; ++i) {
    std::thread([&] {
      library_.Push("short-lived");
      library_.Pop();
    }).join();
  }
  EXPECT_EQ(End().size(), 100u);
  EXPECT_EQ(daemon_.LostInAll(), 0u);
}

TEST_F(NvtxTest, CountsRangesAsLostWithoutAFreeRing) {
  Begin();
  constexpr int kThreads = 8;  // the segment has five rings
  std::atomic<int> arrived{0};
  std::atomic<bool> go{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      library_.Push("range");
      library_.Pop();
      ++arrived;
      while (!go) std::this_thread::yield();
    });
  }
  while (arrived < kThreads) std::this_thread::yield();
  go = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(End().size(), 5u);
  EXPECT_EQ(daemon_.Lost(LossReason::kNoRing, RecordKind::kRange), 3u);
}

TEST_F(NvtxTest, CountsRangesBeyondTheDepthLimit) {
  Begin();
  for (int i = 0; i < 70; ++i) library_.Push("deep");
  for (int i = 0; i < 70; ++i) library_.Pop();
  EXPECT_EQ(End().size(), RangeStack::kMost);
  EXPECT_EQ(daemon_.Lost(LossReason::kTooLarge, RecordKind::kRange), 70u - RangeStack::kMost);
}

TEST_F(NvtxTest, CountsEveryLossWhileACaptureEnds) {
  for (int round = 0; round < 20; ++round) {
    Begin();
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!stop) {
          library_.Push("busy");
          library_.Pop();
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const auto ranges = End();
    for (const auto& r : ranges) EXPECT_EQ(NameOf(r), "busy");
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(daemon_.Drain().empty()) << "a record came after the end";
    for (auto& reader : daemon_.readers) EXPECT_FALSE(reader.broken());
  }
}

TEST_F(NvtxTest, AnNvtxWithFewerSlotsKeepsItsOwn) {
  Library older;
  Library::slots = 5;
  EXPECT_TRUE(InstallNvtxHandlers(g_source, Library::Export));
  Library::slots = nvtx::kCoreSlots;
  EXPECT_NE(older.core[static_cast<uint32_t>(Core::kRangeStartEx)], nullptr);
  EXPECT_EQ(older.core[static_cast<uint32_t>(Core::kRangePushA)], nullptr);
  EXPECT_FALSE(InstallNvtxHandlers(g_source, [](nvtx::ExportTable) -> const void* { return nullptr; }));
  EXPECT_FALSE(InstallNvtxHandlers(g_source, nullptr));
}

TEST_F(NvtxTest, ThePayloadExtensionEndsARange) {
  intptr_t slots[5] = {};
  nvtx::ExtensionSegment segment{0, 5, slots};
  nvtx::ExtensionInfo info{
      3, sizeof(nvtx::ExtensionInfo), nvtx::kPayloadModuleId, 259, 1, &segment, nullptr, nullptr};
  ASSERT_TRUE(InstallNvtxExtensionHandlers(g_source, &info));
  const auto pop =
      reinterpret_cast<nvtx::RangePopPayloadFn>(slots[static_cast<size_t>(nvtx::Payload::kRangePop)]);
  ASSERT_NE(pop, nullptr);
  Begin();
  library_.Push("ncclCommInitRank");
  EXPECT_EQ(pop(nullptr, nullptr, 0), 0);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(NameOf(ranges[0]), "ncclCommInitRank");
  EXPECT_EQ(ranges[0].header.flags, 0);
  info.module_id = 7;
  EXPECT_FALSE(InstallNvtxExtensionHandlers(g_source, &info));
  EXPECT_FALSE(InstallNvtxExtensionHandlers(g_source, nullptr));
}

TEST_F(NvtxTest, DomainsWithoutAPlaceHaveAWorkingStack) {
  std::vector<nvtx::DomainHandle> domains;
  for (int i = 0; i < 300; ++i) {
    domains.push_back(library_.At<nvtx::DomainCreateAFn>(Core2::kDomainCreateA)("many"));
    ASSERT_NE(domains.back(), nullptr);
  }
  Begin();
  library_.Push(domains.back(), Named("late"));
  library_.Pop(domains.back());
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(NameOf(ranges[0]), "late");
  EXPECT_EQ(ranges[0].domain, 0u);
}

}  // namespace
}  // namespace lockstep::client
