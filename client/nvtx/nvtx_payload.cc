#include "client/nvtx/nvtx_payload.h"

#include <cstring>

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;

constexpr uint64_t kFilling = 1;

struct TypeShape {
  uint8_t bytes;  // 0: unknown
  bool whole_number;
  bool is_signed;
};

TypeShape ShapeOf(uint64_t type) {
  switch (type) {
    case nvtx::kEntryChar:
    case nvtx::kEntryInt8:
      return {1, true, true};
    case nvtx::kEntryUchar:
    case nvtx::kEntryUint8:
      return {1, true, false};
    case nvtx::kEntryChar8:
    case nvtx::kEntryByte:
      return {1, false, false};
    case nvtx::kEntryShort:
    case nvtx::kEntryInt16:
      return {2, true, true};
    case nvtx::kEntryUshort:
    case nvtx::kEntryUint16:
      return {2, true, false};
    case nvtx::kEntryChar16:
    case nvtx::kEntryFloat16:
      return {2, false, false};
    case nvtx::kEntryInt:
    case nvtx::kEntryInt32:
      return {4, true, true};
    case nvtx::kEntryUint:
    case nvtx::kEntryUint32:
    case nvtx::kEntryCategory:
    case nvtx::kEntryPid32:
    case nvtx::kEntryTid32:
      return {4, true, false};
    case nvtx::kEntryFloat:
    case nvtx::kEntryFloat32:
    case nvtx::kEntryWchar:
    case nvtx::kEntryChar32:
    case nvtx::kEntryColor:
      return {4, false, false};
    case nvtx::kEntryLong:
    case nvtx::kEntryLongLong:
    case nvtx::kEntryInt64:
      return {8, true, true};
    case nvtx::kEntryUlong:
    case nvtx::kEntryUlongLong:
    case nvtx::kEntryUint64:
    case nvtx::kEntrySize:
    case nvtx::kEntryScopeId:
    case nvtx::kEntryPid64:
    case nvtx::kEntryTid64:
      return {8, true, false};
    case nvtx::kEntryDouble:
    case nvtx::kEntryFloat64:
    case nvtx::kEntryAddress:
    case nvtx::kEntryCstring:
    case nvtx::kEntryCstringUtf8:
    case nvtx::kEntryRegisteredString:
      return {8, false, false};
    case nvtx::kEntryLongDouble:
      return {16, false, false};
    default:
      return {0, false, false};
  }
}

struct NamedField {
  const char* name;
  NvtxPayload::Field field;
};
constexpr NamedField kNames[] = {{"NCCL communicator ID", NvtxPayload::kCommunicator},
                                 {"Message size [bytes]", NvtxPayload::kBytes},
                                 {"Reduction operation", NvtxPayload::kReduction},
                                 {"Root", NvtxPayload::kRoot},
                                 {"Peer rank", NvtxPayload::kPeer},
                                 {"No. of ranks", NvtxPayload::kRanks},
                                 {"Rank", NvtxPayload::kRank},
                                 {"CUDA device", NvtxPayload::kDevice},
                                 {"Parent NCCL communicator ID", NvtxPayload::kParent}};

int FieldNamed(const char* name) {
  if (name == nullptr) return -1;
  for (const NamedField& known : kNames) {
    if (std::strcmp(name, known.name) == 0) return known.field;
  }
  return -1;
}

bool GivesOffsets(const nvtx::SchemaAttributes& attributes) {
  for (size_t i = 1; i < attributes.entry_count; ++i) {
    if (attributes.entries[i].offset != 0) return true;
  }
  return attributes.entry_count <= 1;
}

int64_t ReadNumber(const std::byte* from, uint8_t bytes, bool is_signed) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  const unsigned spare = 64 - 8 * bytes;
  return is_signed ? static_cast<int64_t>(value << spare) >> spare : static_cast<int64_t>(value);
}

}  // namespace

uint64_t NvtxSchemas::KeyOf(const void* domain, uint64_t id) {
  const uint64_t mixed = (reinterpret_cast<uintptr_t>(domain) ^ id << 20) * 0x9E3779B97F4A7C15ull ^ id;
  return mixed > kFilling ? mixed : mixed + 2;
}

bool NvtxSchemas::Compile(const nvtx::SchemaAttributes& attributes, Schema& schema) {
  const bool offsets = GivesOffsets(attributes);
  const size_t limit =
      (attributes.mask & nvtx::kSchemaHasSize) != 0 && attributes.bytes != 0 ? attributes.bytes : kMostBytes;
  if (limit > kMostBytes) return false;
  if ((attributes.mask & nvtx::kSchemaHasSize) != 0) schema.bytes = static_cast<uint32_t>(attributes.bytes);
  uint64_t next = 0;
  for (size_t i = 0; i < attributes.entry_count; ++i) {
    const nvtx::SchemaEntry& entry = attributes.entries[i];
    const bool pointer = (entry.flags & nvtx::kEntryPointer) != 0;
    const uint64_t array = entry.flags & nvtx::kEntryArrayKind;
    const int field = FieldNamed(entry.name);
    TypeShape shape = ShapeOf(entry.type);
    // The size of another schema or an enumeration is unknown, except for the reduction's.
    if (entry.type >= nvtx::kFirstStaticSchema && field == NvtxPayload::kReduction) shape = {4, true, true};
    if (pointer) shape = {8, false, false};
    // The array's length is in the payload, so the position of later fields is unknown.
    const bool unknown_size = shape.bytes == 0 || (array > nvtx::kEntryArrayFixed && !pointer);
    if (unknown_size && !offsets) return true;
    if (unknown_size) continue;
    const uint64_t aligned = (next + shape.bytes - 1) & ~uint64_t{shape.bytes - 1u};
    const uint64_t offset = offsets ? entry.offset : aligned;
    const uint64_t elements = array == nvtx::kEntryArrayFixed && !pointer ? entry.array_length : 1;
    if (offset > limit || elements > limit || elements * shape.bytes > limit - offset) return false;
    next = offset + elements * shape.bytes;
    const Place place{static_cast<uint16_t>(offset), shape.bytes, shape.is_signed};
    const bool text = entry.type == nvtx::kEntryCstring || entry.type == nvtx::kEntryCstringUtf8;
    if ((entry.flags & nvtx::kEntryMessage) != 0 && text && array == 0) schema.message = place;
    if (!shape.whole_number || pointer || array != 0) continue;
    if (field >= 0) schema.places[field] = place;
    if (field == NvtxPayload::kReduction) schema.reduction_enum = entry.type;
    if (schema.places[NvtxPayload::kFirstNumber].bytes == 0) schema.places[NvtxPayload::kFirstNumber] = place;
  }
  return true;
}

uint64_t NvtxSchemas::Register(const void* domain, const nvtx::SchemaAttributes* attributes) {
  constexpr uint64_t kNeeded = nvtx::kSchemaHasEntries | nvtx::kSchemaHasEntryCount;
  if (attributes == nullptr || (attributes->mask & kNeeded) != kNeeded || attributes->entries == nullptr ||
      attributes->entry_count == 0 || attributes->entry_count > kMostEntries) {
    return 0;
  }
  const auto type =
      (attributes->mask & nvtx::kSchemaHasType) != 0 ? attributes->type : nvtx::SchemaType::kStatic;
  if (type != nvtx::SchemaType::kStatic && type != nvtx::SchemaType::kDynamic) return 0;
  uint64_t id = (attributes->mask & nvtx::kSchemaHasId) != 0 ? attributes->id : 0;
  if (id == 0) id = next_id_.fetch_add(1, std::memory_order_relaxed);
  if (id < nvtx::kFirstStaticSchema) return 0;
  Schema compiled;
  if (!Compile(*attributes, compiled)) return 0;
  compiled.reduction_enum = compiled.reduction_enum != 0 ? KeyOf(domain, compiled.reduction_enum) : 0;
  const uint64_t key = KeyOf(domain, id);
  for (uint32_t probe = 0; probe < kSchemas; ++probe) {
    Schema& place = schemas_[(key + probe) & (kSchemas - 1)];
    uint64_t there = place.key.load(std::memory_order_acquire);
    // Libraries register the same schema at each place where they use it.
    if (there == key) return id;
    if (there != 0 || !place.key.compare_exchange_strong(there, kFilling)) continue;
    place.reduction_enum = compiled.reduction_enum;
    place.bytes = compiled.bytes;
    place.message = compiled.message;
    std::memcpy(place.places, compiled.places, sizeof place.places);
    place.key.store(key, std::memory_order_release);
    return id;
  }
  return 0;
}

uint64_t NvtxSchemas::RegisterEnum(const void* domain, const nvtx::EnumAttributes* attributes) {
  constexpr uint64_t kNeeded = nvtx::kEnumHasEntries | nvtx::kEnumHasEntryCount;
  if (attributes == nullptr || (attributes->mask & kNeeded) != kNeeded || attributes->entries == nullptr ||
      attributes->entry_count > kMostEntries) {
    return 0;
  }
  uint64_t id = (attributes->mask & nvtx::kEnumHasId) != 0 ? attributes->id : 0;
  if (id == 0) id = next_id_.fetch_add(1, std::memory_order_relaxed);
  if (id < nvtx::kFirstStaticSchema) return 0;
  const uint64_t key = KeyOf(domain, id);
  for (uint32_t probe = 0; probe < kEnums; ++probe) {
    Enum& place = enums_[(key + probe) & (kEnums - 1)];
    uint64_t there = place.key.load(std::memory_order_acquire);
    if (there == key) return id;
    if (there != 0 || !place.key.compare_exchange_strong(there, kFilling)) continue;
    for (size_t i = 0; i < attributes->entry_count && place.entries < kEnumEntries; ++i) {
      if (attributes->entries[i].name == nullptr) continue;
      place.values[place.entries] = attributes->entries[i].value;
      const size_t length = std::strlen(attributes->entries[i].name);
      std::memcpy(place.names[place.entries], attributes->entries[i].name,
                  length < kEnumName - 1 ? length : kEnumName - 1);
      ++place.entries;
    }
    place.key.store(key, std::memory_order_release);
    return id;
  }
  return 0;
}

const NvtxSchemas::Schema* NvtxSchemas::Find(uint64_t key) const {
  for (uint32_t probe = 0; probe < kSchemas; ++probe) {
    const Schema& place = schemas_[(key + probe) & (kSchemas - 1)];
    const uint64_t there = place.key.load(std::memory_order_acquire);
    if (there == key) return &place;
    if (there == 0) return nullptr;
  }
  return nullptr;
}

const char* NvtxSchemas::NameOf(uint64_t key, uint64_t value) const {
  for (uint32_t probe = 0; probe < kEnums; ++probe) {
    const Enum& place = enums_[(key + probe) & (kEnums - 1)];
    const uint64_t there = place.key.load(std::memory_order_acquire);
    if (there == 0) return nullptr;
    if (there != key) continue;
    for (uint32_t i = 0; i < place.entries; ++i) {
      if (place.values[i] == value) return place.names[i];
    }
    return nullptr;
  }
  return nullptr;
}

NvtxPayload NvtxSchemas::Read(const void* domain, const nvtx::PayloadData* payloads, size_t count) const {
  NvtxPayload out;
  if (payloads == nullptr || count > kMostPayloads) return out;
  for (size_t i = 0; i < count; ++i) {
    const nvtx::PayloadData& payload = payloads[i];
    if (payload.payload == nullptr) continue;
    const Schema* schema = Find(KeyOf(domain, payload.schema_id));
    if (schema == nullptr) continue;
    const auto* bytes = static_cast<const std::byte*>(payload.payload);
    // A payload without a length has the length of its schema, if the schema has one.
    constexpr size_t kUnknownSize = ~size_t{0};
    const size_t size = payload.size == kUnknownSize ? schema->bytes : payload.size;
    const auto reaches = [size](const Place& place) {
      return place.bytes != 0 && size >= place.bytes && place.offset <= size - place.bytes;
    };
    for (uint32_t field = 0; field < NvtxPayload::kFields; ++field) {
      const Place& place = schema->places[field];
      if ((out.known >> field & 1) != 0 || !reaches(place)) continue;
      out.known |= 1u << field;
      out.values[field] = ReadNumber(bytes + place.offset, place.bytes, place.is_signed);
      if (field == NvtxPayload::kReduction && schema->reduction_enum != 0)
        out.reduction = NameOf(schema->reduction_enum, static_cast<uint64_t>(out.values[field]));
    }
    if (out.message == nullptr && reaches(schema->message))
      std::memcpy(&out.message, bytes + schema->message.offset, sizeof out.message);
  }
  return out;
}

}  // namespace lockstep::client
