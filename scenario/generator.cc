#include "scenario/generator.h"

#include <algorithm>

#include "fmt/format.h"

namespace lockstep::scenario {
namespace {

// CUPTI's callback ids. wire/foreign/cupti.h has the same numbers, but the layers forbid including it here.
constexpr uint32_t kMemcpyAsync = 41, kStreamSynchronize = 131, kEventRecord = 135, kStreamWaitEvent = 147,
                   kLaunchKernel = 211;
constexpr uint32_t kDriverLaunchKernelEx = 652;
constexpr uint32_t kHostToDevice = 1, kDeviceToHost = 2;

// NCCL's buffers are at least this large, so a send does not wait for its receiver.
constexpr uint64_t kActivationBytes = 4ull << 20;
constexpr uint32_t kMaxRanks = 4096, kMaxLayers = 64, kMaxMicrobatches = 256;

enum StreamIndex : uint32_t { kCompute, kTensor, kData, kReceive, kSend, kCopy, kWorld };
// CUPTI's numbers of these streams. They have gaps as in a real process, where libraries make their own
// streams.
constexpr uint32_t kStreamIds[] = {7, 20, 24, 28, 29, 13, 32};

struct KernelKind {
  std::string_view name;
  int32_t per_mille;  // relative to a forward matrix multiplication
  Geometry geometry;
};

const KernelKind kLayerNorm = {
    "void layer_norm_kernel<__nv_bfloat16, float>(int, float, __nv_bfloat16 const*)",
    90,
    {{4096, 1, 1}, {32, 4, 1}, 40, 0, 64}};
const KernelKind kQkv = {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
                         1000,
                         {{128, 1, 1}, {384, 1, 1}, 168, 0, 213248}};
const KernelKind kAttention = {
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
    1350,
    {{32, 8, 16}, {128, 1, 1}, 255, 0, 81920}};
const KernelKind kProjection = {
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x64x64_warpgroupsize1x1x1",
    480,
    {{264, 1, 1}, {384, 1, 1}, 168, 0, 164096}};
const KernelKind kMlpUp = {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1",
                           1320,
                           {{512, 1, 1}, {384, 1, 1}, 168, 0, 213248}};
const KernelKind kGelu = {
    "void vectorized_elementwise_kernel<4, GeluFunctor, array<char*, 2>>(int, GeluFunctor)",
    110,
    {{16384, 1, 1}, {128, 1, 1}, 32, 0, 0}};
const KernelKind kMlpDown = {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize256x128x64_warpgroupsize2x1x1",
                             1280,
                             {{128, 1, 1}, {384, 1, 1}, 168, 0, 213248}};
const KernelKind kAttentionBackward = {
    "void flash_bwd_dq_dk_dv_loop_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8>>(Flash_bwd_params)",
    3300,
    {{32, 8, 16}, {256, 1, 1}, 255, 0, 147456}};
const KernelKind kGradInput = {
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1",
    1000,
    {{256, 1, 1}, {384, 1, 1}, 168, 0, 213248}};
const KernelKind kGradWeight = {
    "sm90_xmma_gemm_bf16f32_bf16f32_f32_nt_n_tilesize128x128x64_warpgroupsize1x1x1",
    1040,
    {{192, 1, 1}, {384, 1, 1}, 168, 0, 213248}};
const KernelKind kGeluBackward = {
    "void vectorized_elementwise_kernel<4, GeluBackwardFunctor, array<char*, 3>>(int, GeluBackwardFunctor)",
    150,
    {{16384, 1, 1}, {128, 1, 1}, 32, 0, 0}};
const KernelKind kEmbedding = {
    "void embedding_lookup_kernel<__nv_bfloat16, int64_t>(__nv_bfloat16 const*, int64_t const*)",
    350,
    {{8192, 1, 1}, {256, 1, 1}, 24, 0, 0}};
const KernelKind kLoss = {
    "void cross_entropy_forward_kernel<float, 1024>(float const*, int64_t const*, float*)",
    350,
    {{8192, 1, 1}, {1024, 1, 1}, 40, 4096, 0}};
const KernelKind kCount = {
    "void reduce_kernel<512, 1, ReduceOp<int64_t, sum_functor, unsigned int, int64_t, 4>>(ReduceOp)",
    12,
    {{8, 1, 1}, {512, 1, 1}, 32, 16, 0}};
const KernelKind kGradNorm = {
    "void multi_tensor_apply_kernel<TensorListMetadata<1>, LpNormFunctor<float, 2>>(TensorListMetadata)",
    260,
    {{320, 1, 1}, {512, 1, 1}, 48, 0, 0}};
const KernelKind kAdam = {
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, "
    "4>>(TensorListMetadata)",
    900,
    {{320, 1, 1}, {512, 1, 1}, 64, 0, 0}};

constexpr std::string_view kNcclArgs = "(ncclDevKernelArgsStorage<4096ul>)";

// A rank's position in the three dimensions of parallelism.
struct Place {
  uint32_t stage, replica, shard;
};

// Writes the program of one rank's step.
class StepWriter {
 public:
  StepWriter(const TransformerShape& shape, Place place, Scenario& scenario, Rank& rank)
      : shape_(shape), place_(place), s_(scenario), rank_(rank) {}

  // Groups of this rank by index into Scenario::groups; kNoIndex if the dimension has size 1.
  uint32_t world = kNoIndex, tensor = kNoIndex, data = kNoIndex, pipeline = kNoIndex;

  void Step() {
    Push("ProfilerStep#{step}");
    Head();
    for (const auto& [forward, microbatch] : Schedule()) forward ? Forward(microbatch) : Backward(microbatch);
    Tail();
    Op pop;
    pop.kind = OpKind::kPop;
    Add(pop);
  }

 private:
  // The 1F1B schedule (one forward, one backward): the stages fill the pipeline, alternate, and drain it.
  std::vector<std::pair<bool, uint32_t>> Schedule() const {
    const uint32_t warm_up = std::min(shape_.microbatches, shape_.pipeline_parallel - 1 - place_.stage);
    std::vector<std::pair<bool, uint32_t>> order;
    uint32_t forward = 0, backward = 0;
    while (forward < warm_up) order.emplace_back(true, forward++);
    while (forward < shape_.microbatches) {
      order.emplace_back(true, forward++);
      order.emplace_back(false, backward++);
    }
    while (backward < shape_.microbatches) order.emplace_back(false, backward++);
    return order;
  }

  // Copies the batch in. Then all ranks exchange its number of tokens, so lateness of a rank is visible from
  // here on.
  void Head() {
    for (uint64_t bytes : {9ull << 20, 3ull << 20}) {
      Call(kMemcpyAsync, Nanos(4200));
      Copy(kCopy, kHostToDevice, bytes, Nanos(static_cast<int64_t>(bytes / 20)));
    }
    Order(kCopy, kCompute);
    Kernel(kCount);
    if (world != kNoIndex)
      CollectiveBetween(kWorld, world, Collective::kAllReduce, 8, "ncclInt64", Nanos::Micros(38));
  }

  void Forward(uint32_t) {
    if (place_.stage > 0) PointToPoint(Collective::kReceive, place_.stage - 1);
    if (place_.stage == 0) Kernel(kEmbedding);
    for (uint32_t layer = 0; layer < shape_.layers_per_stage; ++layer) {
      for (const KernelKind* k : {&kLayerNorm, &kQkv, &kAttention, &kProjection}) Kernel(*k);
      TensorAllReduce();
      for (const KernelKind* k : {&kLayerNorm, &kMlpUp, &kGelu, &kMlpDown}) Kernel(*k);
      TensorAllReduce();
    }
    if (place_.stage + 1 == shape_.pipeline_parallel)
      Kernel(kLoss);
    else
      PointToPoint(Collective::kSend, place_.stage + 1);
  }

  void Backward(uint32_t microbatch) {
    const bool last_microbatch = microbatch + 1 == shape_.microbatches;
    if (place_.stage + 1 < shape_.pipeline_parallel) PointToPoint(Collective::kReceive, place_.stage + 1);
    for (uint32_t layer = 0; layer < shape_.layers_per_stage; ++layer) {
      for (const KernelKind* k :
           {&kGradInput, &kGradWeight, &kGeluBackward, &kGradInput, &kGradWeight, &kLayerNorm})
        Kernel(*k);
      TensorAllReduce();
      for (const KernelKind* k : {&kGradInput, &kGradWeight, &kAttentionBackward, &kGradInput, &kLayerNorm})
        Kernel(*k);
      TensorAllReduce();
      // The layer's gradients are complete, so they are reduced while the next layer computes.
      if (last_microbatch && data != kNoIndex) {
        Order(kCompute, kData);
        Nccl(kData, data, Collective::kReduceScatter, 96ull << 20, "ncclBfloat16", Nanos::Micros(2600), -1);
      }
    }
    if (place_.stage > 0) PointToPoint(Collective::kSend, place_.stage - 1);
  }

  void Tail() {
    if (data != kNoIndex) Order(kData, kCompute);
    Kernel(kGradNorm);
    if (world != kNoIndex)
      CollectiveBetween(kWorld, world, Collective::kAllReduce, 4, "ncclFloat32", Nanos::Micros(38));
    for (uint32_t layer = 0; layer < shape_.layers_per_stage; ++layer) {
      Kernel(kAdam);
      if (data == kNoIndex) continue;
      Order(kCompute, kData);
      Nccl(kData, data, Collective::kAllGather, 48ull << 20, "ncclBfloat16", Nanos::Micros(1700), -1);
    }
    if (data != kNoIndex) Order(kData, kCompute);
    Call(kMemcpyAsync, Nanos(3900));
    Copy(kCompute, kDeviceToHost, 4, Nanos(1500));
    Op& sync = Call(kStreamSynchronize, Nanos(1800));
    sync.wait = Wait::kStreams;
    sync.wait_streams = {kCompute};
    sync.tail = Nanos(2500);
  }

  void TensorAllReduce() {
    if (tensor != kNoIndex)
      CollectiveBetween(kTensor, tensor, Collective::kAllReduce, 16ull << 20, "ncclBfloat16",
                        Nanos::Micros(180));
  }

  void PointToPoint(Collective op, uint32_t peer_stage) {
    const uint32_t stream = op == Collective::kSend ? kSend : kReceive;
    if (op == Collective::kSend) Order(kCompute, kSend);
    Nccl(stream, pipeline, op, kActivationBytes, "ncclBfloat16", Nanos::Micros(150),
         static_cast<int32_t>(peer_stage));
    if (op == Collective::kReceive) Order(kReceive, kCompute);
  }

  // Runs after the earlier work of the compute stream, and before its later work.
  void CollectiveBetween(uint32_t stream, uint32_t group, Collective op, uint64_t bytes,
                         std::string_view type, Nanos service_time) {
    Order(kCompute, stream);
    Nccl(stream, group, op, bytes, type, service_time, -1);
    Order(stream, kCompute);
  }

  void Nccl(uint32_t stream, uint32_t group, Collective op, uint64_t bytes, std::string_view type,
            Nanos service_time, int32_t peer) {
    Op& launch = Call(kDriverLaunchKernelEx, Nanos(5200));
    launch.driver = true;
    Op coll;
    coll.kind = OpKind::kCollective;
    coll.stream = stream;
    coll.gap = Nanos(1400);
    coll.service_time = service_time;
    coll.collective = op;
    coll.group = group;
    coll.bytes = bytes;
    coll.datatype = type;
    coll.peer = peer;
    coll.geometry = {{bytes > 4096 ? 24u : 1u, 1, 1}, {640, 1, 1}, 96, 0, 82240};
    coll.name = s_.AddName(fmt::format("{}{}", NcclKernel(op), kNcclArgs));
    Add(coll);
  }

  static std::string_view NcclKernel(Collective op) {
    switch (op) {
      case Collective::kAllReduce:
        return "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
      case Collective::kReduceScatter:
        return "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL";
      case Collective::kAllGather:
        return "ncclDevKernel_AllGather_RING_LL";
      default:
        return "ncclDevKernel_SendRecv";
    }
  }

  void Kernel(const KernelKind& kind) {
    Call(kLaunchKernel, Nanos(3300));
    Op op;
    op.kind = OpKind::kKernel;
    op.stream = kCompute;
    op.gap = Nanos(1100);
    op.service_time = shape_.matmul * kind.per_mille / 1000;
    op.name = s_.AddName(kind.name);
    op.geometry = kind.geometry;
    Add(op);
  }

  void Copy(uint32_t stream, uint32_t kind, uint64_t bytes, Nanos service_time) {
    Op op;
    op.kind = OpKind::kCopy;
    op.stream = stream;
    op.gap = Nanos(1300);
    op.service_time = service_time;
    op.bytes = bytes;
    op.copy_kind = kind;
    Add(op);
  }

  // Makes later work of `second` wait for the earlier work of `first`.
  void Order(uint32_t first, uint32_t second) {
    Op op;
    op.event = next_event_++;
    Call(kEventRecord, Nanos(1200));
    op.kind = OpKind::kRecordEvent;
    op.stream = first;
    Add(op);
    Call(kStreamWaitEvent, Nanos(1100));
    op.kind = OpKind::kWaitEvent;
    op.stream = second;
    Add(op);
  }

  Op& Call(uint32_t cbid, Nanos service_time) {
    Op op;
    op.kind = OpKind::kCall;
    op.cbid = cbid;
    op.gap = Nanos(900);
    op.service_time = service_time;
    Add(op);
    return rank_.program.back();
  }

  void Push(std::string_view text) {
    Op op;
    op.kind = OpKind::kPush;
    op.name = s_.AddName(text);
    Add(op);
  }

  void Add(const Op& op) { rank_.program.push_back(op); }

  const TransformerShape& shape_;
  Place place_;
  Scenario& s_;
  Rank& rank_;
  uint32_t next_event_ = 0;
};

uint32_t RankOf(const TransformerShape& shape, Place p) {
  return (p.stage * shape.data_parallel + p.replica) * shape.tensor_parallel + p.shard;
}

// Returns kNoIndex for a group of one rank, because such a group does not communicate.
uint32_t AddGroup(Scenario& s, std::string name, std::vector<uint32_t> members) {
  if (members.size() < 2) return kNoIndex;
  // Any unique number will do. NCCL's own id is a hash too.
  uint64_t comm = 0x9E3779B97F4A7C15ull * (s.groups.size() + 1);
  s.groups.push_back({comm ^ (comm >> 29), std::move(name), std::move(members)});
  return static_cast<uint32_t>(s.groups.size() - 1);
}

struct Groups {
  uint32_t world;
  std::vector<uint32_t> tensor, data, pipeline;  // by rank
};

Groups MakeGroups(const TransformerShape& shape, Scenario& s) {
  Groups g;
  const uint32_t n = shape.ranks();
  std::vector<uint32_t> all(n);
  for (uint32_t r = 0; r < n; ++r) all[r] = r;
  g.world = AddGroup(s, "world", all);
  g.tensor.assign(n, kNoIndex);
  g.data.assign(n, kNoIndex);
  g.pipeline.assign(n, kNoIndex);
  // Every rank at position 0 of a dimension creates that dimension's group.
  const auto open = [&](Place p, uint32_t Place::*axis, uint32_t size, std::string_view name,
                        std::vector<uint32_t>& out) {
    if (p.*axis != 0) return;
    std::vector<uint32_t> members;
    for (p.*axis = 0; p.*axis < size; ++(p.*axis)) members.push_back(RankOf(shape, p));
    const uint32_t group = AddGroup(s, fmt::format("{}_{}", name, members[0]), members);
    for (uint32_t r : members) out[r] = group;
  };
  for (uint32_t r = 0; r < n; ++r) {
    const Place p{r / shape.tensor_parallel / shape.data_parallel,
                  r / shape.tensor_parallel % shape.data_parallel, r % shape.tensor_parallel};
    open(p, &Place::shard, shape.tensor_parallel, "tensor", g.tensor);
    open(p, &Place::replica, shape.data_parallel, "data", g.data);
    open(p, &Place::stage, shape.pipeline_parallel, "pipeline", g.pipeline);
  }
  return g;
}

}  // namespace

TransformerShape ShapeFor(uint32_t ranks) {
  TransformerShape shape;
  shape.tensor_parallel = ranks % 2 == 0 ? 2 : 1;
  shape.pipeline_parallel = ranks % 4 == 0 ? 2 : 1;
  shape.data_parallel = std::max(1u, ranks / (shape.tensor_parallel * shape.pipeline_parallel));
  return shape;
}

absl::StatusOr<Scenario> MakeTransformer(const TransformerShape& shape) {
  const bool sizes =
      shape.data_parallel > 0 && shape.tensor_parallel > 0 && shape.pipeline_parallel > 0 &&
      shape.data_parallel <= kMaxRanks && shape.tensor_parallel <= kMaxRanks &&
      shape.pipeline_parallel <= kMaxRanks &&
      uint64_t{shape.data_parallel} * shape.tensor_parallel * shape.pipeline_parallel <= kMaxRanks;
  if (!sizes || shape.layers_per_stage == 0 || shape.layers_per_stage > kMaxLayers ||
      shape.microbatches == 0 || shape.microbatches > kMaxMicrobatches || shape.ranks_per_host == 0 ||
      shape.matmul <= Nanos() || shape.matmul > Nanos::Seconds(1)) {
    return absl::InvalidArgumentError(fmt::format(
        "transformer scenario: every size must be at least 1, with at most {} ranks, {} layers per "
        "stage and {} microbatches",
        kMaxRanks, kMaxLayers, kMaxMicrobatches));
  }
  Scenario s;
  s.noise_ppm = shape.noise_ppm;
  s.ranks.resize(shape.ranks());
  const Groups groups = MakeGroups(shape, s);
  for (uint32_t r = 0; r < shape.ranks(); ++r) {
    Rank& rank = s.ranks[r];
    rank.host = fmt::format("node{}", r / shape.ranks_per_host);
    rank.device = r % shape.ranks_per_host;
    rank.streams.assign(std::begin(kStreamIds), std::end(kStreamIds));
    rank.threads = {0};
    const Place place{r / shape.tensor_parallel / shape.data_parallel,
                      r / shape.tensor_parallel % shape.data_parallel, r % shape.tensor_parallel};
    StepWriter writer(shape, place, s, rank);
    writer.world = groups.world;
    writer.tensor = groups.tensor[r];
    writer.data = groups.data[r];
    writer.pipeline = groups.pipeline[r];
    writer.Step();
  }
  if (absl::Status status = Validate(s); !status.ok()) return status;
  return s;
}

}  // namespace lockstep::scenario
