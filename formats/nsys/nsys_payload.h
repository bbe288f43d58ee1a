// Reads NCCL's NVTX payloads in an nsys export: the schemas are in tables, the values in bytes. Other
// payloads are ignored.
//
// Layout of NVTX_EVENTS.binaryData (nsys export --include-blobs=true), little-endian: u32 domain, u32 unused,
// u32 schema, u32 unused, u64 size of the payload in bytes, u64 total size in bytes, payload.
#ifndef LOCKSTEP_FORMATS_NSYS_NSYS_PAYLOAD_H_
#define LOCKSTEP_FORMATS_NSYS_NSYS_PAYLOAD_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "formats/nsys/table_scan.h"

namespace lockstep::formats {

struct NcclPayload {
  std::optional<uint64_t> communicator;
  std::optional<int64_t> bytes;  // message size
  std::optional<int64_t> reduction;
  std::optional<int32_t> root, peer, ranks, rank;
};

class NsysPayloads {
 public:
  NsysPayloads(const SqliteDatabase& database, TableLosses& losses);

  // nullopt: the payload is not NCCL's, or the bytes do not fit its schema.
  std::optional<NcclPayload> Read(std::string_view bytes) const;
  // Names of the values of NcclPayload::reduction ("Sum", …). Empty: the export has no such enumeration.
  const std::map<int64_t, std::string>& reductions() const { return reductions_; }

 private:
  enum Field : uint8_t { kCommunicator, kBytes, kReduction, kRoot, kPeer, kRanks, kRank, kFields };
  struct Place {
    uint32_t offset = 0;
    uint8_t size = 0;  // 0: not in this schema
    bool is_signed = false;
  };
  using Schema = std::array<Place, kFields>;
  static Field FieldOf(std::string_view name);

  std::map<std::pair<int64_t, int64_t>, Schema> schemas_;  // by domain and id
  std::map<int64_t, std::string> reductions_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_NSYS_NSYS_PAYLOAD_H_
