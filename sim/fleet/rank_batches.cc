#include "sim/fleet/rank_batches.h"

#include <array>
#include <cstddef>
#include <ctime>
#include <map>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/read_clock.h"
#include "wire/columns/columns.h"

namespace lockstep::sim {
namespace {

using columns::Kind;

constexpr uint64_t kStringEpoch = 1;
constexpr uint64_t kComm = 0x10C4;
constexpr uint32_t kRowsPerBatch = 16384;  // as a daemon's
constexpr uint64_t kThread = 4711;
constexpr uint64_t kContext = 1;
constexpr uint64_t kStream = 7;
constexpr uint64_t kLaunchSerial = 5;  // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2
constexpr uint64_t kStreamSync = 3;
constexpr uint64_t kNoEvent = 0xFFFFFFFF;
constexpr uint64_t kElements = 1 << 20;
constexpr Nanos kClockGap = Nanos(100);

// Ids of strings.
enum Text : uint32_t {
  kKernelName = 1,  // and the following ones
  kNcclKernel = 50,
  kLaunch,
  kDriverLaunch,
  kStreamSynchronize,
  kAllReduce,
  kFloat,
  kRing,
  kSimple,
  kWorld,
  kSum,
  kFirstStep = 100,
};

std::vector<std::string> StepNames(uint32_t steps) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < steps; ++i) names.push_back(absl::StrCat("step ", i));
  return names;
}

void EncodeNames(uint32_t steps, std::string& out) {
  std::vector<columns::StringDefinition> strings = {
      {kNcclKernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
      {kLaunch, "cudaLaunchKernel_v7000"},
      {kDriverLaunch, "cuLaunchKernelEx"},
      {kStreamSynchronize, "cudaStreamSynchronize_v3020"},
      {kAllReduce, "AllReduce"},
      {kFloat, "ncclFloat32"},
      {kRing, "RING"},
      {kSimple, "LL"},
      {kWorld, "world"},
      {kSum, "Sum"}};
  std::vector<std::string> kernels;
  for (uint32_t i = 0; i < FleetJob::kKernels; ++i) kernels.push_back(absl::StrCat("gemm_", i));
  for (uint32_t i = 0; i < FleetJob::kKernels; ++i) strings.push_back({kKernelName + i, kernels[i]});
  const std::vector<std::string> names = StepNames(steps);
  for (uint32_t i = 0; i < steps; ++i) strings.push_back({kFirstStep + i, names[i]});
  columns::EncodeStrings(kStringEpoch, strings, out);
}

class RankEncoder {
 public:
  RankEncoder(const FleetJob& job, uint32_t rank, const FleetEpoch& epoch)
      : job_(job), rank_(rank), epoch_(epoch) {}

  std::vector<RankBatch> Run() {
    EncodeNames(job_.steps(), batch_.blocks);
    AddCommunicator();
    AddClock(Nanos());
    AddClock(job_.shape().window);
    for (uint32_t step = 0; step < job_.steps(); ++step) {
      AddStep(step);
      if (rows_ + FleetJob::kRowsPerStep > kRowsPerBatch) Flush();
    }
    Flush();
    return std::move(batches_);
  }

 private:
  enum class Api : uint8_t { kRuntime, kDriver };

  template <size_t kColumns>
  void Append(Kind kind, const std::array<uint64_t, kColumns>& row) {
    columns::BlockBuilder& builder = builders_.try_emplace(kind, kind).first->second;
    builder.Append(row);
    ++rows_;
  }

  void Flush() {
    if (rows_ == 0) return;
    for (auto& [kind, builder] : builders_) {
      const uint32_t rows = builder.rows();
      builder.Encode(kStringEpoch, next_sequence_, batch_.blocks);
      next_sequence_ += rows;
    }
    batch_.rows = rows_;
    batches_.push_back(std::move(batch_));
    batch_ = {};
    rows_ = 0;
  }

  uint64_t At(VirtualTime t) const {
    return static_cast<uint64_t>((epoch_.realtime + (t - VirtualTime())).ns());
  }
  static uint64_t Of(Nanos length) { return static_cast<uint64_t>(length.ns()); }

  void AddCommunicator() {
    namespace c = columns::communicator;
    std::array<uint64_t, c::kColumns> row{};
    row[c::kComm] = kComm;
    row[c::kName] = kWorld;
    row[c::kRank] = rank_;
    row[c::kRanks] = job_.shape().ranks;
    Append(Kind::kCommunicator, row);
  }

  void AddClock(Nanos at) {
    namespace c = columns::clock;
    std::array<uint64_t, c::kColumns> row{};
    row[c::kRealtime] = row[c::kCupti] = static_cast<uint64_t>((epoch_.realtime + at).ns());
    row[c::kMonotonic] = row[c::kMonotonicRaw] = row[c::kTsc] =
        static_cast<uint64_t>((epoch_.monotonic + at).ns());
    row[c::kGap] = Of(kClockGap);
    Append(Kind::kClock, row);
  }

  void AddCall(VirtualTime start, VirtualTime end, Text name, uint32_t cbid, Api api = Api::kRuntime) {
    namespace c = columns::api;
    std::array<uint64_t, c::kColumns> row{};
    row[c::kStart] = At(start);
    row[c::kDuration] = Of(end - start);
    row[c::kCorrelation] = correlation_;
    row[c::kCbid] = cbid;
    row[c::kThread] = kThread;
    row[c::kIsDriver] = api == Api::kDriver ? 1 : 0;
    row[c::kName] = name;
    Append(Kind::kApi, row);
  }

  void AddKernel(VirtualTime start, VirtualTime end, uint32_t name) {
    namespace c = columns::kernel;
    std::array<uint64_t, c::kColumns> row{};
    row[c::kStart] = At(start);
    row[c::kDuration] = Of(end - start);
    row[c::kCorrelation] = correlation_;
    row[c::kContext] = kContext;
    row[c::kStream] = kStream;
    row[c::kName] = name;
    row[c::kGridX] = 64;
    row[c::kGridY] = row[c::kGridZ] = row[c::kBlockY] = row[c::kBlockZ] = 1;
    row[c::kBlockX] = 256;
    row[c::kRegisters] = 32;
    Append(Kind::kKernel, row);
  }

  void AddCollective(VirtualTime enqueued, uint64_t number) {
    namespace c = columns::collective;
    std::array<uint64_t, c::kColumns> row{};
    row[c::kEnqueued] = At(enqueued);
    row[c::kComm] = kComm;
    row[c::kSequence] = number;
    row[c::kLaunch] = number + 1;
    row[c::kCount] = kElements;
    row[c::kFunction] = kAllReduce;
    row[c::kDatatype] = kFloat;
    row[c::kAlgorithm] = kRing;
    row[c::kProtocol] = kSimple;
    row[c::kChannels] = 8;
    row[c::kReduction] = kSum;
    Append(Kind::kCollective, row);

    namespace e = columns::external_correlation;
    std::array<uint64_t, e::kColumns> external{};
    external[e::kExternal] = number + 1;
    external[e::kCorrelation] = correlation_;
    external[e::kExternalKind] = kLaunchSerial;
    Append(Kind::kExternalCorrelation, external);
  }

  // Adds a layer whose first kernel begins at `device`, and whose launches begin at `host`.
  void AddLayer(uint32_t step, uint32_t layer, VirtualTime device, VirtualTime& host) {
    constexpr uint32_t kLaunchCbid = 211, kDriverLaunchCbid = 652;
    for (uint32_t i = 0; i < FleetJob::kKernels; ++i, host += FleetJob::kCall) {
      ++correlation_;
      AddCall(host, host + FleetJob::kCall, kLaunch, kLaunchCbid);
      const VirtualTime end = device + job_.KernelLength(rank_, step, layer * FleetJob::kKernels + i);
      AddKernel(device, end, kKernelName + i);
      device = end + FleetJob::kGap;
    }
    ++correlation_;
    AddCall(host, host + FleetJob::kCall, kDriverLaunch, kDriverLaunchCbid, Api::kDriver);
    AddCollective(host, uint64_t{step} * FleetJob::kLayers + layer);
    AddKernel(device, job_.LayerEnd(step, layer), kNcclKernel);
    host += FleetJob::kCall;
  }

  void AddStep(uint32_t step) {
    const VirtualTime begin = job_.StepBegin(step, rank_);
    VirtualTime host = begin;
    VirtualTime device = begin + FleetJob::kCall + FleetJob::kLatency;
    for (uint32_t layer = 0; layer < FleetJob::kLayers; ++layer) {
      AddLayer(step, layer, device, host);
      device = job_.LayerEnd(step, layer) + FleetJob::kGap;
    }
    AddWait(host, job_.StepEnd(step));
    AddRange(begin, job_.StepEnd(step), kFirstStep + step);
  }

  void AddWait(VirtualTime start, VirtualTime end) {
    constexpr uint32_t kStreamSynchronizeCbid = 131;
    namespace c = columns::sync;
    ++correlation_;
    AddCall(start, end, kStreamSynchronize, kStreamSynchronizeCbid);
    std::array<uint64_t, c::kColumns> row{};
    row[c::kStart] = At(start);
    row[c::kDuration] = Of(end - start);
    row[c::kCorrelation] = correlation_;
    row[c::kContext] = kContext;
    row[c::kStream] = kStream;
    row[c::kType] = kStreamSync;
    row[c::kEvent] = kNoEvent;
    Append(Kind::kSync, row);
  }

  void AddRange(VirtualTime start, VirtualTime end, uint32_t name) {
    namespace c = columns::range;
    std::array<uint64_t, c::kColumns> row{};
    row[c::kStart] = At(start);
    row[c::kDuration] = Of(end - start);
    row[c::kName] = name;
    row[c::kThread] = kThread;
    Append(Kind::kRange, row);
  }

  const FleetJob& job_;
  const uint32_t rank_;
  const FleetEpoch epoch_;
  std::map<Kind, columns::BlockBuilder> builders_;
  uint64_t correlation_ = 0;
  uint64_t next_sequence_ = 0;
  uint32_t rows_ = 0;  // in the builders
  RankBatch batch_;
  std::vector<RankBatch> batches_;
};

}  // namespace

std::vector<RankBatch> EncodeRank(const FleetJob& job, uint32_t rank, const FleetEpoch& epoch) {
  return RankEncoder(job, rank, epoch).Run();
}

Nanos TimeToDecode(const std::vector<RankBatch>& batches) {
  const int64_t begun = ReadClockNs(CLOCK_THREAD_CPUTIME_ID);
  columns::DecodedBlock block;
  for (const RankBatch& batch : batches) {
    std::span<const std::byte> rest = std::as_bytes(std::span(batch.blocks));
    while (!rest.empty()) {
      const absl::StatusOr<size_t> taken = columns::Decode(rest, block);
      if (!taken.ok()) break;
      rest = rest.subspan(*taken);
    }
  }
  return Nanos(ReadClockNs(CLOCK_THREAD_CPUTIME_ID) - begun);
}

}  // namespace lockstep::sim
