#include "formats/otf2/otf2_collective.h"

namespace lockstep::formats {

using capture::CollectiveOp;

OTF2_RegionRole Otf2RoleOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
      return OTF2_REGION_ROLE_COLL_ALL2ALL;
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return OTF2_REGION_ROLE_COLL_ONE2ALL;
    case CollectiveOp::kReduce:
    case CollectiveOp::kGather:
      return OTF2_REGION_ROLE_COLL_ALL2ONE;
    case CollectiveOp::kBarrier:
      return OTF2_REGION_ROLE_BARRIER;
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
    case CollectiveOp::kSendReceive:
      return OTF2_REGION_ROLE_POINT2POINT;
    case CollectiveOp::kUnknown:
      return OTF2_REGION_ROLE_COLL_OTHER;
  }
  return OTF2_REGION_ROLE_COLL_OTHER;
}

OTF2_CollectiveOp Otf2OpOf(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
      return OTF2_COLLECTIVE_OP_ALLREDUCE;
    case CollectiveOp::kAllGather:
      return OTF2_COLLECTIVE_OP_ALLGATHER;
    case CollectiveOp::kReduceScatter:
      return OTF2_COLLECTIVE_OP_REDUCE_SCATTER_BLOCK;
    case CollectiveOp::kAllToAll:
      return OTF2_COLLECTIVE_OP_ALLTOALL;
    case CollectiveOp::kAllToAllV:
      return OTF2_COLLECTIVE_OP_ALLTOALLV;
    case CollectiveOp::kBroadcast:
      return OTF2_COLLECTIVE_OP_BCAST;
    case CollectiveOp::kReduce:
      return OTF2_COLLECTIVE_OP_REDUCE;
    case CollectiveOp::kGather:
      return OTF2_COLLECTIVE_OP_GATHER;
    case CollectiveOp::kScatter:
      return OTF2_COLLECTIVE_OP_SCATTER;
    default:
      return OTF2_COLLECTIVE_OP_BARRIER;
  }
}

std::optional<Otf2Bytes> Otf2BytesOf(const capture::Collective& c, int32_t group_size, bool is_root) {
  if (c.op == CollectiveOp::kBarrier) return Otf2Bytes{};
  const bool rooted = c.op == CollectiveOp::kBroadcast || c.op == CollectiveOp::kReduce ||
                      c.op == CollectiveOp::kGather || c.op == CollectiveOp::kScatter;
  const bool needs_size = c.op == CollectiveOp::kAllGather || c.op == CollectiveOp::kReduceScatter ||
                          (is_root && (c.op == CollectiveOp::kGather || c.op == CollectiveOp::kScatter));
  if (c.bytes < 0 || (rooted && c.root < 0) || (needs_size && group_size <= 0)) return std::nullopt;
  const auto one = static_cast<uint64_t>(c.bytes);
  const uint64_t all = one * static_cast<uint64_t>(group_size);
  switch (c.op) {
    case CollectiveOp::kAllGather:
      return Otf2Bytes{.sent = one, .received = all};
    case CollectiveOp::kReduceScatter:
      return Otf2Bytes{.sent = all, .received = one};
    case CollectiveOp::kBroadcast:
      return Otf2Bytes{.sent = is_root ? one : 0, .received = is_root ? 0 : one};
    case CollectiveOp::kReduce:
      return Otf2Bytes{.sent = one, .received = is_root ? one : 0};
    case CollectiveOp::kGather:
      return Otf2Bytes{.sent = one, .received = is_root ? all : 0};
    case CollectiveOp::kScatter:
      return Otf2Bytes{.sent = is_root ? all : 0, .received = one};
    default:
      return Otf2Bytes{.sent = one, .received = one};
  }
}

}  // namespace lockstep::formats
