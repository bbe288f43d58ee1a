#include "client/nvtx/nvtx_chain_handlers.h"

#include <cstring>
#include <type_traits>

#include "client/record/handle_map.h"
#include "wire/foreign/nvtx_payload.h"

namespace lockstep::client {

constinit ChainedFunctions<foreign::nvtx::kCoreSlots> g_core;
constinit ChainedFunctions<foreign::nvtx::kCore2Slots> g_core2;
constinit ChainedFunctions<kPayloadSlots> g_payload;

namespace {

namespace nvtx = foreign::nvtx;
using nvtx::Core;
using nvtx::Core2;
using nvtx::Payload;

// Maps from the chained tool's handles to ours. They have the sizes of NvtxSource's tables; further handles
// have no name, as there.
constinit HandleMap<512> g_domains;
constinit HandleMap<8192> g_strings;
constinit HandleMap<512> g_ranges;

template <typename Handle>
uint64_t Bits(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<uintptr_t>(handle);
  } else {
    return handle;
  }
}

// Returns our domain for the application's handle. That handle is the chained tool's if the chained tool
// issued one.
void* OurDomain(void* domain) {
  const uint64_t ours = g_domains.Get(Bits(domain));
  return ours != 0 ? reinterpret_cast<void*>(ours) : domain;
}

// The attributes with our handle in place of the chained tool's.
class OurAttributes {
 public:
  explicit OurAttributes(const nvtx::EventAttributes* given) : given_(given) {
    if (given == nullptr || given->size < sizeof copy_ ||
        given->message_type != nvtx::MessageType::kRegistered)
      return;
    const uint64_t ours = g_strings.Get(Bits(given->message.registered));
    if (ours == 0) return;
    std::memcpy(&copy_, given, sizeof copy_);
    copy_.message.registered = reinterpret_cast<void*>(ours);
    given_ = &copy_;
  }
  const nvtx::EventAttributes* get() const { return given_; }

 private:
  nvtx::EventAttributes copy_;
  const nvtx::EventAttributes* given_;
};

inline void* Translate(void* domain) { return OurDomain(domain); }
template <typename T>
T Translate(T value) {
  return value;
}

// Calls both with the same arguments, and translates the domain for ours. The chained tool's result counts.
template <auto& table, auto slot, typename Fn>
struct Both;
template <auto& table, auto slot, typename Result, typename... Args>
struct Both<table, slot, Result (*)(Args...)> {
  using Fn = Result (*)(Args...);
  static constexpr auto kIndex = static_cast<uint32_t>(slot);
  static Fn Chained() { return reinterpret_cast<Fn>(table.chained[kIndex].load(std::memory_order_relaxed)); }
  static Fn Ours() { return reinterpret_cast<Fn>(table.ours[kIndex].load(std::memory_order_relaxed)); }

  // Returns nothing or 0 if the chained tool has no handler.
  static Result CallChained(Args... args) {
    const Fn chained = Chained();
    if constexpr (std::is_void_v<Result>) {
      if (chained != nullptr) chained(args...);
    } else {
      return chained != nullptr ? chained(args...) : Result{};
    }
  }

  static Result Call(Args... args) {
    if (Chained() == nullptr) return Ours()(Translate(args)...);
    if constexpr (std::is_void_v<Result>) {
      Chained()(args...);
      Ours()(Translate(args)...);
    } else {
      const Result result = Chained()(args...);
      Ours()(Translate(args)...);
      return result;
    }
  }
  // For functions whose last argument is the attributes.
  template <typename... Front>
  static Result CallWithAttributes(Front... front, const nvtx::EventAttributes* a) {
    const OurAttributes ours(a);
    if (Chained() == nullptr) return Ours()(Translate(front)..., ours.get());
    if constexpr (std::is_void_v<Result>) {
      Chained()(front..., a);
      Ours()(Translate(front)..., ours.get());
    } else {
      const Result result = Chained()(front..., a);
      Ours()(Translate(front)..., ours.get());
      return result;
    }
  }
};

// Returns the range id for the application: the chained tool's, through which ours is found, or ours if that
// tool has none.
nvtx::RangeId Remember(nvtx::RangeId chained, nvtx::RangeId ours) {
  if (chained == 0) return ours;
  if (ours != 0) g_ranges.Put(chained, ours);
  return chained;
}
nvtx::RangeId OurRange(nvtx::RangeId id) {
  const uint64_t ours = g_ranges.Take(id);
  return ours != 0 ? ours : id;
}

// ---- handlers for slots that need more than Both::Call ----

template <auto slot, typename Fn, auto& table = g_core>
using Of = Both<table, slot, Fn>;

void MarkEx(const nvtx::EventAttributes* a) { Of<Core::kMarkEx, nvtx::MarkExFn>::CallWithAttributes<>(a); }
int RangePushEx(const nvtx::EventAttributes* a) {
  return Of<Core::kRangePushEx, nvtx::RangePushExFn>::CallWithAttributes<>(a);
}
nvtx::RangeId RangeStartEx(const nvtx::EventAttributes* a) {
  using B = Of<Core::kRangeStartEx, nvtx::RangeStartExFn>;
  const OurAttributes ours(a);
  const nvtx::RangeId chained = B::CallChained(a);
  return Remember(chained, B::Ours()(ours.get()));
}
nvtx::RangeId RangeStartA(const char* text) {
  using B = Of<Core::kRangeStartA, nvtx::RangeStartAFn>;
  const nvtx::RangeId chained = B::CallChained(text);
  return Remember(chained, B::Ours()(text));
}
nvtx::RangeId RangeStartW(const wchar_t* text) {
  using B = Of<Core::kRangeStartW, nvtx::RangeStartWFn>;
  const nvtx::RangeId chained = B::CallChained(text);
  return Remember(chained, B::Ours()(text));
}
void RangeEnd(nvtx::RangeId id) {
  using B = Of<Core::kRangeEnd, nvtx::RangeEndFn>;
  B::CallChained(id);
  B::Ours()(OurRange(id));
}
void DomainMarkEx(void* d, const nvtx::EventAttributes* a) {
  Of<Core2::kDomainMarkEx, nvtx::DomainMarkExFn, g_core2>::CallWithAttributes<void*>(d, a);
}
int DomainRangePushEx(void* d, const nvtx::EventAttributes* a) {
  return Of<Core2::kDomainRangePushEx, nvtx::DomainRangePushExFn, g_core2>::CallWithAttributes<void*>(d, a);
}
nvtx::RangeId DomainRangeStartEx(void* d, const nvtx::EventAttributes* a) {
  using B = Of<Core2::kDomainRangeStartEx, nvtx::DomainRangeStartExFn, g_core2>;
  const OurAttributes ours(a);
  const nvtx::RangeId chained = B::CallChained(d, a);
  return Remember(chained, B::Ours()(OurDomain(d), ours.get()));
}
void DomainRangeEnd(void* d, nvtx::RangeId id) {
  using B = Of<Core2::kDomainRangeEnd, nvtx::DomainRangeEndFn, g_core2>;
  B::CallChained(d, id);
  B::Ours()(OurDomain(d), OurRange(id));
}

template <auto slot, typename Char>
void* DomainCreate(const Char* name) {
  using B = Of<slot, void* (*)(const Char*), g_core2>;
  void* chained = B::CallChained(name);
  void* ours = B::Ours()(name);
  if (chained == nullptr) return ours;
  g_domains.Put(Bits(chained), Bits(ours));
  return chained;
}
template <auto slot, typename Char>
void* RegisterString(void* d, const Char* text) {
  using B = Of<slot, void* (*)(void*, const Char*), g_core2>;
  void* chained = B::CallChained(d, text);
  void* ours = B::Ours()(OurDomain(d), text);
  if (chained == nullptr) return ours;
  g_strings.Put(Bits(chained), Bits(ours));
  return chained;
}

// Ours registers the schema under the id that the application will use, which is the chained tool's.
uint64_t SchemaRegister(void* d, const nvtx::SchemaAttributes* a) {
  using B = Of<Payload::kSchemaRegister, nvtx::SchemaRegisterFn, g_payload>;
  const uint64_t chained = B::CallChained(d, a);
  if (a == nullptr || chained == 0) {
    const uint64_t ours = B::Ours()(OurDomain(d), a);
    return chained != 0 ? chained : ours;
  }
  nvtx::SchemaAttributes same = *a;
  same.id = chained;
  same.mask |= nvtx::kSchemaHasId;
  B::Ours()(OurDomain(d), &same);
  return chained;
}
uint64_t EnumRegister(void* d, const nvtx::EnumAttributes* a) {
  using B = Of<Payload::kEnumRegister, nvtx::EnumRegisterFn, g_payload>;
  const uint64_t chained = B::CallChained(d, a);
  if (a == nullptr || chained == 0) {
    const uint64_t ours = B::Ours()(OurDomain(d), a);
    return chained != 0 ? chained : ours;
  }
  nvtx::EnumAttributes same = *a;
  same.id = chained;
  same.mask |= nvtx::kEnumHasId;
  B::Ours()(OurDomain(d), &same);
  return chained;
}
nvtx::RangeId RangeStartPayload(void* d, const nvtx::PayloadData* p, size_t n) {
  using B = Of<Payload::kRangeStart, nvtx::RangeStartPayloadFn, g_payload>;
  const nvtx::RangeId chained = B::CallChained(d, p, n);
  return Remember(chained, B::Ours()(OurDomain(d), p, n));
}
void RangeEndPayload(void* d, nvtx::RangeId id, const nvtx::PayloadData* p, size_t n) {
  using B = Of<Payload::kRangeEnd, nvtx::RangeEndPayloadFn, g_payload>;
  B::CallChained(d, id, p, n);
  B::Ours()(OurDomain(d), OurRange(id), p, n);
}
// The domain is enabled if either of the two wants it.
uint8_t DomainIsEnabled(void* d) {
  using B = Of<Payload::kDomainIsEnabled, nvtx::DomainIsEnabledFn, g_payload>;
  const uint8_t chained = B::CallChained(d);
  return B::Ours()(OurDomain(d)) != 0 ? 1 : chained;
}

template <typename Fn>
nvtx::FunctionPointer P(Fn* handler) {
  return reinterpret_cast<nvtx::FunctionPointer>(handler);
}

}  // namespace

nvtx::FunctionPointer ChainedCore(uint32_t slot) {
  switch (static_cast<Core>(slot)) {
    case Core::kMarkEx:
      return P(MarkEx);
    case Core::kMarkA:
      return P(Of<Core::kMarkA, nvtx::MarkAFn>::Call);
    case Core::kMarkW:
      return P(Of<Core::kMarkW, nvtx::MarkWFn>::Call);
    case Core::kRangeStartEx:
      return P(RangeStartEx);
    case Core::kRangeStartA:
      return P(RangeStartA);
    case Core::kRangeStartW:
      return P(RangeStartW);
    case Core::kRangeEnd:
      return P(RangeEnd);
    case Core::kRangePushEx:
      return P(RangePushEx);
    case Core::kRangePushA:
      return P(Of<Core::kRangePushA, nvtx::RangePushAFn>::Call);
    case Core::kRangePushW:
      return P(Of<Core::kRangePushW, nvtx::RangePushWFn>::Call);
    case Core::kRangePop:
      return P(Of<Core::kRangePop, nvtx::RangePopFn>::Call);
    case Core::kNameOsThreadA:
      return P(Of<Core::kNameOsThreadA, nvtx::NameOsThreadAFn>::Call);
    case Core::kNameOsThreadW:
      return P(Of<Core::kNameOsThreadW, void (*)(uint32_t, const wchar_t*)>::Call);
    default:
      return nullptr;
  }
}

nvtx::FunctionPointer ChainedCore2(uint32_t slot) {
  switch (static_cast<Core2>(slot)) {
    case Core2::kDomainMarkEx:
      return P(DomainMarkEx);
    case Core2::kDomainRangeStartEx:
      return P(DomainRangeStartEx);
    case Core2::kDomainRangeEnd:
      return P(DomainRangeEnd);
    case Core2::kDomainRangePushEx:
      return P(DomainRangePushEx);
    case Core2::kDomainRangePop:
      return P(Of<Core2::kDomainRangePop, nvtx::DomainRangePopFn, g_core2>::Call);
    case Core2::kDomainCreateA:
      return P(DomainCreate<Core2::kDomainCreateA, char>);
    case Core2::kDomainCreateW:
      return P(DomainCreate<Core2::kDomainCreateW, wchar_t>);
    case Core2::kDomainRegisterStringA:
      return P(RegisterString<Core2::kDomainRegisterStringA, char>);
    case Core2::kDomainRegisterStringW:
      return P(RegisterString<Core2::kDomainRegisterStringW, wchar_t>);
    default:
      return nullptr;
  }
}

nvtx::FunctionPointer ChainedPayload(uint32_t slot) {
  switch (static_cast<Payload>(slot)) {
    case Payload::kSchemaRegister:
      return P(SchemaRegister);
    case Payload::kEnumRegister:
      return P(EnumRegister);
    case Payload::kMark:
      return P(Of<Payload::kMark, nvtx::MarkPayloadFn, g_payload>::Call);
    case Payload::kRangePush:
      return P(Of<Payload::kRangePush, nvtx::RangePushPayloadFn, g_payload>::Call);
    case Payload::kRangePop:
      return P(Of<Payload::kRangePop, nvtx::RangePopPayloadFn, g_payload>::Call);
    case Payload::kRangeStart:
      return P(RangeStartPayload);
    case Payload::kRangeEnd:
      return P(RangeEndPayload);
    case Payload::kDomainIsEnabled:
      return P(DomainIsEnabled);
  }
  return nullptr;
}

}  // namespace lockstep::client
