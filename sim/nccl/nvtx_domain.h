// Emits NCCL's NVTX ranges: the domain "NCCL" with one range per API call, and payloads with the schemas of
// NCCL 2.28. The first range loads the tool in NVTX_INJECTION64_PATH, as the NVTX headers inside a library
// do.
#ifndef LOCKSTEP_SIM_NCCL_NVTX_DOMAIN_H_
#define LOCKSTEP_SIM_NCCL_NVTX_DOMAIN_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::sim {

// A schema's id is kFirstSchema plus one of these.
enum class NcclApi : uint32_t {
  kCommInitRank = 0,
  kCommInitAll = 1,
  kCommDestroy = 2,
  kCommAbort = 3,
  kAllGather = 4,
  kAllReduce = 5,
  kBroadcast = 6,
  kReduceScatter = 7,
  kReduce = 8,
  kSend = 9,
  kRecv = 10,
  kCommInitRankConfig = 11,
  kCommSplit = 13,
  kCommFinalize = 14,
  kGroupStart = 100,  // these have no schema
  kGroupEnd = 101,
};
inline constexpr uint64_t kNcclFirstSchema = 1u << 24;
inline constexpr uint64_t kNcclReductionEnum = kNcclFirstSchema + 20;

struct NcclInitPayload {
  uint64_t comm;
  int32_t ranks;
  int32_t rank;
  int32_t device;
};
static_assert(sizeof(NcclInitPayload) == 24);
struct NcclCallPayload {
  uint64_t comm;
  uint64_t bytes;
  int32_t value;      // the reduction operation, the root or the peer
  int32_t reduction;  // for Reduce, which has both a root and an operation
};
static_assert(sizeof(NcclCallPayload) == 24);

// The range of one call, on the calling thread. NCCL_NVTX_DISABLE=1 switches it off.
class NcclRange {
 public:
  NcclRange(NcclApi api, const char* name);
  NcclRange(NcclApi api, const char* name, const NcclCallPayload& payload);
  ~NcclRange();
  NcclRange(const NcclRange&) = delete;
  NcclRange& operator=(const NcclRange&) = delete;
  // Sets the payload for the end of the range, for values that are known only then.
  void SetResult(const NcclInitPayload& payload);

 private:
  const NcclApi api_;
  bool pushed_ = false;
  bool has_result_ = false;
  NcclInitPayload result_{};
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_NCCL_NVTX_DOMAIN_H_
