#include "client/nvtx_injection.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;

// NVTX hands its handlers no user data. Set before the first handler is installed, never changed.
std::atomic<NvtxSource*> g_source{nullptr};

NvtxSource& Source() { return *g_source.load(std::memory_order_relaxed); }

constexpr size_t kWideBytes = 1024;

// UTF-8 of a wide text, cut to `capacity`; returns its length.
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

// Calls fn(message, payload) with what the attributes say, as far as the caller's version of them goes.
template <typename Fn>
auto WithAttributes(const nvtx::EventAttributes* attributes, Fn fn) {
  RangeMessage message;
  uint64_t payload = 0;
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
    switch (attributes->payload_type) {
      case nvtx::PayloadType::kUint64:
      case nvtx::PayloadType::kInt64:
      case nvtx::PayloadType::kDouble:
        payload = attributes->payload.u64;
        break;
      case nvtx::PayloadType::kUint32:
      case nvtx::PayloadType::kFloat:
        payload = attributes->payload.u32;
        break;
      case nvtx::PayloadType::kInt32:
        payload = static_cast<uint64_t>(int64_t{attributes->payload.i32});
        break;
      default:
        break;
    }
  }
  return fn(message, payload);
}

int OnPush(const void* domain, const nvtx::EventAttributes* attributes) {
  if (Source().idle()) return nvtx::kNoPushPopTracking;
  return WithAttributes(attributes,
                        [domain](RangeMessage m, uint64_t p) { return Source().Push(domain, m, p); });
}

void OnMark(const void* domain, const nvtx::EventAttributes* attributes) {
  if (Source().idle()) return;
  WithAttributes(attributes, [domain](RangeMessage m, uint64_t p) { Source().Mark(domain, m, p); });
}

nvtx::RangeId OnStart(const void* domain, const nvtx::EventAttributes* attributes) {
  if (Source().idle()) return 0;
  return WithAttributes(attributes,
                        [domain](RangeMessage m, uint64_t p) { return Source().Start(domain, m, p); });
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
  return Source().idle() ? 0 : Source().Start(nullptr, Ascii(text), 0);
}
nvtx::RangeId RangeStartW(const wchar_t* text) {
  if (Source().idle()) return 0;
  return WithWide(text, [](RangeMessage m) { return Source().Start(nullptr, m, 0); });
}
void RangeEnd(nvtx::RangeId id) { Source().End(id); }
int RangePushEx(const nvtx::EventAttributes* a) { return OnPush(nullptr, a); }
int RangePushA(const char* text) {
  return Source().idle() ? nvtx::kNoPushPopTracking : Source().Push(nullptr, Ascii(text), 0);
}
int RangePushW(const wchar_t* text) {
  if (Source().idle()) return nvtx::kNoPushPopTracking;
  return WithWide(text, [](RangeMessage m) { return Source().Push(nullptr, m, 0); });
}
int RangePop() { return Source().Pop(nullptr); }
void DomainMarkEx(nvtx::DomainHandle d, const nvtx::EventAttributes* a) { OnMark(d, a); }
nvtx::RangeId DomainRangeStartEx(nvtx::DomainHandle d, const nvtx::EventAttributes* a) {
  return OnStart(d, a);
}
void DomainRangeEnd(nvtx::DomainHandle, nvtx::RangeId id) { Source().End(id); }
int DomainRangePushEx(nvtx::DomainHandle d, const nvtx::EventAttributes* a) { return OnPush(d, a); }
int DomainRangePop(nvtx::DomainHandle d) { return Source().Pop(d); }
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

int RangePushPayload(nvtx::DomainHandle d, const nvtx::PayloadData*, size_t) {
  return Source().idle() ? nvtx::kNoPushPopTracking : Source().Push(d, {}, 0);
}
int RangePopPayload(nvtx::DomainHandle d, const nvtx::PayloadData*, size_t) { return Source().Pop(d); }

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
  set(nvtx::Payload::kRangePush, RangePushPayload);
  set(nvtx::Payload::kRangePop, RangePopPayload);
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
