#include "formats/common/kineto_names.h"

#include <array>

namespace lockstep::formats {

using capture::CollectiveOp;

std::string_view TorchCollectiveName(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kUnknown:
      return "";
    case CollectiveOp::kAllReduce:
      return "allreduce";
    case CollectiveOp::kAllGather:
      return "_allgather_base";
    case CollectiveOp::kReduceScatter:
      return "_reduce_scatter_base";
    case CollectiveOp::kAllToAll:
      return "all_to_all";
    case CollectiveOp::kAllToAllV:
      return "all_to_allv";
    case CollectiveOp::kBroadcast:
      return "broadcast";
    case CollectiveOp::kReduce:
      return "reduce";
    case CollectiveOp::kGather:
      return "gather";
    case CollectiveOp::kScatter:
      return "scatter";
    case CollectiveOp::kSend:
      return "send";
    case CollectiveOp::kReceive:
      return "recv";
    case CollectiveOp::kSendReceive:
      return "sendrecv";
    case CollectiveOp::kBarrier:
      return "barrier";
  }
  return "";
}

std::string_view TorchAnnotation(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kUnknown:
      return "";
    case CollectiveOp::kAllReduce:
      return "nccl:all_reduce";
    case CollectiveOp::kAllGather:
      return "nccl:all_gather";
    case CollectiveOp::kReduceScatter:
      return "nccl:reduce_scatter";
    case CollectiveOp::kAllToAll:
      return "nccl:all_to_all";
    case CollectiveOp::kAllToAllV:
      return "nccl:all_to_allv";
    case CollectiveOp::kBroadcast:
      return "nccl:broadcast";
    case CollectiveOp::kReduce:
      return "nccl:reduce";
    case CollectiveOp::kGather:
      return "nccl:gather";
    case CollectiveOp::kScatter:
      return "nccl:scatter";
    case CollectiveOp::kSend:
      return "nccl:send";
    case CollectiveOp::kReceive:
      return "nccl:recv";
    case CollectiveOp::kSendReceive:
      return "nccl:sendrecv";
    case CollectiveOp::kBarrier:
      return "nccl:barrier";
  }
  return "";
}

std::string_view TorchDatatype(std::string_view datatype) {
  struct Spelling {
    std::string_view nccl;
    std::string_view torch;
  };
  constexpr std::array kSpellings = {
      Spelling{"ncclInt8", "Char"},
      Spelling{"ncclChar", "Char"},
      Spelling{"ncclUint8", "Byte"},
      Spelling{"ncclInt32", "Int"},
      Spelling{"ncclInt", "Int"},
      Spelling{"ncclUint32", "UInt32"},
      Spelling{"ncclInt64", "Long"},
      Spelling{"ncclUint64", "UInt64"},
      Spelling{"ncclFloat16", "Half"},
      Spelling{"ncclHalf", "Half"},
      Spelling{"ncclFloat32", "Float"},
      Spelling{"ncclFloat", "Float"},
      Spelling{"ncclFloat64", "Double"},
      Spelling{"ncclDouble", "Double"},
      Spelling{"ncclBfloat16", "BFloat16"},
      Spelling{"ncclFloat8e4m3", "Float8_e4m3fn"},
      Spelling{"ncclFloat8e5m2", "Float8_e5m2"},
  };
  for (const Spelling& s : kSpellings) {
    if (s.nccl == datatype) return s.torch;
  }
  return datatype;
}

std::string_view TensorBoardElementType(std::string_view datatype) {
  const std::string_view torch = TorchDatatype(datatype);
  if (torch == "BFloat16") return "c10::BFloat16";
  if (torch == "Int") return "int";
  switch (capture::ElementBytes(datatype)) {
    case 1:
      return "unsigned char";
    case 2:
      return "c10::Half";
    case 4:
      return "float";
    case 8:
      return "long int";
    default:
      return "";
  }
}

bool NamesDataLoader(std::string_view name) {
  return name.starts_with("enumerate(DataLoader)") || name.starts_with("DataLoader") ||
         (name.starts_with("_") && name.find("DataLoaderIter") != std::string_view::npos);
}

}  // namespace lockstep::formats
