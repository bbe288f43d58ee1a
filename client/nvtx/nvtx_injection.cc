#include "client/nvtx/nvtx_injection.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;

// NVTX gives its handlers no user data. The pointer is set before the first handler is installed, and never
// changes.
std::atomic<NvtxSource*> g_source{nullptr};

std::atomic<NcclCalls*> g_calls{nullptr};

NvtxSource& Source() { return *g_source.load(std::memory_order_relaxed); }

// Returns null if the domain is not NCCL's.
NcclCalls* CallsOf(const void* domain) {
  return Source().IsNccl(domain) ? g_calls.load(std::memory_order_relaxed) : nullptr;
}

constexpr size_t kWideBytes = 1024;

// Converts a wide text to UTF-8, cut to `capacity`. Returns its length.
size_t FromWide(const wchar_t* wide, char* to, size_t capacity) {
  size_t n = 0;
  for (; wide != nullptr && *wide != 0; ++wide) {
    const auto c = static_cast<uint32_t>(*wide);
    if (n + 4 > capacity) break;
    if (c < 0x80) {
      to[n++] = static_cast<char>(c);
    } else if (c < 0x800) {
      to[n++] = static_cast<char>(0xC0 | c >> 6);
      to[n++] = static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      to[n++] = static_cast<char>(0xE0 | c >> 12);
      to[n++] = static_cast<char>(0x80 | (c >> 6 & 0x3F));
      to[n++] = static_cast<char>(0x80 | (c & 0x3F));
    } else {
      to[n++] = static_cast<char>(0xF0 | (c >> 18 & 0x07));
      to[n++] = static_cast<char>(0x80 | (c >> 12 & 0x3F));
      to[n++] = static_cast<char>(0x80 | (c >> 6 & 0x3F));
      to[n++] = static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return n;
}

RangeMessage Ascii(const char* text) {
  if (text == nullptr) return {};
  return {text, std::strlen(text)};
}

// The values of an event besides its text.
struct EventValue {
  uint64_t number = 0;   // a plain payload, or the first integer of an extended one
  NvtxPayload extended;  // all fields unknown without an extended payload
};

uint64_t PlainNumber(const nvtx::EventAttributes& attributes) {
  switch (attributes.payload_type) {
    case nvtx::PayloadType::kUint64:
    case nvtx::PayloadType::kInt64:
    case nvtx::PayloadType::kDouble:
      return attributes.payload.u64;
    case nvtx::PayloadType::kUint32:
    case nvtx::PayloadType::kFloat:
      return attributes.payload.u32;
    case nvtx::PayloadType::kInt32:
      return static_cast<uint64_t>(int64_t{attributes.payload.i32});
    default:
      return 0;
  }
}

EventValue ValueOf(const void* domain, const nvtx::PayloadData* payloads, size_t count) {
  EventValue value;
  value.extended = Source().schemas().Read(domain, payloads, count);
  value.number = static_cast<uint64_t>(value.extended.Get(NvtxPayload::kFirstNumber, 0));
  return value;
}

// Calls fn(message, value) with the attributes, as far as the caller's version has them.
template <typename Fn>
auto WithAttributes(const void* domain, const nvtx::EventAttributes* attributes, Fn fn) {
  RangeMessage message;
  EventValue value;
  char utf8[kWideBytes];
  if (attributes != nullptr && attributes->size >= sizeof(nvtx::EventAttributes)) {
    switch (attributes->message_type) {
      case nvtx::MessageType::kAscii:
        message = Ascii(attributes->message.ascii);
        break;
      case nvtx::MessageType::kRegistered:
        message = Source().Registered(attributes->message.registered);
        break;
      case nvtx::MessageType::kUnicode:
        message = {utf8, FromWide(attributes->message.unicode, utf8, sizeof utf8)};
        break;
      default:
        break;
    }
    if (attributes->payload_type == nvtx::PayloadType::kExtended && attributes->payload_count > 0) {
      const auto* payloads = reinterpret_cast<const nvtx::PayloadData*>(attributes->payload.u64);
      value = ValueOf(domain, payloads, static_cast<size_t>(attributes->payload_count));
    } else {
      value.number = PlainNumber(*attributes);
    }
  }
  return fn(message, value);
}

int Push(const void* domain, RangeMessage message, const EventValue& value) {
  if (!Source().idle()) {
    if (NcclCalls* calls = CallsOf(domain)) calls->OnPush(message, value.extended);
  }
  return Source().Push(domain, message, value.number);
}

int Pop(const void* domain) {
  if (!Source().idle()) {
    if (NcclCalls* calls = CallsOf(domain)) calls->OnPop();
  }
  return Source().Pop(domain);
}

int OnPush(const void* domain, const nvtx::EventAttributes* attributes) {
  if (Source().ignores_begins()) return nvtx::kNoPushPopTracking;
  return WithAttributes(domain, attributes,
                        [domain](RangeMessage m, const EventValue& v) { return Push(domain, m, v); });
}

void OnMark(const void* domain, const nvtx::EventAttributes* attributes) {
  if (Source().idle()) return;
  WithAttributes(domain, attributes,
                 [domain](RangeMessage m, const EventValue& v) { Source().Mark(domain, m, v.number); });
}

nvtx::RangeId OnStart(const void* domain, const nvtx::EventAttributes* attributes) {
  if (Source().ignores_begins()) return 0;
  return WithAttributes(domain, attributes, [domain](RangeMessage m, const EventValue& v) {
    return Source().Start(domain, m, v.number);
  });
}

template <typename Fn>
auto WithWide(const wchar_t* text, Fn fn) {
  char utf8[kWideBytes];
  return fn(RangeMessage{utf8, FromWide(text, utf8, sizeof utf8)});
}

// ---- one handler per slot ----

void MarkEx(const nvtx::EventAttributes* a) { OnMark(nullptr, a); }
void MarkA(const char* text) {
  if (!Source().idle()) Source().Mark(nullptr, Ascii(text), 0);
}
void MarkW(const wchar_t* text) {
  if (!Source().idle()) WithWide(text, [](RangeMessage m) { Source().Mark(nullptr, m, 0); });
}
nvtx::RangeId RangeStartEx(const nvtx::EventAttributes* a) { return OnStart(nullptr, a); }
nvtx::RangeId RangeStartA(const char* text) {
  return Source().ignores_begins() ? 0 : Source().Start(nullptr, Ascii(text), 0);
}
nvtx::RangeId RangeStartW(const wchar_t* text) {
  if (Source().ignores_begins()) return 0;
  return WithWide(text, [](RangeMessage m) { return Source().Start(nullptr, m, 0); });
}
void RangeEnd(nvtx::RangeId id) { Source().End(id); }
int RangePushEx(const nvtx::EventAttributes* a) { return OnPush(nullptr, a); }
int RangePushA(const char* text) {
  return Source().ignores_begins() ? nvtx::kNoPushPopTracking : Source().Push(nullptr, Ascii(text), 0);
}
int RangePushW(const wchar_t* text) {
  if (Source().ignores_begins()) return nvtx::kNoPushPopTracking;
  return WithWide(text, [](RangeMessage m) { return Source().Push(nullptr, m, 0); });
}
int RangePop() { return Source().Pop(nullptr); }
void DomainMarkEx(nvtx::DomainHandle d, const nvtx::EventAttributes* a) { OnMark(d, a); }
nvtx::RangeId DomainRangeStartEx(nvtx::DomainHandle d, const nvtx::EventAttributes* a) {
  return OnStart(d, a);
}
void DomainRangeEnd(nvtx::DomainHandle, nvtx::RangeId id) { Source().End(id); }
int DomainRangePushEx(nvtx::DomainHandle d, const nvtx::EventAttributes* a) { return OnPush(d, a); }
int DomainRangePop(nvtx::DomainHandle d) { return Pop(d); }
nvtx::DomainHandle DomainCreateA(const char* name) { return Source().CreateDomain(name); }
nvtx::DomainHandle DomainCreateW(const wchar_t* name) {
  char utf8[kWideBytes];
  utf8[FromWide(name, utf8, sizeof utf8 - 1)] = '\0';
  return Source().CreateDomain(utf8);
}
nvtx::StringHandle DomainRegisterStringA(nvtx::DomainHandle, const char* text) {
  const RangeMessage message = Ascii(text);
  return Source().RegisterString(message.text, message.length);
}
nvtx::StringHandle DomainRegisterStringW(nvtx::DomainHandle, const wchar_t* text) {
  return WithWide(text, [](RangeMessage m) { return Source().RegisterString(m.text, m.length); });
}

void NameOsThreadA(uint32_t thread, const char* name) { Source().NameThread(thread, Ascii(name)); }
void NameOsThreadW(uint32_t thread, const wchar_t* name) {
  WithWide(name, [thread](RangeMessage m) { Source().NameThread(thread, m); });
}

// ---- the payload extension ----

uint64_t SchemaRegister(nvtx::DomainHandle d, const nvtx::SchemaAttributes* attributes) {
  return Source().schemas().Register(d, attributes);
}
uint64_t EnumRegister(nvtx::DomainHandle d, const nvtx::EnumAttributes* attributes) {
  return Source().schemas().RegisterEnum(d, attributes);
}
void MarkPayload(nvtx::DomainHandle d, const nvtx::PayloadData* payloads, size_t count) {
  if (Source().idle()) return;
  const EventValue value = ValueOf(d, payloads, count);
  Source().Mark(d, Ascii(value.extended.message), value.number);
}
int RangePushPayload(nvtx::DomainHandle d, const nvtx::PayloadData* payloads, size_t count) {
  if (Source().ignores_begins()) return nvtx::kNoPushPopTracking;
  const EventValue value = ValueOf(d, payloads, count);
  return Push(d, Ascii(value.extended.message), value);
}
int RangePopPayload(nvtx::DomainHandle d, const nvtx::PayloadData* payloads, size_t count) {
  // NCCL describes a new communicator in this way, in most cases before any capture.
  if (NcclCalls* calls = CallsOf(d)) calls->OnPopPayload(Source().schemas().Read(d, payloads, count));
  return Pop(d);
}
nvtx::RangeId RangeStartPayload(nvtx::DomainHandle d, const nvtx::PayloadData* payloads, size_t count) {
  if (Source().ignores_begins()) return 0;
  const EventValue value = ValueOf(d, payloads, count);
  return Source().Start(d, Ascii(value.extended.message), value.number);
}
void RangeEndPayload(nvtx::DomainHandle, nvtx::RangeId id, const nvtx::PayloadData*, size_t) {
  Source().End(id);
}
// A capture may begin at any time, and an application may ask only once.
uint8_t DomainIsEnabled(nvtx::DomainHandle) { return 1; }

struct TableEdit {
  nvtx::FunctionTable table = nullptr;
  uint32_t slots = 0;

  template <typename Slot, typename Fn>
  void Set(Slot slot, Fn handler) const {
    const auto index = static_cast<uint32_t>(slot);
    if (index < slots && table[index] != nullptr)
      *table[index] = reinterpret_cast<nvtx::FunctionPointer>(handler);
  }
};

void FillCore(const TableEdit& core) {
  using Slot = nvtx::Core;
  core.Set(Slot::kMarkEx, MarkEx);
  core.Set(Slot::kMarkA, MarkA);
  core.Set(Slot::kMarkW, MarkW);
  core.Set(Slot::kRangeStartEx, RangeStartEx);
  core.Set(Slot::kRangeStartA, RangeStartA);
  core.Set(Slot::kRangeStartW, RangeStartW);
  core.Set(Slot::kRangeEnd, RangeEnd);
  core.Set(Slot::kRangePushEx, RangePushEx);
  core.Set(Slot::kRangePushA, RangePushA);
  core.Set(Slot::kRangePushW, RangePushW);
  core.Set(Slot::kRangePop, RangePop);
  core.Set(Slot::kNameOsThreadA, NameOsThreadA);
  core.Set(Slot::kNameOsThreadW, NameOsThreadW);
}

void FillCore2(const TableEdit& core2) {
  using Slot = nvtx::Core2;
  core2.Set(Slot::kDomainMarkEx, DomainMarkEx);
  core2.Set(Slot::kDomainRangeStartEx, DomainRangeStartEx);
  core2.Set(Slot::kDomainRangeEnd, DomainRangeEnd);
  core2.Set(Slot::kDomainRangePushEx, DomainRangePushEx);
  core2.Set(Slot::kDomainRangePop, DomainRangePop);
  core2.Set(Slot::kDomainCreateA, DomainCreateA);
  core2.Set(Slot::kDomainCreateW, DomainCreateW);
  core2.Set(Slot::kDomainRegisterStringA, DomainRegisterStringA);
  core2.Set(Slot::kDomainRegisterStringW, DomainRegisterStringW);
}

}  // namespace

void SetNcclCalls(NcclCalls& calls) {
  NcclCalls* none = nullptr;
  g_calls.compare_exchange_strong(none, &calls);
}

bool InstallNvtxExtensionHandlers(NvtxSource& source, nvtx::ExtensionInfo* extension) {
  NvtxSource* none = nullptr;
  g_source.compare_exchange_strong(none, &source);
  if (extension == nullptr || extension->struct_size < sizeof *extension ||
      extension->module_id != nvtx::kPayloadModuleId || extension->segment_count == 0) {
    return false;
  }
  const nvtx::ExtensionSegment& segment = extension->segments[0];
  const auto set = [&segment](nvtx::Payload slot, auto handler) {
    const auto index = static_cast<size_t>(slot);
    if (index < segment.slot_count) segment.function_slots[index] = reinterpret_cast<intptr_t>(handler);
  };
  set(nvtx::Payload::kSchemaRegister, SchemaRegister);
  set(nvtx::Payload::kEnumRegister, EnumRegister);
  set(nvtx::Payload::kMark, MarkPayload);
  set(nvtx::Payload::kRangePush, RangePushPayload);
  set(nvtx::Payload::kRangePop, RangePopPayload);
  set(nvtx::Payload::kRangeStart, RangeStartPayload);
  set(nvtx::Payload::kRangeEnd, RangeEndPayload);
  set(nvtx::Payload::kDomainIsEnabled, DomainIsEnabled);
  return true;
}

bool InstallNvtxHandlers(NvtxSource& source, nvtx::GetExportTableFn get_export_table) {
  NvtxSource* none = nullptr;
  g_source.compare_exchange_strong(none, &source);
  if (get_export_table == nullptr) return false;
  const auto* callbacks =
      static_cast<const nvtx::ExportTableCallbacks*>(get_export_table(nvtx::ExportTable::kCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return false;
  TableEdit core;
  TableEdit core2;
  if (callbacks->get_module_function_table(nvtx::Module::kCore, &core.table, &core.slots) != 0)
    FillCore(core);
  if (callbacks->get_module_function_table(nvtx::Module::kCore2, &core2.table, &core2.slots) != 0)
    FillCore2(core2);
  return core.table != nullptr || core2.table != nullptr;
}

}  // namespace lockstep::client
