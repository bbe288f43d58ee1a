#include "sim/nccl/nvtx_domain.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "wire/foreign/nvtx_payload.h"

namespace lockstep::sim {
namespace {

namespace nvtx = foreign::nvtx;

// NVTX's tables are global to a linkage unit, and this library is such a unit.
nvtx::FunctionPointer g_core_functions[nvtx::kCoreSlots];
nvtx::FunctionPointer* g_core_table[nvtx::kCoreSlots];
nvtx::FunctionPointer g_core2_functions[nvtx::kCore2Slots];
nvtx::FunctionPointer* g_core2_table[nvtx::kCore2Slots];
constexpr size_t kPayloadSlots = 63;  // slots of NVTX payload extension 259, which NCCL 2.28 uses
constexpr uint16_t kPayloadCompatId = 259;
intptr_t g_payload_functions[kPayloadSlots];

int GetModuleFunctionTable(nvtx::Module module, nvtx::FunctionTable* table, uint32_t* slots) {
  const bool core = module == nvtx::Module::kCore;
  if (!core && module != nvtx::Module::kCore2) return 0;
  *table = core ? g_core_table : g_core2_table;
  if (slots != nullptr) *slots = core ? nvtx::kCoreSlots : nvtx::kCore2Slots;
  return 1;
}

const void* GetExportTable(nvtx::ExportTable id) {
  static constexpr nvtx::ExportTableCallbacks kCallbacks = {sizeof(nvtx::ExportTableCallbacks),
                                                            GetModuleFunctionTable};
  static constexpr nvtx::ExportTableVersionInfo kVersion = {sizeof(nvtx::ExportTableVersionInfo), 3, 0,
                                                            [](uint32_t) {}};
  if (id == nvtx::ExportTable::kCallbacks) return &kCallbacks;
  if (id == nvtx::ExportTable::kVersionInfo) return &kVersion;
  return nullptr;
}

template <typename Fn>
Fn Slot(nvtx::Core2 id) {
  return reinterpret_cast<Fn>(g_core2_functions[static_cast<uint32_t>(id)]);
}
template <typename Fn>
Fn Slot(nvtx::Payload id) {
  return reinterpret_cast<Fn>(g_payload_functions[static_cast<size_t>(id)]);
}

void LoadTool() {
  for (uint32_t i = 0; i < nvtx::kCoreSlots; ++i) g_core_table[i] = &g_core_functions[i];
  for (uint32_t i = 0; i < nvtx::kCore2Slots; ++i) g_core2_table[i] = &g_core2_functions[i];
  const char* path = getenv("NVTX_INJECTION64_PATH");
  void* library = path == nullptr || *path == '\0' ? nullptr : dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize =
      reinterpret_cast<nvtx::InitializeInjectionNvtx2Fn>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize == nullptr || initialize(&GetExportTable) == 0) {
    std::memset(static_cast<void*>(g_core2_functions), 0, sizeof g_core2_functions);
    return;
  }
  const auto extend = reinterpret_cast<nvtx::InitializeInjectionNvtxExtensionFn>(
      dlsym(library, "InitializeInjectionNvtxExtension"));
  if (extend == nullptr) return;
  nvtx::ExtensionSegment segment = {0, kPayloadSlots, g_payload_functions};
  nvtx::ExtensionInfo info = {3,       sizeof info, nvtx::kPayloadModuleId, kPayloadCompatId, 1, &segment,
                              nullptr, nullptr};
  if (extend(&info) == 0) std::memset(g_payload_functions, 0, sizeof g_payload_functions);
}

class Domain {
 public:
  // Returns null if no tool is loaded. The object is never destroyed.
  static Domain* Get() {
    static Domain* const domain = new Domain;
    return domain->handle_ == nullptr ? nullptr : domain;
  }

  nvtx::DomainHandle handle() const { return handle_; }

  nvtx::StringHandle String(const char* text) {
    const auto reg = Slot<nvtx::DomainRegisterStringAFn>(nvtx::Core2::kDomainRegisterStringA);
    MutexLock lock(&mutex_);
    const auto known = strings_.find(text);
    if (known != strings_.end()) return known->second;
    return strings_[text] = reg == nullptr ? nullptr : reg(handle_, text);
  }

  // Registers the schema at the first call of each kind.
  void Schema(NcclApi api) {
    MutexLock lock(&mutex_);
    if (schemas_.insert(api).second) Register(api);
  }

 private:
  Domain() {
    const char* off = getenv("NCCL_NVTX_DISABLE");
    if (off != nullptr && std::strcmp(off, "0") != 0) return;
    LoadTool();
    const auto create = Slot<nvtx::DomainCreateAFn>(nvtx::Core2::kDomainCreateA);
    if (create == nullptr) return;
    handle_ = create("NCCL");
    static constexpr nvtx::EnumEntry kOps[] = {
        {"Sum", 0, 0}, {"Product", 1, 0}, {"Max", 2, 0}, {"Min", 3, 0}, {"Avg", 4, 0}};
    const nvtx::EnumAttributes attributes = {
        nvtx::kEnumHasEntries | nvtx::kEnumHasEntryCount | nvtx::kEnumHasSize | nvtx::kEnumHasId,
        nullptr,
        kOps,
        5,
        sizeof(int32_t),
        kNcclReductionEnum,
        nullptr};
    if (const auto reg = Slot<nvtx::EnumRegisterFn>(nvtx::Payload::kEnumRegister)) reg(handle_, &attributes);
  }

  void Register(NcclApi api) {
    const auto reg = Slot<nvtx::SchemaRegisterFn>(nvtx::Payload::kSchemaRegister);
    if (reg == nullptr) return;
    using Entry = nvtx::SchemaEntry;
    std::vector<Entry> entries = {
        {0, nvtx::kEntryUint64, "NCCL communicator ID", "", 0, 0, nullptr, nullptr}};
    const auto add = [&](uint64_t type, const char* name, uint64_t offset) {
      entries.push_back({0, type, name, "", 0, offset, nullptr, nullptr});
    };
    size_t size = sizeof(NcclCallPayload);
    const bool init = api == NcclApi::kCommInitRank || api == NcclApi::kCommInitRankConfig;
    if (init) {
      add(nvtx::kEntryInt, "No. of ranks", offsetof(NcclInitPayload, ranks));
      add(nvtx::kEntryInt, "Rank", offsetof(NcclInitPayload, rank));
      add(nvtx::kEntryInt, "CUDA device", offsetof(NcclInitPayload, device));
    } else {
      add(nvtx::kEntrySize, "Message size [bytes]", offsetof(NcclCallPayload, bytes));
    }
    if (api == NcclApi::kAllGather) size = offsetof(NcclCallPayload, value);
    if (api == NcclApi::kAllReduce || api == NcclApi::kReduceScatter)
      add(kNcclReductionEnum, "Reduction operation", offsetof(NcclCallPayload, value));
    if (api == NcclApi::kBroadcast || api == NcclApi::kReduce)
      add(nvtx::kEntryInt, "Root", offsetof(NcclCallPayload, value));
    if (api == NcclApi::kReduce)
      add(kNcclReductionEnum, "Reduction operation", offsetof(NcclCallPayload, reduction));
    if (api == NcclApi::kSend || api == NcclApi::kRecv)
      add(nvtx::kEntryInt, "Peer rank", offsetof(NcclCallPayload, value));
    const nvtx::SchemaAttributes attributes = {nvtx::kSchemaHasName | nvtx::kSchemaHasType |
                                                   nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount |
                                                   nvtx::kSchemaHasSize | nvtx::kSchemaHasId,
                                               nullptr,
                                               nvtx::SchemaType::kStatic,
                                               0,
                                               entries.data(),
                                               entries.size(),
                                               size,
                                               0,
                                               kNcclFirstSchema + static_cast<uint64_t>(api),
                                               nullptr};
    reg(handle_, &attributes);
  }

  nvtx::DomainHandle handle_ = nullptr;  // set before the constructor returns
  Mutex mutex_;
  std::map<std::string, nvtx::StringHandle> strings_ ABSL_GUARDED_BY(mutex_);
  std::set<NcclApi> schemas_ ABSL_GUARDED_BY(mutex_);
};

size_t BytesOf(NcclApi api) {
  return api == NcclApi::kAllGather ? offsetof(NcclCallPayload, value) : sizeof(NcclCallPayload);
}

bool Push(Domain& domain, const char* name, const nvtx::PayloadData* payload) {
  const auto push = Slot<nvtx::DomainRangePushExFn>(nvtx::Core2::kDomainRangePushEx);
  if (push == nullptr) return false;
  nvtx::EventAttributes a{};
  a.version = 3;
  a.size = sizeof a;
  a.message_type = nvtx::MessageType::kRegistered;
  a.message.registered = domain.String(name);
  if (payload != nullptr) {
    a.payload_type = nvtx::PayloadType::kExtended;
    a.payload_count = 1;
    a.payload.u64 = reinterpret_cast<uint64_t>(payload);
  }
  push(domain.handle(), &a);
  return true;
}

}  // namespace

NcclRange::NcclRange(NcclApi api, const char* name) : api_(api) {
  if (Domain* domain = Domain::Get()) pushed_ = Push(*domain, name, nullptr);
}

NcclRange::NcclRange(NcclApi api, const char* name, const NcclCallPayload& payload) : api_(api) {
  Domain* domain = Domain::Get();
  if (domain == nullptr) return;
  domain->Schema(api);
  const nvtx::PayloadData data = {kNcclFirstSchema + static_cast<uint64_t>(api), BytesOf(api), &payload};
  pushed_ = Push(*domain, name, &data);
}

void NcclRange::SetResult(const NcclInitPayload& payload) {
  result_ = payload;
  has_result_ = true;
}

NcclRange::~NcclRange() {
  Domain* domain = Domain::Get();
  if (!pushed_ || domain == nullptr) return;
  const auto pop_payload = Slot<nvtx::RangePopPayloadFn>(nvtx::Payload::kRangePop);
  if (has_result_ && pop_payload != nullptr) {
    domain->Schema(api_);
    const nvtx::PayloadData data = {kNcclFirstSchema + static_cast<uint64_t>(api_), sizeof result_, &result_};
    pop_payload(domain->handle(), &data, 1);
  } else if (const auto pop = Slot<nvtx::DomainRangePopFn>(nvtx::Core2::kDomainRangePop)) {
    pop(domain->handle());
  }
}

}  // namespace lockstep::sim
