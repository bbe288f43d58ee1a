// The schemas and enumerations that applications register with NVTX's payload extension. Only the few fields
// that are read are kept, in fixed memory, until the process ends.
//
// All input may be hostile. Counts, offsets and sizes are checked when a schema is registered. A payload is
// read only within both its own length and the schema's.
//
// A schema keeps the fields with NCCL's names below, the first integer, and the entry with the event's
// message. A field without a plain value (an array, a pointer, a nested schema) is skipped if its size is
// known. If it is not, and the entries have no offsets, later fields are not read.
//
// Any thread may call it, without a lock: a schema is valid once its key is visible. Texts in payloads are
// not followed, except the message.
#ifndef LOCKSTEP_CLIENT_NVTX_NVTX_PAYLOAD_H_
#define LOCKSTEP_CLIENT_NVTX_NVTX_PAYLOAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "wire/foreign/nvtx_payload.h"

namespace lockstep::client {

// The known values of a payload.
struct NvtxPayload {
  enum Field : uint8_t {
    kCommunicator,  // "NCCL communicator ID"
    kBytes,         // "Message size [bytes]"
    kReduction,     // "Reduction operation"
    kRoot,          // "Root"
    kPeer,          // "Peer rank"
    kRanks,         // "No. of ranks"
    kRank,          // "Rank"
    kDevice,        // "CUDA device"
    kParent,        // "Parent NCCL communicator ID"
    kFirstNumber,   // the first integer, whatever its name
    kFields
  };
  uint32_t known = 0;  // bit per Field
  int64_t values[kFields] = {};
  const char* reduction = nullptr;  // name of values[kReduction] if its enumeration was registered
  const char* message = nullptr;    // the application's text; valid during the call

  bool Has(Field field) const { return (known >> field & 1) != 0; }
  int64_t Get(Field field, int64_t otherwise) const { return Has(field) ? values[field] : otherwise; }
};

class NvtxSchemas {
 public:
  constexpr NvtxSchemas() = default;

  // Returns the id for the application, or 0 if the schema is invalid or no place is left.
  uint64_t Register(const void* domain, const foreign::nvtx::SchemaAttributes* attributes);
  uint64_t RegisterEnum(const void* domain, const foreign::nvtx::EnumAttributes* attributes);

  // Reads the payloads of one event together. Each field comes from the first payload that has it.
  NvtxPayload Read(const void* domain, const foreign::nvtx::PayloadData* payloads, size_t count) const;

 private:
  static constexpr uint32_t kSchemas = 512;  // power of two
  static constexpr uint32_t kEnums = 64;     // power of two
  static constexpr uint32_t kEnumEntries = 16;
  static constexpr uint32_t kEnumName = 24;
  static constexpr size_t kMostEntries = 256;
  static constexpr size_t kMostBytes = 64u << 10;
  static constexpr size_t kMostPayloads = 16;

  struct Place {
    uint16_t offset = 0;
    uint8_t bytes = 0;  // 0: not in this schema
    bool is_signed = false;
  };
  struct Schema {
    std::atomic<uint64_t> key{0};  // 0 free, 1 being filled in
    uint64_t reduction_enum = 0;   // key of its enumeration
    uint32_t bytes = 0;            // of a payload; 0: unknown
    Place message;
    Place places[NvtxPayload::kFields] = {};
  };
  struct Enum {
    std::atomic<uint64_t> key{0};
    uint32_t entries = 0;
    uint64_t values[kEnumEntries] = {};
    char names[kEnumEntries][kEnumName] = {};
  };

  static uint64_t KeyOf(const void* domain, uint64_t id);
  static bool Compile(const foreign::nvtx::SchemaAttributes& attributes, Schema& schema);
  const Schema* Find(uint64_t key) const;
  const char* NameOf(uint64_t key, uint64_t value) const;

  std::atomic<uint64_t> next_id_{foreign::nvtx::kFirstDynamicSchema};
  Schema schemas_[kSchemas];
  Enum enums_[kEnums];
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_NVTX_PAYLOAD_H_
