#include "formats/nsys/nsys_payload.h"

#include <cstring>
#include <limits>
#include <set>

namespace lockstep::formats {
namespace {

constexpr size_t kHeaderBytes = 32;
constexpr size_t kSchemaAt = 8;
constexpr int64_t kMostPayloadBytes = 64 << 10;
constexpr size_t kMostSchemas = 4096;

struct TypeOf {
  uint8_t size = 0;
  bool is_signed = false;
};

// Returns size and sign of NVTX's plain integer types, on 64-bit Linux.
TypeOf PlainType(int64_t type) {
  switch (type) {
    case 3:
      return {2, true};  // short
    case 4:
      return {2, false};
    case 5:
      return {4, true};  // int
    case 6:
      return {4, false};
    case 7:
      return {8, true};  // long
    case 8:
      return {8, false};
    case 9:
      return {8, true};  // long long
    case 10:
      return {8, false};
    case 13:
      return {2, true};  // 13 to 18: integers of stated width
    case 14:
      return {2, false};
    case 15:
      return {4, true};
    case 16:
      return {4, false};
    case 17:
      return {8, true};
    case 18:
      return {8, false};
    case 22:
      return {8, false};  // size_t
    default:
      return {};
  }
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

NsysPayloads::Field NsysPayloads::FieldOf(std::string_view name) {
  constexpr std::string_view kNames[kFields] = {"NCCL communicator ID",
                                                "Message size [bytes]",
                                                "Reduction operation",
                                                "Root",
                                                "Peer rank",
                                                "No. of ranks",
                                                "Rank"};
  for (uint8_t field = 0; field < kFields; ++field) {
    if (name == kNames[field]) return static_cast<Field>(field);
  }
  return kFields;
}

NsysPayloads::NsysPayloads(const SqliteDatabase& database, TableLosses& losses) {
  constexpr const char* kEntries[] = {"domainId", "schemaId", "type", "name", "offset"};
  std::set<int64_t> reduction_enums;
  TableScan entries(database, "NVTX_PAYLOAD_SCHEMA_ENTRIES", kEntries, 4, losses);
  while (entries.Next()) {
    const Field field = FieldOf(entries.Text(3));
    const auto domain = entries.IntegerOr<int64_t>(0, 0);
    const auto id = entries.IntegerOr<int64_t>(1, 0);
    const auto type = entries.IntegerOr<int64_t>(2, 0);
    const auto offset = entries.IntegerOr<int64_t>(4, 0);
    if (!entries.Usable() || field == kFields || offset < 0 || offset > kMostPayloadBytes ||
        schemas_.size() >= kMostSchemas)
      continue;
    TypeOf plain = PlainType(type);
    // A type that is not plain is an enumeration of the application. NCCL's enumerations are ints.
    if (field == kReduction && plain.size == 0) {
      plain = {4, true};
      reduction_enums.insert(type);
    }
    if (plain.size != 0)
      schemas_[{domain, id}][field] = {static_cast<uint32_t>(offset), plain.size, plain.is_signed};
  }
  constexpr const char* kEnums[] = {"schemaId", "name", "value"};
  TableScan enums(database, "NVTX_PAYLOAD_ENUM_ENTRIES", kEnums, 3, losses);
  while (enums.Next()) {
    const auto id = enums.IntegerOr<int64_t>(0, 0);
    const std::string name(enums.Text(1));
    const auto value = enums.IntegerOr<int64_t>(2, 0);
    if (enums.Usable() && reduction_enums.contains(id) && reductions_.size() < kMostSchemas)
      reductions_.try_emplace(value, name);
  }
}

std::optional<NcclPayload> NsysPayloads::Read(std::string_view bytes) const {
  if (bytes.size() < kHeaderBytes) return std::nullopt;
  const auto domain = static_cast<int64_t>(LittleEndian(bytes.substr(0, 4)));
  const auto id = static_cast<int64_t>(LittleEndian(bytes.substr(kSchemaAt, 4)));
  const auto found = schemas_.find({domain, id});
  if (found == schemas_.end()) return std::nullopt;
  const std::string_view payload = bytes.substr(kHeaderBytes);
  const auto value = [&](Field field) -> std::optional<int64_t> {
    const Place& place = found->second[field];
    if (place.size == 0 || place.offset + place.size > payload.size()) return std::nullopt;
    const uint64_t raw = LittleEndian(payload.substr(place.offset, place.size));
    return place.size == 4 && place.is_signed ? static_cast<int32_t>(raw) : static_cast<int64_t>(raw);
  };
  const auto small = [&](Field field) -> std::optional<int32_t> {
    const std::optional<int64_t> v = value(field);
    if (!v || *v < 0 || *v > std::numeric_limits<int32_t>::max()) return std::nullopt;
    return static_cast<int32_t>(*v);
  };
  NcclPayload out;
  if (const auto communicator = value(kCommunicator)) out.communicator = static_cast<uint64_t>(*communicator);
  if (const auto size = value(kBytes); size && *size >= 0) out.bytes = *size;
  out.reduction = value(kReduction);
  out.root = small(kRoot);
  out.peer = small(kPeer);
  out.ranks = small(kRanks);
  out.rank = small(kRank);
  return out;
}

}  // namespace lockstep::formats
