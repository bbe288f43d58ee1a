// NVTX payloads as an nsys export stores them: schemas in tables, values in bytes. Only NCCL's fields are
// read.
//
// Layout of NVTX_EVENTS.binaryData (nsys export --include-blobs=true), little-endian: u32 domain, u32 -, u32
// schema, u32 -, u64 bytes of the payload, u64 bytes of all, payload.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_NSYS_PAYLOAD_H_
#define LOCKSTEP_AGGREGATOR_TRACE_NSYS_PAYLOAD_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "formats/nsys/table_scan.h"

namespace lockstep::trace {

struct NcclPayload {
  std::optional<uint64_t> communicator;
  std::optional<int64_t> bytes;  // message size
  std::optional<int64_t> reduction;
  std::optional<int32_t> root, peer, ranks, rank;
};

class NsysPayloads {
 public:
  NsysPayloads(const SqliteDatabase& database, TableLosses& losses);

  // nullopt: none of NCCL's, or bytes that its schema does not fit.
  std::optional<NcclPayload> Read(std::string_view bytes) const;
  // Names of NcclPayload::reduction's values: "Sum", …; empty where no enumeration says them.
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

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_NSYS_PAYLOAD_H_
