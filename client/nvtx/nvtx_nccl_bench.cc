// Measures the application's cost of NVTX's and NCCL's handlers: a push and pop, and an event of NCCL's
// plugin, idle and capturing. The baseline is an empty handler in the same run. Only the ratios are
// comparable; nanoseconds depend on the machine.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "client/nccl/nccl_plugin.h"
#include "client/nvtx/nvtx_injection.h"
#include "wire/foreign/nvtx_payload.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/handshake.h"
#include "wire/ring/reader.h"
#include "wire/ring/segment.h"

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;
namespace nccl = foreign::nccl;

constexpr int kGroups = 400;
constexpr int kGroup = 256;  // calls per timed group; the ring is emptied between groups

// NVTX's tables of one library.
nvtx::FunctionPointer g_core[nvtx::kCoreSlots];
nvtx::FunctionPointer* g_core_table[nvtx::kCoreSlots];
nvtx::FunctionPointer g_core2[nvtx::kCore2Slots];
nvtx::FunctionPointer* g_core2_table[nvtx::kCore2Slots];
intptr_t g_payload[18];

const void* Export(nvtx::ExportTable table) {
  static constexpr nvtx::ExportTableCallbacks kCallbacks = {
      sizeof(nvtx::ExportTableCallbacks), [](nvtx::Module module, nvtx::FunctionTable* to, uint32_t* slots) {
        if (module != nvtx::Module::kCore && module != nvtx::Module::kCore2) return 0;
        *to = module == nvtx::Module::kCore ? g_core_table : g_core2_table;
        *slots = nvtx::kCoreSlots;
        return 1;
      }};
  return table == nvtx::ExportTable::kCallbacks ? &kCallbacks : nullptr;
}

struct NcclPayload {
  uint64_t comm = 0xABC;
  size_t bytes = 4096;
  int32_t op = 0;
};

struct Rig {
  RecordingFlags flags;
  Recorder recorder{flags};
  Window window;
  ActivityClock clock;
  StringIds ids;
  Trigger trigger{window};
  OperationLog log{kSystemTiming};
  NvtxSource nvtx_source{flags, recorder, clock, window, trigger, log};
  NcclSource nccl_source{flags, recorder, clock, window, log};
  NcclCalls calls{flags, recorder, clock, window, nccl_source};
  ring::Segment segment;
  ring::ClientSegment client;
  std::vector<std::byte> names = std::vector<std::byte>(ring::kMaxRings * (16u << 10));
  std::vector<std::byte> scratch = std::vector<std::byte>(256 << 10);
  int32_t mask = 0;
  void* context = nullptr;
  nvtx::DomainHandle nccl_domain = nullptr;
  nvtx::StringHandle all_reduce = nullptr;
  uint64_t capture = 0;
  uint64_t records = 0;

  Rig() {
    recorder.Init(nullptr);
    ring::Segment::Create({.main_ring_bytes = 1 << 20, .ring_count = 4}, &segment);
    client.Attach(segment.fd(), segment.bytes());
    SetNcclSource(nccl_source, nullptr);
    SetNcclCalls(calls);
    for (uint32_t i = 0; i < nvtx::kCoreSlots; ++i) {
      g_core_table[i] = &g_core[i];
      g_core2_table[i] = &g_core2[i];
    }
    InstallNvtxHandlers(nvtx_source, Export);
    nvtx::ExtensionSegment part{0, 18, g_payload};
    nvtx::ExtensionInfo extension{
        3, sizeof(nvtx::ExtensionInfo), nvtx::kPayloadModuleId, 260, 1, &part, nullptr, nullptr};
    InstallNvtxExtensionHandlers(nvtx_source, &extension);
    nccl_domain = nvtx_source.CreateDomain("NCCL");
    all_reduce = nvtx_source.RegisterString("ncclAllReduce", 13);
    const nvtx::SchemaEntry entries[] = {
        {0, nvtx::kEntryUint64, "NCCL communicator ID", nullptr, 0, 0, nullptr, nullptr},
        {0, nvtx::kEntrySize, "Message size [bytes]", nullptr, 0, 8, nullptr, nullptr},
        {0, nvtx::kFirstStaticSchema + 20, "Reduction operation", nullptr, 0, 16, nullptr, nullptr}};
    nvtx::SchemaAttributes schema{};
    schema.mask = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount | nvtx::kSchemaHasId;
    schema.entries = entries;
    schema.entry_count = 3;
    schema.id = nvtx::kFirstStaticSchema + 5;
    nvtx_source.schemas().Register(nccl_domain, &schema);
  }
  ~Rig() {
    flags.Close();
    client.Detach();
  }
  void Begin() {
    window.Open(HostTime(0), HostTime::Max());
    ++capture;
    recorder.Begin(capture, client, {names.data(), names.size()}, ids);
    flags.nvtx = capture;
    flags.nccl = capture;
    nccl_source.Begin(nullptr, ring::kDefaultActivities);
  }
  void End() {
    nccl_source.End();
    RecorderTotals totals;
    recorder.End(kSystemTiming, &totals, [](ThreadSlot&) {});
  }
  void Drain() {
    for (uint32_t i = 0; i < 4; ++i) {
      ring::RingReader reader = segment.Reader(i);
      while (reader.Read(scratch) == ring::ReadStatus::kRecords) {
        ring::RecordView view;
        while (reader.Next(&view)) ++records;
        reader.Free();
      }
    }
  }
};

template <typename Call>
double NanosEach(Rig& rig, Call call) {
  std::vector<double> groups;
  for (int group = 0; group < kGroups; ++group) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kGroup; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    groups.push_back(took.count() / kGroup);
    rig.Drain();
  }
  std::nth_element(groups.begin(), groups.begin() + kGroups / 2, groups.end());
  return groups[kGroups / 2];
}

int EmptyPush(const char*) { return 0; }
int EmptyPop() { return 0; }

void Handlers(benchmark::State& state) {
  auto rig = std::make_unique<Rig>();
  volatile nvtx::RangePushAFn empty_push = EmptyPush;
  volatile nvtx::RangePopFn empty_pop = EmptyPop;
  const auto push =
      reinterpret_cast<nvtx::RangePushAFn>(g_core[static_cast<size_t>(nvtx::Core::kRangePushA)]);
  const auto pop = reinterpret_cast<nvtx::RangePopFn>(g_core[static_cast<size_t>(nvtx::Core::kRangePop)]);
  const auto domain_push = reinterpret_cast<nvtx::DomainRangePushExFn>(
      g_core2[static_cast<size_t>(nvtx::Core2::kDomainRangePushEx)]);
  const auto domain_pop =
      reinterpret_cast<nvtx::DomainRangePopFn>(g_core2[static_cast<size_t>(nvtx::Core2::kDomainRangePop)]);
  const NcclPayload payload;
  const nvtx::PayloadData data{nvtx::kFirstStaticSchema + 5, sizeof payload, &payload};
  nvtx::EventAttributes attributes{};
  attributes.size = sizeof attributes;
  attributes.message_type = nvtx::MessageType::kRegistered;
  attributes.message.registered = rig->all_reduce;
  attributes.payload_type = nvtx::PayloadType::kExtended;
  attributes.payload_count = 1;
  attributes.payload.u64 = reinterpret_cast<uintptr_t>(&data);
  const auto range = [&] {
    push("forward");
    pop();
  };
  const auto nccl_range = [&] {
    domain_push(rig->nccl_domain, &attributes);
    domain_pop(rig->nccl_domain);
  };
  // NCCL reads its word first, and calls the plugin only for the events in it.
  const auto plugin = [&] {
    if ((__atomic_load_n(&rig->mask, __ATOMIC_RELAXED) & nccl::kEventColl) == 0) return;
    nccl::EventDescriptor event{};
    event.type = nccl::kEventColl;
    event.detail.coll = {1,  "AllReduce", nullptr, nullptr,  1024,   0, "ncclFloat32",
                         16, 8,           "RING",  "SIMPLE", nullptr};
    void* handle = nullptr;
    ncclProfiler_v5.start_event(rig->context, &handle, &event);
    ncclProfiler_v5.stop_event(handle);
  };
  for (auto _ : state) {
    const double empty = NanosEach(*rig, [&] {
      empty_push("forward");
      empty_pop();
    });
    const double idle = NanosEach(*rig, range);
    const double idle_nccl = NanosEach(*rig, nccl_range);
    rig->Begin();
    const double capturing = NanosEach(*rig, range);
    const double nvtx_collective = NanosEach(*rig, nccl_range);  // no plugin yet: each call makes a record
    rig->End();
    ncclProfiler_v5.init(&rig->context, 0xABC, &rig->mask, "world", 1, 8, 0, nullptr);
    const double plugin_idle = NanosEach(*rig, plugin);
    rig->Begin();
    const double plugin_capturing = NanosEach(*rig, plugin);
    rig->End();
    state.counters["empty_push_pop_ns"] = empty;
    state.counters["idle_push_pop_ns"] = idle;
    state.counters["idle/empty"] = idle / empty;
    state.counters["idle_nccl_range/empty"] = idle_nccl / empty;
    state.counters["capturing_push_pop_ns"] = capturing;
    state.counters["capturing/idle"] = capturing / idle;
    state.counters["nvtx_collective_ns"] = nvtx_collective;
    state.counters["nvtx_collective/range"] = nvtx_collective / capturing;
    state.counters["plugin_idle_ns"] = plugin_idle;
    state.counters["plugin_idle/empty"] = plugin_idle / empty;
    state.counters["plugin_collective_ns"] = plugin_capturing;
    state.counters["plugin_collective/range"] = plugin_capturing / capturing;
    // The sum: a range each, then a range and a collective each, then a collective each.
    constexpr uint64_t kRecords = uint64_t{kGroups} * kGroup * 4;
    if (rig->records < kRecords) state.SkipWithError("records were lost: the times are not of recording");
    state.counters["records"] = static_cast<double>(rig->records);
  }
}
// All events that NCCL 2.28 sends for one collective with the progress table on and no capture.
class ProgressCalls {
 public:
  explicit ProgressCalls(Rig& rig) : rig_(rig) {
    rig.nccl_source.progress().TurnOn(kSystemTiming);
    rig.nccl_source.progress().Attach(rig.client.progress(), rig.client.progress_slots());
    rig.nccl_source.network().TurnOn(kSystemTiming);
    rig.nccl_source.network().Attach(rig.client.network());
    rig.log.Attach(&rig.client);
    ncclProfiler_v5.init(&rig.context, 0xABC, &rig.mask, "world", 1, 8, 0, nullptr);
  }

  // The application's thread. Returns the parent of the channels.
  void* Launch() {
    void* group_api = Start(nccl::kEventGroupApi);
    nccl::EventDetail call{};
    call.coll_api = {"AllReduce", 1024, "ncclFloat32", 0, nullptr, false};
    Stop(Start(nccl::kEventCollApi, call));
    void* group = Start(nccl::kEventGroup);
    nccl::EventDetail launch{};
    launch.coll = {++sequence_,   "AllReduce", nullptr, nullptr, 1024,     0,
                   "ncclFloat32", 16,          8,       "RING",  "SIMPLE", nullptr};
    void* parent = Start(nccl::kEventColl, launch);
    Stop(parent);
    Stop(group);
    Stop(group_api);
    return parent;
  }
  // NCCL's proxy thread, for each channel.
  void Channel(void* parent) {
    void* channel = Start(nccl::kEventKernelChannel, {}, parent);
    nccl::EventStateArgs end{};
    ncclProfiler_v5.record_event_state(channel, nccl::EventState::kKernelChannelStop, &end);
    Stop(channel);
  }
  // NCCL's proxy thread, for each network operation and each of its steps.
  void* StartNetwork(void* parent) {
    nccl::EventDetail detail{};
    detail.proxy_op = {getpid(), 0, 1, 64, 1 << 19, 1};
    return Start(nccl::kEventProxyOp, detail, parent);
  }
  void Step(void* op) {
    nccl::EventDetail detail{};
    detail.proxy_step = {step_++};
    void* step = Start(nccl::kEventProxyStep, detail, op);
    nccl::EventStateArgs none{};
    for (const auto wait : {nccl::EventState::kProxyStepSendGpuWait, nccl::EventState::kProxyStepSendPeerWait,
                            nccl::EventState::kProxyStepSendWait})
      ncclProfiler_v5.record_event_state(step, wait, &none);
    Stop(step);
  }
  static void Stop(void* handle) { ncclProfiler_v5.stop_event(handle); }

 private:
  void* Start(uint64_t type, const nccl::EventDetail& detail = {}, void* parent = nullptr) {
    nccl::EventDescriptor event{type, parent, 0, detail};
    void* handle = nullptr;
    ncclProfiler_v5.start_event(rig_.context, &handle, &event);
    return handle;
  }

  Rig& rig_;
  uint64_t sequence_ = 0;
  int32_t step_ = 0;
};

void Progress(benchmark::State& state) {
  auto rig = std::make_unique<Rig>();
  ProgressCalls calls(*rig);
  void* parent = calls.Launch();
  for (auto _ : state) {
    state.counters["launch_ns"] = NanosEach(*rig, [&] { parent = calls.Launch(); });
    state.counters["channel_ns"] = NanosEach(*rig, [&] { calls.Channel(parent); });
    void* op = calls.StartNetwork(parent);
    state.counters["network_step_ns"] = NanosEach(*rig, [&] { calls.Step(op); });
    calls.Stop(op);
    state.counters["network_operation_ns"] = NanosEach(*rig, [&] { calls.Stop(calls.StartNetwork(parent)); });
    state.counters["clock_ns"] = NanosEach(*rig, [] { benchmark::DoNotOptimize(ReadClock(CLOCK_REALTIME)); });
  }
}
BENCHMARK(Progress)->Iterations(1)->Unit(benchmark::kMillisecond);
BENCHMARK(Handlers)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::client

BENCHMARK_MAIN();
