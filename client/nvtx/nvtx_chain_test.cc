// Tests another tool behind ours on one library's tables, with the payload extension and thread names.
#include "client/nvtx/nvtx_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "client/nvtx/nvtx_injection.h"
#include "client/record/handle_map.h"
#include "tests/abi/support/daemon_end.h"
#include "wire/foreign/nvtx_payload.h"

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;
using nvtx::Core;
using nvtx::Core2;
using nvtx::Payload;
using ring::RecordKind;
using testing::ElementsAre;

RecordingFlags g_flags;
Recorder g_recorder(g_flags);
Window g_window;
ActivityClock g_clock;
StringIds g_ids;
Trigger g_trigger(g_window);
OperationLog g_log(kSystemTiming);
NvtxSource g_source(g_flags, g_recorder, g_clock, g_window, g_trigger, g_log);
uint64_t g_capture = 0;

constexpr uint32_t kSlots = 16;
constexpr uint32_t kExtensionSlots = 18;

void StartUp() {}  // NVTX's function in a slot before any tool fills it

struct Library {
  nvtx::FunctionPointer core[kSlots];
  nvtx::FunctionPointer core2[kSlots];
  nvtx::FunctionPointer* core_table[kSlots];
  nvtx::FunctionPointer* core2_table[kSlots];
  intptr_t payload[kExtensionSlots] = {};
  nvtx::ExtensionSegment segment{0, kExtensionSlots, payload};
  nvtx::ExtensionInfo extension{
      3, sizeof(nvtx::ExtensionInfo), nvtx::kPayloadModuleId, 259, 1, &segment, nullptr, nullptr};
  static inline Library* current = nullptr;

  Library() {
    for (uint32_t i = 0; i < kSlots; ++i) {
      core[i] = core2[i] = StartUp;
      core_table[i] = &core[i];
      core2_table[i] = &core2[i];
    }
    current = this;
  }
  static const void* Export(nvtx::ExportTable table) {
    static constexpr nvtx::ExportTableCallbacks kCallbacks = {sizeof(nvtx::ExportTableCallbacks), Table};
    return table == nvtx::ExportTable::kCallbacks ? &kCallbacks : nullptr;
  }
  static int Table(nvtx::Module module, nvtx::FunctionTable* table, uint32_t* n) {
    *n = kSlots;
    *table = module == nvtx::Module::kCore    ? current->core_table
             : module == nvtx::Module::kCore2 ? current->core2_table
                                              : nullptr;
    return *table != nullptr;
  }
  template <typename Fn>
  Fn At(Core slot) const {
    return reinterpret_cast<Fn>(core[static_cast<uint32_t>(slot)]);
  }
  template <typename Fn>
  Fn At(Core2 slot) const {
    return reinterpret_cast<Fn>(core2[static_cast<uint32_t>(slot)]);
  }
  template <typename Fn>
  Fn At(Payload slot) const {
    return reinterpret_cast<Fn>(payload[static_cast<uint32_t>(slot)]);
  }
};

// The chained tool notes its calls, and issues its own handles.
std::vector<std::string> g_seen;
char g_their_domain;
char g_their_string;
bool g_refuses = false;
bool g_issues_handles = true;

struct Other {
  static int PushA(const char* text) {
    g_seen.push_back(std::string("push ") + text);
    return 41;
  }
  static int Pop() {
    g_seen.push_back("pop");
    return 42;
  }
  static nvtx::RangeId StartA(const char* text) {
    g_seen.push_back(std::string("start ") + text);
    return 777;
  }
  static void End(nvtx::RangeId id) { g_seen.push_back("end " + std::to_string(id)); }
  static void NameCategory(uint32_t, const char*) {}
  static void* CreateDomain(const char* name) {
    g_seen.push_back(std::string("domain ") + name);
    return g_issues_handles ? &g_their_domain : nullptr;
  }
  static void* RegisterString(void* d, const char* text) {
    g_seen.push_back(std::string("string ") + text + (d == &g_their_domain ? " of theirs" : ""));
    return g_issues_handles ? &g_their_string : nullptr;
  }
  static int DomainPush(void* d, const nvtx::EventAttributes* a) {
    g_seen.push_back(std::string("push in ") + (d == &g_their_domain ? "theirs" : "not theirs") +
                     (a->message.registered == &g_their_string ? " named by theirs" : ""));
    return 43;
  }
  static uint64_t SchemaRegister(void*, const nvtx::SchemaAttributes*) { return (uint64_t{1} << 32) + 5; }
  static int PushPayload(void*, const nvtx::PayloadData*, size_t) {
    g_seen.push_back("payload");
    return 44;
  }

  static int Init(nvtx::GetExportTableFn get) {
    const auto* callbacks =
        static_cast<const nvtx::ExportTableCallbacks*>(get(nvtx::ExportTable::kCallbacks));
    nvtx::FunctionTable core, core2;
    uint32_t n;
    callbacks->get_module_function_table(nvtx::Module::kCore, &core, &n);
    callbacks->get_module_function_table(nvtx::Module::kCore2, &core2, &n);
    const auto set = [](nvtx::FunctionTable table, auto slot, auto handler) {
      *table[static_cast<uint32_t>(slot)] = reinterpret_cast<nvtx::FunctionPointer>(handler);
    };
    set(core, Core::kRangePushA, PushA);
    set(core, Core::kRangePop, Pop);
    set(core, Core::kRangeStartA, StartA);
    set(core, Core::kRangeEnd, End);
    set(core, Core::kNameCategoryA, NameCategory);
    set(core2, Core2::kDomainCreateA, CreateDomain);
    set(core2, Core2::kDomainRegisterStringA, RegisterString);
    set(core2, Core2::kDomainRangePushEx, DomainPush);
    return g_refuses ? 0 : 1;
  }
  static int InitExtension(nvtx::ExtensionInfo* extension) {
    if (g_refuses) return 0;
    auto* slots = extension->segments[0].function_slots;
    slots[static_cast<uint32_t>(Payload::kSchemaRegister)] = reinterpret_cast<intptr_t>(&SchemaRegister);
    slots[static_cast<uint32_t>(Payload::kRangePush)] = reinterpret_cast<intptr_t>(&PushPayload);
    return 1;
  }
};
constexpr NvtxTool kTool = {Other::Init, Other::InitExtension};

class ChainTest : public testing::Test {
 protected:
  ChainTest() : memory_(ring::kMaxRings * (16u << 10)) {
    static const bool once = g_recorder.Init(nullptr);
    EXPECT_TRUE(once);
    EXPECT_EQ(client_.Attach(daemon_.segment.fd(), daemon_.segment.bytes()), ring::AttachError::kNone);
    g_seen.clear();
    g_refuses = false;
    g_issues_handles = true;
  }
  ~ChainTest() override { client_.Detach(); }
  void Install() {
    EXPECT_TRUE(InstallChainedNvtxHandlers(g_source, kTool, Library::Export));
    EXPECT_TRUE(InstallChainedNvtxExtensionHandlers(g_source, kTool, &library_.extension));
  }
  void Begin() {
    ++g_capture;
    g_source.Begin(g_capture);
    g_recorder.Begin(g_capture, client_, {memory_.data(), memory_.size()}, g_ids);
    g_flags.nvtx = g_capture;
    g_window.Open(g_clock.now(), HostTime::Max());
  }
  std::vector<ring::RangeRecord> End() {
    RecorderTotals totals;
    EXPECT_TRUE(g_recorder.End(kSystemTiming, &totals, [](ThreadSlot& slot) { g_source.CloseOpen(slot); }));
    g_window.Close();
    drained_ = daemon_.Drain();
    std::vector<ring::RangeRecord> ranges;
    for (const auto& r : drained_) {
      if (r.header.kind == RecordKind::kRange) ranges.push_back(r.as<ring::RangeRecord>());
    }
    return ranges;
  }

  Library library_;
  DaemonEnd daemon_;
  ring::ClientSegment client_;
  std::vector<std::byte> memory_;
  std::vector<DaemonEnd::Record> drained_;
};

TEST_F(ChainTest, BothReceiveEveryCallAndTheChainedToolsResultCounts) {
  Install();
  Begin();
  EXPECT_EQ(library_.At<nvtx::RangePushAFn>(Core::kRangePushA)("both"), 41);
  EXPECT_EQ(library_.At<nvtx::RangePopFn>(Core::kRangePop)(), 42);
  const auto id = library_.At<nvtx::RangeStartAFn>(Core::kRangeStartA)("started");
  EXPECT_EQ(id, 777u);
  library_.At<nvtx::RangeEndFn>(Core::kRangeEnd)(id);
  const auto ranges = End();
  EXPECT_THAT(g_seen, ElementsAre("push both", "pop", "start started", "end 777"));
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(daemon_.strings[ranges[0].name], "both");
  EXPECT_EQ(daemon_.strings[ranges[1].name], "started");
  EXPECT_EQ(ranges[1].header.flags, 0) << "its start was found through the other's id";
}

TEST_F(ChainTest, TheChainedToolReceivesAllCallsWhileWeAreIdle) {
  Install();
  EXPECT_EQ(library_.At<nvtx::RangePushAFn>(Core::kRangePushA)("theirs alone"), 41);
  EXPECT_EQ(library_.At<nvtx::RangePopFn>(Core::kRangePop)(), 42);
  EXPECT_THAT(g_seen, ElementsAre("push theirs alone", "pop"));
  EXPECT_TRUE(daemon_.Drain().empty());
}

TEST_F(ChainTest, TranslatesDomainsAndStringsOfTheChainedTool) {
  Install();
  void* domain = library_.At<nvtx::DomainCreateAFn>(Core2::kDomainCreateA)("NCCL");
  EXPECT_EQ(domain, &g_their_domain);
  void* string =
      library_.At<nvtx::DomainRegisterStringAFn>(Core2::kDomainRegisterStringA)(domain, "ncclBroadcast");
  EXPECT_EQ(string, &g_their_string);
  Begin();
  nvtx::EventAttributes a{};
  a.size = sizeof a;
  a.message_type = nvtx::MessageType::kRegistered;
  a.message.registered = string;
  EXPECT_EQ(library_.At<nvtx::DomainRangePushExFn>(Core2::kDomainRangePushEx)(domain, &a), 43);
  EXPECT_EQ(a.message.registered, string) << "the application's attributes are its own";
  // The chained tool did not fill this slot.
  library_.At<nvtx::DomainRangePopFn>(Core2::kDomainRangePop)(domain);
  const auto ranges = End();
  EXPECT_THAT(g_seen,
              ElementsAre("domain NCCL", "string ncclBroadcast of theirs", "push in theirs named by theirs"));
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(daemon_.strings[ranges[0].name], "ncclBroadcast");
  EXPECT_EQ(daemon_.strings[ranges[0].domain], "NCCL");
  EXPECT_EQ(ranges[0].header.flags, 0);
}

TEST_F(ChainTest, ReturnsOurHandlesIfTheChainedToolHasNone) {
  g_issues_handles = false;
  Install();
  void* domain = library_.At<nvtx::DomainCreateAFn>(Core2::kDomainCreateA)("mine");
  ASSERT_NE(domain, nullptr);
  Begin();
  nvtx::EventAttributes a{};
  a.size = sizeof a;
  a.message_type = nvtx::MessageType::kAscii;
  a.message.ascii = "x";
  library_.At<nvtx::DomainRangePushExFn>(Core2::kDomainRangePushEx)(domain, &a);
  library_.At<nvtx::DomainRangePopFn>(Core2::kDomainRangePop)(domain);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(daemon_.strings[ranges[0].domain], "mine");
}

TEST_F(ChainTest, KeepsSlotsThatOnlyOneToolFills) {
  Install();
  EXPECT_EQ(library_.core[static_cast<uint32_t>(Core::kNameCategoryA)],
            reinterpret_cast<nvtx::FunctionPointer>(&Other::NameCategory));
  EXPECT_EQ(library_.core[static_cast<uint32_t>(Core::kNameCategoryW)], &StartUp)
      << "nobody's: NVTX empties it";
  Begin();
  library_.At<nvtx::MarkAFn>(Core::kMarkA)("ours alone");
  const auto ranges = End();
  EXPECT_TRUE(g_seen.empty());
  ASSERT_EQ(ranges.size(), 1u);
}

TEST_F(ChainTest, SkipsAToolThatRefuses) {
  g_refuses = true;
  Install();
  EXPECT_EQ(library_.core[static_cast<uint32_t>(Core::kNameCategoryA)], &StartUp)
      << "what it wrote is undone";
  Begin();
  EXPECT_EQ(library_.At<nvtx::RangePushAFn>(Core::kRangePushA)("x"), 0);
  library_.At<nvtx::RangePopFn>(Core::kRangePop)();
  EXPECT_EQ(End().size(), 1u);
  EXPECT_TRUE(g_seen.empty());
}

TEST_F(ChainTest, ChainsASecondLibraryToo) {
  Install();
  Library second;
  EXPECT_TRUE(InstallChainedNvtxHandlers(g_source, kTool, Library::Export));
  Begin();
  EXPECT_EQ(second.At<nvtx::RangePushAFn>(Core::kRangePushA)("second"), 41);
  second.At<nvtx::RangePopFn>(Core::kRangePop)();
  EXPECT_EQ(End().size(), 1u);
  // The same library installs its tables again.
  EXPECT_TRUE(InstallChainedNvtxHandlers(g_source, kTool, Library::Export));
  g_seen.clear();
  second.At<nvtx::RangePushAFn>(Core::kRangePushA)("once");
  EXPECT_THAT(g_seen, ElementsAre("push once"));
}

TEST_F(ChainTest, AcceptsASchemaByTheChainedToolsId) {
  Install();
  const nvtx::SchemaEntry entry{0, nvtx::kEntryInt32, "n", nullptr, 0, 0, nullptr, nullptr};
  nvtx::SchemaAttributes schema{};
  schema.mask = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount;
  schema.entries = &entry;
  schema.entry_count = 1;
  const uint64_t id = library_.At<nvtx::SchemaRegisterFn>(Payload::kSchemaRegister)(nullptr, &schema);
  EXPECT_EQ(id, (uint64_t{1} << 32) + 5);
  Begin();
  const int32_t value = -6;
  const nvtx::PayloadData data{id, sizeof value, &value};
  EXPECT_EQ(library_.At<nvtx::RangePushPayloadFn>(Payload::kRangePush)(nullptr, &data, 1), 44);
  library_.At<nvtx::RangePopPayloadFn>(Payload::kRangePop)(nullptr, &data, 1);
  const auto ranges = End();
  EXPECT_THAT(g_seen, ElementsAre("payload"));
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(static_cast<int64_t>(ranges[0].payload), -6);
}

TEST_F(ChainTest, PayloadOnlyEventsAreRangesAndMarks) {
  // Without a chained tool, only ours receives the events.
  EXPECT_TRUE(InstallChainedNvtxHandlers(g_source, {}, Library::Export));
  EXPECT_TRUE(InstallChainedNvtxExtensionHandlers(g_source, {}, &library_.extension));
  const nvtx::SchemaEntry entries[] = {
      {nvtx::kEntryMessage, nvtx::kEntryCstring, "text", nullptr, 0, 0, nullptr, nullptr},
      {0, nvtx::kEntryUint16, "n", nullptr, 0, 8, nullptr, nullptr}};
  nvtx::SchemaAttributes schema{};
  schema.mask = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount;
  schema.entries = entries;
  schema.entry_count = 2;
  const uint64_t id = library_.At<nvtx::SchemaRegisterFn>(Payload::kSchemaRegister)(nullptr, &schema);
  ASSERT_NE(id, 0u);
  struct {
    const char* text = "named by its payload";
    uint16_t n = 9;
  } payload;
  const nvtx::PayloadData data{id, sizeof payload, &payload};
  EXPECT_EQ(library_.At<nvtx::DomainIsEnabledFn>(Payload::kDomainIsEnabled)(nullptr), 1);
  Begin();
  library_.At<nvtx::MarkPayloadFn>(Payload::kMark)(nullptr, &data, 1);
  const auto started = library_.At<nvtx::RangeStartPayloadFn>(Payload::kRangeStart)(nullptr, &data, 1);
  library_.At<nvtx::RangeEndPayloadFn>(Payload::kRangeEnd)(nullptr, started, &data, 1);
  const auto ranges = End();
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].header.flags, ring::kRangeMark);
  for (const auto& range : ranges) {
    EXPECT_EQ(daemon_.strings[range.name], "named by its payload");
    EXPECT_EQ(range.payload, 9u);
  }
}

TEST_F(ChainTest, RecordsThreadNamesSetBeforeTheCapture) {
  Install();
  const auto name = library_.At<nvtx::NameOsThreadAFn>(Core::kNameOsThreadA);
  name(101, "loader");
  name(101, "data loader");
  name(0, "nobody");
  Begin();
  ThreadSlot* slot = g_recorder.Enter();
  g_source.WriteThreadNames(*slot);
  g_recorder.Leave(*slot);
  name(102, "checkpoint");
  End();
  std::vector<std::string> told;
  for (const auto& r : drained_) {
    if (r.header.kind != RecordKind::kThreadName) continue;
    const auto record = r.as<ring::ThreadNameRecord>();
    told.push_back(std::to_string(record.thread) + " " + daemon_.strings[record.name]);
  }
  EXPECT_THAT(told, ElementsAre("101 data loader", "102 checkpoint"));
}

TEST(LoadNvtxTool, ReturnsNoToolForAnUnloadableLibrary) {
  EXPECT_EQ(LoadNvtxTool(nullptr).init, nullptr);
  EXPECT_EQ(LoadNvtxTool("").init, nullptr);
  EXPECT_EQ(LoadNvtxTool("/nonexistent/tool.so").init, nullptr);
  EXPECT_EQ(LoadNvtxTool("libm.so.6").init, nullptr) << "a library, but no tool";
}

TEST(HandleMap, KeepsTheLatestAndReusesPlaces) {
  HandleMap<16> map;
  EXPECT_EQ(map.Get(100), 0u);
  EXPECT_FALSE(map.Put(0, 5));
  for (uint64_t round = 0; round < 100; ++round) {
    for (uint64_t key = 1000; key < 1016; ++key) EXPECT_TRUE(map.Put(key + round * 16, key + round));
    EXPECT_FALSE(map.Put(5, 5)) << "full";
    EXPECT_TRUE(map.Put(1000 + round * 16, 7));
    EXPECT_EQ(map.Take(1000 + round * 16), 7u);
    for (uint64_t key = 1001; key < 1016; ++key) EXPECT_EQ(map.Take(key + round * 16), key + round);
    EXPECT_EQ(map.Take(1001 + round * 16), 0u);
  }
}

}  // namespace
}  // namespace lockstep::client
