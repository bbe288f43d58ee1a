// Our declarations of NVTX's payload extension: an application describes the bytes that it attaches to ranges
// and marks. Where tests/abi finds the real headers, it compares both. The declarations hold for compatId 259
// (libnccl 2.28) and 260 (CUDA 13.0).
#ifndef LOCKSTEP_WIRE_FOREIGN_NVTX_PAYLOAD_H_
#define LOCKSTEP_WIRE_FOREIGN_NVTX_PAYLOAD_H_

#include <cstddef>
#include <cstdint>

#include "wire/foreign/nvtx.h"

namespace lockstep::foreign::nvtx {

// Types of an entry. Values from kFirstStaticSchema on are ids of registered schemas or enumerations.
enum EntryType : uint64_t {
  kEntryChar = 1,
  kEntryUchar = 2,
  kEntryShort = 3,
  kEntryUshort = 4,
  kEntryInt = 5,
  kEntryUint = 6,
  kEntryLong = 7,
  kEntryUlong = 8,
  kEntryLongLong = 9,
  kEntryUlongLong = 10,
  kEntryInt8 = 11,
  kEntryUint8 = 12,
  kEntryInt16 = 13,
  kEntryUint16 = 14,
  kEntryInt32 = 15,
  kEntryUint32 = 16,
  kEntryInt64 = 17,
  kEntryUint64 = 18,
  kEntryFloat = 19,
  kEntryDouble = 20,
  kEntryLongDouble = 21,
  kEntrySize = 22,
  kEntryAddress = 23,
  kEntryWchar = 24,
  kEntryChar8 = 25,
  kEntryChar16 = 26,
  kEntryChar32 = 27,
  kEntryByte = 32,
  kEntryFloat16 = 42,
  kEntryFloat32 = 43,
  kEntryFloat64 = 44,
  kEntryCategory = 68,
  kEntryColor = 69,
  kEntryScopeId = 70,
  kEntryPid32 = 71,
  kEntryPid64 = 72,
  kEntryTid32 = 73,
  kEntryTid64 = 74,
  kEntryCstring = 75,
  kEntryCstringUtf8 = 76,
  kEntryRegisteredString = 80,
};
inline constexpr uint64_t kFirstStaticSchema = uint64_t{1} << 24;
// Ids that the tool assigns begin here.
inline constexpr uint64_t kFirstDynamicSchema = uint64_t{1} << 32;

// Flags of an entry. An entry with kEntryArrayKind or kEntryPointer does not hold a plain value.
inline constexpr uint64_t kEntryPointer = 1u << 1;
inline constexpr uint64_t kEntryArrayKind = 7u << 4;
inline constexpr uint64_t kEntryArrayFixed = 1u << 4;
inline constexpr uint64_t kEntryArrayZeroTerminated = 2u << 4;
inline constexpr uint64_t kEntryMessage = 1u << 10;

struct SchemaEntry {
  uint64_t flags;
  uint64_t type;
  const char* name;
  const char* description;
  uint64_t array_length;
  uint64_t offset;  // 0 after the first entry: natural alignment
  const void* semantics;
  const void* reserved;
};
static_assert(sizeof(SchemaEntry) == 64 && offsetof(SchemaEntry, offset) == 40);

enum class SchemaType : uint64_t { kStatic = 1, kDynamic = 2, kUnion = 3, kUnionWithSelector = 4 };

// Bits of SchemaAttributes::mask: the field is set.
inline constexpr uint64_t kSchemaHasName = 1u << 1;
inline constexpr uint64_t kSchemaHasType = 1u << 2;
inline constexpr uint64_t kSchemaHasEntries = 1u << 4;
inline constexpr uint64_t kSchemaHasEntryCount = 1u << 5;
inline constexpr uint64_t kSchemaHasSize = 1u << 6;
inline constexpr uint64_t kSchemaHasAlignment = 1u << 7;
inline constexpr uint64_t kSchemaHasId = 1u << 8;

struct SchemaAttributes {
  uint64_t mask;
  const char* name;
  SchemaType type;
  uint64_t flags;
  const SchemaEntry* entries;
  size_t entry_count;
  size_t bytes;  // of a payload; 0: unknown
  size_t alignment;
  uint64_t id;  // set by the application, from kFirstStaticSchema on; 0: the tool assigns one
  void* extension;
};
static_assert(sizeof(SchemaAttributes) == 80 && offsetof(SchemaAttributes, id) == 64);

struct EnumEntry {
  const char* name;
  uint64_t value;
  int8_t is_flag;
};
static_assert(sizeof(EnumEntry) == 24);

inline constexpr uint64_t kEnumHasEntries = 1u << 2;
inline constexpr uint64_t kEnumHasEntryCount = 1u << 3;
inline constexpr uint64_t kEnumHasSize = 1u << 4;
inline constexpr uint64_t kEnumHasId = 1u << 5;

struct EnumAttributes {
  uint64_t mask;
  const char* name;
  const EnumEntry* entries;
  size_t entry_count;
  size_t bytes;  // of a value
  uint64_t id;
  void* extension;
};
static_assert(sizeof(EnumAttributes) == 56 && offsetof(EnumAttributes, id) == 40);

// Types of the handlers. They return id 0 if the registration failed.
using SchemaRegisterFn = uint64_t (*)(DomainHandle, const SchemaAttributes*);
using EnumRegisterFn = uint64_t (*)(DomainHandle, const EnumAttributes*);
using MarkPayloadFn = void (*)(DomainHandle, const PayloadData*, size_t count);
using RangeStartPayloadFn = RangeId (*)(DomainHandle, const PayloadData*, size_t count);
using RangeEndPayloadFn = void (*)(DomainHandle, RangeId, const PayloadData*, size_t count);
using DomainIsEnabledFn = uint8_t (*)(DomainHandle);

}  // namespace lockstep::foreign::nvtx

#endif  // LOCKSTEP_WIRE_FOREIGN_NVTX_PAYLOAD_H_
