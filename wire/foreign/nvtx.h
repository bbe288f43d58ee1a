// Our declarations of the ABI between NVTX and the tool in NVTX_INJECTION64_PATH. NVTX's headers are compiled
// into the application and into libraries such as libtorch and libnccl. Where the CUDA toolkit is installed,
// tests/abi/nvtx_headers_test.cc compares the declarations with the real headers.
//
// Every library that uses NVTX initialises separately at its first NVTX call, so InitializeInjectionNvtx2 is
// called once per library, on any thread. It must return 1, or that library's NVTX calls never do anything.
#ifndef LOCKSTEP_WIRE_FOREIGN_NVTX_H_
#define LOCKSTEP_WIRE_FOREIGN_NVTX_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::foreign::nvtx {

enum class ExportTable : uint32_t { kCallbacks = 1, kVersionInfo = 3 };

enum class Module : uint32_t { kCore = 1, kCuda = 2, kOpenCl = 3, kCudaRuntime = 4, kCore2 = 5, kSync = 6 };

// Slots of Module::kCore, for calls without a domain. A: char text, W: wchar_t text, Ex: EventAttributes.
enum class Core : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameCategoryA = 12,
  kNameCategoryW = 13,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
};
inline constexpr uint32_t kCoreSlots = 16;

// Slots of Module::kCore2, for calls with a domain.
enum class Core2 : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainResourceCreate = 6,
  kDomainResourceDestroy = 7,
  kDomainNameCategoryA = 8,
  kDomainNameCategoryW = 9,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
  kInitialize = 15,
};
inline constexpr uint32_t kCore2Slots = 16;

enum class MessageType : int32_t { kUnknown = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };
enum class PayloadType : int32_t {
  kUnknown = 0,
  kUint64 = 1,
  kInt64 = 2,
  kDouble = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat = 6,
  // In the payload extension, `payload.u64` points to EventAttributes::payload_count PayloadData.
  kExtended = static_cast<int32_t>(0xDFBD0009u),
};

// Values that the tool returned when the object was made. The application only passes them back.
using DomainHandle = void*;
using StringHandle = void*;
using RangeId = uint64_t;

struct EventAttributes {
  uint16_t version;
  uint16_t size;  // of this struct when the call was compiled; later fields do not exist
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  PayloadType payload_type;
  int32_t payload_count;  // NVTX names it "reserved0"
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    uint32_t u32;
    int32_t i32;
    float f32;
  } payload;
  MessageType message_type;
  union {
    const char* ascii;
    const wchar_t* unicode;
    StringHandle registered;
  } message;
};
static_assert(sizeof(EventAttributes) == 48);
static_assert(offsetof(EventAttributes, payload) == 24 && offsetof(EventAttributes, message) == 40);

// The result of push and pop if the depth is unknown (any negative value has this meaning).
inline constexpr int32_t kNoPushPopTracking = -2;

using FunctionPointer = void (*)();
// An array of pointers to the slots: *table[id] = handler.
using FunctionTable = FunctionPointer**;

struct ExportTableCallbacks {
  size_t struct_size;
  int (*get_module_function_table)(Module, FunctionTable* table, uint32_t* slots);
};
static_assert(sizeof(ExportTableCallbacks) == 16);

struct ExportTableVersionInfo {
  size_t struct_size;
  uint32_t version;
  uint32_t reserved0;
  void (*set_injection_nvtx_version)(uint32_t version);
};
static_assert(sizeof(ExportTableVersionInfo) == 24);

using GetExportTableFn = const void* (*)(ExportTable);
// The tool exports it as InitializeInjectionNvtx2.
using InitializeInjectionNvtx2Fn = int (*)(GetExportTableFn);

// Types of the handlers, by slot.
using MarkExFn = void (*)(const EventAttributes*);
using MarkAFn = void (*)(const char*);
using MarkWFn = void (*)(const wchar_t*);
using RangeStartExFn = RangeId (*)(const EventAttributes*);
using RangeStartAFn = RangeId (*)(const char*);
using RangeStartWFn = RangeId (*)(const wchar_t*);
using RangeEndFn = void (*)(RangeId);
using RangePushExFn = int (*)(const EventAttributes*);
using RangePushAFn = int (*)(const char*);
using RangePushWFn = int (*)(const wchar_t*);
using RangePopFn = int (*)();
using DomainMarkExFn = void (*)(DomainHandle, const EventAttributes*);
using DomainRangeStartExFn = RangeId (*)(DomainHandle, const EventAttributes*);
using DomainRangeEndFn = void (*)(DomainHandle, RangeId);
using DomainRangePushExFn = int (*)(DomainHandle, const EventAttributes*);
using DomainRangePopFn = int (*)(DomainHandle);
using DomainRegisterStringAFn = StringHandle (*)(DomainHandle, const char*);
using DomainRegisterStringWFn = StringHandle (*)(DomainHandle, const wchar_t*);
using DomainCreateAFn = DomainHandle (*)(const char*);
using DomainCreateWFn = DomainHandle (*)(const wchar_t*);
using DomainDestroyFn = void (*)(DomainHandle);
using NameOsThreadAFn = void (*)(uint32_t thread, const char*);

// ---- payload extension (module 2) ----

inline constexpr uint16_t kPayloadModuleId = 2;

enum class Payload : uint32_t {
  kSchemaRegister = 0,
  kEnumRegister = 1,
  kMark = 2,
  kRangePush = 3,
  kRangePop = 4,
  kRangeStart = 5,
  kRangeEnd = 6,
  kDomainIsEnabled = 7,
};

struct PayloadData {
  uint64_t schema_id;
  size_t size;  // SIZE_MAX: unknown
  const void* payload;
};
static_assert(sizeof(PayloadData) == 24);

struct ExtensionSegment {
  size_t segment_id;
  size_t slot_count;
  intptr_t* function_slots;
};
static_assert(sizeof(ExtensionSegment) == 24);

struct ExtensionInfo {
  uint16_t nvtx_version;
  uint16_t struct_size;
  uint16_t module_id;
  uint16_t compat_id;
  size_t segment_count;
  ExtensionSegment* segments;
  intptr_t (*get_export_function)(uint32_t id);
  const void* extension_info;
};
static_assert(sizeof(ExtensionInfo) == 40);

// The tool exports it as InitializeInjectionNvtxExtension.
using InitializeInjectionNvtxExtensionFn = int (*)(ExtensionInfo*);
// Handlers of the extension's ranges. They receive `count` payloads; the message is in a payload with a
// schema.
using RangePushPayloadFn = int (*)(DomainHandle, const PayloadData*, size_t count);
using RangePopPayloadFn = int (*)(DomainHandle, const PayloadData*, size_t count);

}  // namespace lockstep::foreign::nvtx

#endif  // LOCKSTEP_WIRE_FOREIGN_NVTX_H_
