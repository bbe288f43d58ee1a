#include "capture/model/collective_op.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"

namespace lockstep::capture {
namespace {

struct Spelling {
  std::string_view text;
  CollectiveOp op;
};

// Spellings without case, underscores, dashes and blanks. The first match wins, so longer words come first.
constexpr std::array kSpellings = {
    Spelling{"allreducebarrier", CollectiveOp::kBarrier},
    Spelling{"allreduce", CollectiveOp::kAllReduce},
    Spelling{"allgather", CollectiveOp::kAllGather},
    Spelling{"fcollect", CollectiveOp::kAllGather},
    Spelling{"reducescatter", CollectiveOp::kReduceScatter},
    Spelling{"alltoallv", CollectiveOp::kAllToAllV},
    Spelling{"alltoall", CollectiveOp::kAllToAll},
    Spelling{"broadcast", CollectiveOp::kBroadcast},
    Spelling{"bcast", CollectiveOp::kBroadcast},
    Spelling{"crossdevicereduce", CollectiveOp::kAllReduce},
    Spelling{"reduce", CollectiveOp::kReduce},
    Spelling{"gather", CollectiveOp::kGather},
    Spelling{"scatter", CollectiveOp::kScatter},
    Spelling{"sendrecv", CollectiveOp::kSendReceive},
    Spelling{"sendreceive", CollectiveOp::kSendReceive},
    Spelling{"batchisendirecv", CollectiveOp::kSendReceive},
    Spelling{"send", CollectiveOp::kSend},
    Spelling{"recv", CollectiveOp::kReceive},
    Spelling{"receive", CollectiveOp::kReceive},
    Spelling{"barrier", CollectiveOp::kBarrier},
};

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

void DropPrefix(std::string_view& text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
}

std::string Squeeze(std::string_view text) {
  std::string squeezed;
  squeezed.reserve(text.size());
  for (char c : text) {
    if (c != '_' && c != '-' && c != ' ') squeezed.push_back(absl::ascii_tolower(c));
  }
  return squeezed;
}

CollectiveOp FirstSpelledIn(std::string_view squeezed) {
  for (const Spelling& s : kSpellings) {
    if (Contains(squeezed, s.text)) return s.op;
  }
  return CollectiveOp::kUnknown;
}

CollectiveOp SpelledAtStart(std::string_view squeezed) {
  for (const Spelling& s : kSpellings) {
    if (squeezed.starts_with(s.text)) return s.op;
  }
  return CollectiveOp::kUnknown;
}

// The function's name in a demangled signature, without return type, template arguments and parameters. These
// parts contain names of other functions ("ncclDevComm*", lambdas of operators).
struct FunctionName {
  std::string qualified;         // with its namespaces
  std::string_view unqualified;  // into `qualified`
};

FunctionName NameOfFunction(std::string_view signature) {
  FunctionName f;
  int nesting = 0;
  for (size_t i = 0; i < signature.size(); ++i) {
    const char c = signature[i];
    if (nesting == 0 && signature.substr(i).starts_with("(anonymous namespace)")) {
      i += std::string_view("(anonymous namespace)").size() - 1;
    } else if (c == '<') {
      ++nesting;
    } else if (c == '>') {
      nesting = std::max(0, nesting - 1);
    } else if (nesting > 0) {
      continue;
    } else if (c == '(') {
      break;
    } else if (c == ' ') {
      f.qualified.clear();  // the text so far was the return type
    } else {
      f.qualified.push_back(c);
    }
  }
  f.unqualified = f.qualified;
  if (size_t at = f.unqualified.rfind("::"); at != std::string_view::npos)
    f.unqualified.remove_prefix(at + 2);
  return f;
}

// Examples: ncclDevKernel_AllReduce_Sum_f32_RING_LL, ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t,
// ncclAllReduceRingLLKernel_sum_f32, ncclSymDevKernel_AllGather_LL, ncclDevKernel_Generic,
// mscclKernel_Sum_float_Simple.
NameClass ClassifyNccl(std::string_view function) {
  if (!function.starts_with("nccl") && !function.starts_with("rccl") && !function.starts_with("msccl") &&
      !function.starts_with("hccl")) {
    return {};
  }
  const size_t kernel = function.find("Kernel");
  if (kernel == std::string_view::npos) return {};
  // Three eras put the operation after "Kernel_". The oldest one puts it before "Kernel", followed by
  // "_sum_f32".
  std::string_view after = function.substr(kernel + std::string_view("Kernel").size());
  if (size_t underscore = after.find('_'); underscore != std::string_view::npos) {
    const CollectiveOp op = SpelledAtStart(Squeeze(after.substr(underscore + 1)));
    if (op != CollectiveOp::kUnknown) return {true, op};
  }
  const std::string before = Squeeze(function.substr(std::string_view("nccl").size(), kernel - 4));
  return {true, SpelledAtStart(before)};
}

// Expert-parallel libraries move tokens between GPUs. Their kernels are named after what they do to the
// tokens.
NameClass ClassifyExpertParallel(const FunctionName& f) {
  constexpr std::array kNamespaces = {
      "deep_ep::", "dpsk::ep::", "hybrid_ep::", "pplx::", "mori::", "uccl::", "nccl_ep::"};
  const bool ours = std::any_of(kNamespaces.begin(), kNamespaces.end(),
                                [&](const char* n) { return Contains(f.qualified, n); });
  if (!ours) return {};
  const std::string name = Squeeze(f.unqualified);
  // The layout kernel counts tokens on one GPU; only the other kernels communicate.
  if (Contains(name, "layout")) return {};
  if (Contains(name, "barrier") || Contains(name, "notify")) return {true, CollectiveOp::kBarrier};
  if (Contains(name, "dispatch") || Contains(name, "combine")) return {true, CollectiveOp::kAllToAllV};
  return {};
}

NameClass ClassifyShmem(const FunctionName& f) {
  const bool shmem = f.unqualified.starts_with("nvshmem") || f.unqualified.starts_with("rocshmem") ||
                     Contains(f.qualified, "nvshmem::") || Contains(f.qualified, "rocshmem::") ||
                     Contains(f.unqualified, "on_stream_kernel");
  if (!shmem) return {};
  const std::string name = Squeeze(f.unqualified);
  const CollectiveOp op = Contains(name, "sync") ? CollectiveOp::kBarrier : FirstSpelledIn(name);
  return {true, op};
}

// Kernels outside NCCL whose own name states their operation across devices: PyTorch's symmetric memory,
// vLLM, aiter, TensorRT-LLM, FlashInfer, MSCCL++.
NameClass ClassifyCustom(const FunctionName& f) {
  const std::string name = Squeeze(f.unqualified);
  // The name of a fused kernel of torch.compile lists the operators around it, even collectives, but it
  // computes.
  if (f.unqualified.starts_with("triton_")) return {};
  // Reductions inside one device use the same word.
  for (std::string_view local : {"block", "warp", "thread", "cta", "wave", "cluster"}) {
    if (Contains(name, std::string(local) + "allreduce")) return {};
  }
  for (std::string_view word : {"allreduce", "allgather", "reducescatter", "alltoall", "crossdevicereduce"}) {
    if (Contains(name, word)) return {true, FirstSpelledIn(name)};
  }
  // Some collectives have a plain function name inside a namespace that holds only collectives.
  for (std::string_view space :
       {"c10d::", "symmetric_memory::", "mscclpp::", "quickreduce::", "ar_fusion::"}) {
    const CollectiveOp op = FirstSpelledIn(name);
    if (op != CollectiveOp::kUnknown && Contains(f.qualified, space)) return {true, op};
  }
  if (name.starts_with("multimem")) return {true, FirstSpelledIn(name)};
  if (name.starts_with("hcom")) return {true, FirstSpelledIn(name)};
  return {};
}

}  // namespace

NameClass ClassifyKernelName(std::string_view name) {
  const FunctionName f = NameOfFunction(name);
  if (f.unqualified.empty()) return {};
  if (NameClass c = ClassifyNccl(f.unqualified); c.communication) return c;
  if (NameClass c = ClassifyExpertParallel(f); c.communication) return c;
  if (NameClass c = ClassifyShmem(f); c.communication) return c;
  return ClassifyCustom(f);
}

CollectiveOp CollectiveOpFromText(std::string_view text) {
  if (size_t colon = text.rfind(':'); colon != std::string_view::npos) text.remove_prefix(colon + 1);
  std::string squeezed = Squeeze(text);
  std::string_view word = squeezed;
  DropPrefix(word, "nccl");
  DropPrefix(word, "rccl");
  // all_to_allv and alltoall_v are both in use.
  return SpelledAtStart(word);
}

CollectiveOp KernelFamily(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kSend:
    case CollectiveOp::kReceive:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kGather:
    case CollectiveOp::kScatter:
      return CollectiveOp::kSendReceive;
    default:
      return op;
  }
}

std::string_view CollectiveOpName(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kUnknown:
      return "unknown";
    case CollectiveOp::kAllReduce:
      return "all_reduce";
    case CollectiveOp::kAllGather:
      return "all_gather";
    case CollectiveOp::kReduceScatter:
      return "reduce_scatter";
    case CollectiveOp::kAllToAll:
      return "all_to_all";
    case CollectiveOp::kAllToAllV:
      return "all_to_all_v";
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
      return "receive";
    case CollectiveOp::kSendReceive:
      return "send_receive";
    case CollectiveOp::kBarrier:
      return "barrier";
  }
  return "unknown";
}

bool IsSymmetric(CollectiveOp op) {
  switch (op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kAllGather:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kBarrier:
      return true;
    default:
      return false;
  }
}

int ElementBytes(std::string_view datatype) {
  struct Size {
    std::string_view type;
    int bytes;
  };
  // Spellings after Squeeze() and without "nccl". PyTorch's plain names are C's ("Long" is 8 bytes, "Half"
  // 2).
  constexpr std::array kSizes = {
      Size{"int8", 1},           Size{"char", 1},   Size{"uint8", 1},       Size{"byte", 1},
      Size{"bool", 1},           Size{"float8", 1}, Size{"int16", 2},       Size{"uint16", 2},
      Size{"short", 2},          Size{"half", 2},   Size{"float16", 2},     Size{"bfloat16", 2},
      Size{"int32", 4},          Size{"int", 4},    Size{"uint32", 4},      Size{"float32", 4},
      Size{"float", 4},          Size{"int64", 8},  Size{"uint64", 8},      Size{"long", 8},
      Size{"float64", 8},        Size{"double", 8}, Size{"complexhalf", 4}, Size{"complexfloat", 8},
      Size{"complexdouble", 16},
  };
  std::string squeezed = Squeeze(datatype);
  std::string_view type = squeezed;
  DropPrefix(type, "nccl");
  if (type.starts_with("float8")) return 1;  // Float8_e4m3fn and similar types
  for (const Size& s : kSizes) {
    if (s.type == type) return s.bytes;
  }
  return 0;
}

}  // namespace lockstep::capture
