#include "tests/support/small_job.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>

namespace lockstep::tests {
namespace {

using capture::CollectiveOp;

constexpr int64_t kSmallJobEpochNs = 1'750'000'000'000'000'000;
constexpr uint32_t kCompute = 7, kGradients = 15, kCopies = 25, kShards = 13, kMessages = 27;
constexpr double kLaunchUs = 4, kLatencyUs = 5;
constexpr std::array<const char*, 5> kNames = {"sm90_xmma_gemm_bf16_tn_n_cublas", "flash_fwd_kernel",
                                               "vectorized_elementwise_kernel", "grouped_gemm_kernel",
                                               "multi_tensor_apply_kernel_adam"};
constexpr std::array<double, 5> kLengthsUs = {220, 150, 45, 260, 300};

struct JobOp {
  enum Kind { kKernel, kTransfer, kCopyIn, kJoin, kWait, kMark, kEndGap } kind;
  KernelAt at{};
  CollectiveOp op = CollectiveOp::kUnknown;
  uint32_t group = capture::kNone;
  uint32_t stream = kCompute;
  int peer = -1;
  bool overlapped = false;  // compute waits for it only at the end of the step
  int64_t bytes = 0;
  int step = 0;
  int place = 0;
};

class Maker {
 public:
  explicit Maker(const SmallJob& job)
      : job_(job), random_(job.seed), ranks_(static_cast<size_t>(job.ranks())) {}

  capture::Capture Run() {
    MakeGroups();
    for (int r = 0; r < job_.ranks(); ++r) {
      MakeProgram(r);
      MakeRank(r);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < job_.ranks(); ++r) moved |= Advance(r);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].data.window = {At(0), At(ranks_[r].host + 1000)};
      out_.ranks.push_back(std::move(ranks_[r].data));
    }
    out_.world_size = job_.ranks();
    capture::Finish(out_);
    return std::move(out_);
  }

 private:
  struct Rank {
    capture::RankData data;
    std::vector<JobOp> program;
    size_t next = 0;
    double host = 0;
    std::map<uint32_t, double> stream_end;
    double compute_ready = 0;                            // earliest start of compute, given by other streams
    double communicating = 0;                            // end of the current gradient reduction
    std::map<std::pair<uint32_t, int>, int64_t> counts;  // sequence numbers by (group, function)
    std::map<std::tuple<uint32_t, int, int>, int64_t> messages;
    uint32_t correlation = 1;
    double step_start = 0;
    // The transfer that the rank has reached and that still lacks a member: its index in the program, arrival
    // time and number.
    size_t waiting_at = SIZE_MAX;
    double arrived = 0;
    int64_t number = 0;
    std::mt19937_64 random;
  };

  static HostTime At(double us) { return HostTime(kSmallJobEpochNs + static_cast<int64_t>(us * 1000)); }

  // ---- groups and programs

  uint32_t Group(const std::string& name, std::vector<int> members) {
    capture::Group g{.key = name + std::to_string(out_.groups.size()),
                     .name = name,
                     .size = static_cast<int32_t>(members.size())};
    for (int m : members) g.members.push_back(RankId(m));
    members_.push_back(std::move(members));
    out_.groups.push_back(std::move(g));
    return static_cast<uint32_t>(out_.groups.size() - 1);
  }

  int RankAt(int stage, int replica, int shard) const {
    return (stage * job_.data_parallel + replica) * job_.tensor_parallel + shard;
  }

  void MakeGroups() {
    std::vector<int> all;
    for (int r = 0; r < job_.ranks(); ++r) all.push_back(r);
    world_ = Group("world", all);
    for (int s = 0; s < job_.pipeline; ++s) {
      for (int d = 0; d < job_.data_parallel && job_.tensor_parallel > 1; ++d) {
        std::vector<int> members;
        for (int t = 0; t < job_.tensor_parallel; ++t) members.push_back(RankAt(s, d, t));
        tensor_.push_back(Group("tp", members));
      }
      for (int t = 0; t < job_.tensor_parallel && job_.data_parallel > 1; ++t) {
        std::vector<int> members;
        for (int d = 0; d < job_.data_parallel; ++d) members.push_back(RankAt(s, d, t));
        data_.push_back(Group("dp", members));
      }
    }
    for (int d = 0; d < job_.data_parallel && job_.pipeline > 1; ++d) {
      for (int t = 0; t < job_.tensor_parallel; ++t) {
        std::vector<int> members;
        for (int s = 0; s < job_.pipeline; ++s) members.push_back(RankAt(s, d, t));
        pipes_.push_back(Group("pp", members));
      }
    }
  }

  uint32_t TensorOf(int r) const {
    return tensor_[static_cast<size_t>(job_.StageOf(r) * job_.data_parallel + job_.ReplicaOf(r))];
  }
  uint32_t DataOf(int r) const {
    return data_[static_cast<size_t>(job_.StageOf(r) * job_.tensor_parallel + job_.ShardOf(r))];
  }
  uint32_t PipeOf(int r) const {
    return pipes_[static_cast<size_t>(job_.ReplicaOf(r) * job_.tensor_parallel + job_.ShardOf(r))];
  }

  void MakeProgram(int r) {
    std::vector<JobOp>& p = ranks_[static_cast<size_t>(r)].program;
    for (int step = 0; step < job_.steps; ++step) {
      const size_t begin = p.size();
      p.push_back({.kind = JobOp::kMark, .step = step});
      p.push_back({.kind = JobOp::kCopyIn, .stream = kCopies, .bytes = 1 << 22, .step = step});
      for (int m = 0; m < job_.microbatches; ++m) Pass(r, step, m, false, p);
      for (int m = 0; m < job_.microbatches; ++m) Pass(r, step, m, true, p);
      p.push_back({.kind = JobOp::kJoin, .step = step});
      p.push_back({.kind = JobOp::kTransfer,
                   .op = CollectiveOp::kAllReduce,
                   .group = world_,
                   .stream = kShards,
                   .bytes = 4,
                   .step = step});
      PushKernel(r, step, 0, true, JobKernel::kOptimizer, p);
      p.push_back({.kind = JobOp::kWait, .step = step});
      p.push_back({.kind = JobOp::kEndGap, .step = step});
      for (size_t i = begin; i < p.size(); ++i) p[i].place = static_cast<int>(i - begin);
    }
  }

  JobOp Kernel(int r, int step, int m, bool backward, JobKernel kernel) const {
    return {.kind = JobOp::kKernel,
            .at = {r, job_.ReplicaOf(r), job_.StageOf(r), job_.ShardOf(r), step, m, backward, kernel, false},
            .step = step};
  }

  void PushKernel(int r, int step, int m, bool backward, JobKernel kernel, std::vector<JobOp>& p) const {
    const JobOp op = Kernel(r, step, m, backward, kernel);
    const int times = 1 + (job_.extra_runs ? job_.extra_runs(op.at) : 0);
    for (int i = 0; i < times; ++i) p.push_back(op);
  }

  void Message(int r, bool send, int stage, int step, std::vector<JobOp>& p) const {
    p.push_back({.kind = JobOp::kTransfer,
                 .op = send ? CollectiveOp::kSend : CollectiveOp::kReceive,
                 .group = PipeOf(r),
                 .stream = send ? kMessages : kMessages + 1,
                 .peer = stage,
                 .overlapped = send,
                 .bytes = 1 << 20,
                 .step = step});
  }

  void Pass(int r, int step, int m, bool backward, std::vector<JobOp>& p) const {
    const int stage = job_.StageOf(r), from = stage + (backward ? 1 : -1), to = stage - (backward ? 1 : -1);
    if (from >= 0 && from < job_.pipeline) Message(r, false, from, step, p);
    for (int l = 0; l < job_.layers; ++l) {
      PushKernel(r, step, m, backward, JobKernel::kElement, p);
      PushKernel(r, step, m, backward, JobKernel::kMatrix, p);
      PushKernel(r, step, m, backward, JobKernel::kAttention, p);
      if (job_.experts) {
        const auto bytes = static_cast<int64_t>((1 << 20) * (job_.tokens ? job_.tokens(r) : 1));
        const JobOp exchange{.kind = JobOp::kTransfer,
                             .op = job_.tokens ? CollectiveOp::kAllToAllV : CollectiveOp::kAllToAll,
                             .group = DataOf(r),
                             .stream = kShards,
                             .bytes = bytes,
                             .step = step};
        p.push_back(exchange);
        PushKernel(r, step, m, backward, JobKernel::kExperts, p);
        p.push_back(exchange);
      } else {
        PushKernel(r, step, m, backward, JobKernel::kMatrix, p);
      }
      if (job_.tensor_parallel > 1) {
        p.push_back({.kind = JobOp::kTransfer,
                     .op = CollectiveOp::kAllReduce,
                     .group = TensorOf(r),
                     .stream = kShards,
                     .bytes = 1 << 22,
                     .step = step});
      }
      if (backward && m + 1 == job_.microbatches && job_.data_parallel > 1) {
        p.push_back({.kind = JobOp::kTransfer,
                     .op = CollectiveOp::kAllReduce,
                     .group = DataOf(r),
                     .stream = kGradients,
                     .overlapped = true,
                     .bytes = 1 << 24,
                     .step = step});
      }
    }
    if (to >= 0 && to < job_.pipeline) Message(r, true, to, step, p);
  }

  // ---- execution

  void MakeRank(int r) {
    const auto host = static_cast<uint32_t>(job_.HostOf(r));
    while (out_.hosts.size() <= host) {
      const std::string name = "node" + std::to_string(out_.hosts.size());
      out_.hosts.push_back({.id = name, .name = name});
    }
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.data.rank = RankId(r);
    rank.data.host = host;
    rank.data.device = DeviceId(static_cast<uint32_t>(r % job_.ranks_per_host));
    rank.random.seed(job_.seed * 7919 + static_cast<uint64_t>(r));
  }

  double Noise(std::mt19937_64& random) const {
    return std::max(0.3, 1 + job_.noise * std::normal_distribution<double>(0, 1)(random));
  }

  // Runs the rank until it reaches a collective that lacks a member. Returns whether it advanced.
  bool Advance(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    bool moved = false;
    while (rank.next < rank.program.size()) {
      if (!Do(r, rank, rank.program[rank.next])) return moved;
      ++rank.next;
      moved = true;
    }
    return moved;
  }

  bool Do(int r, Rank& rank, const JobOp& op) {
    switch (op.kind) {
      case JobOp::kMark:
        BeginStep(rank);
        return true;
      case JobOp::kKernel:
        RunKernel(r, rank, op);
        return true;
      case JobOp::kCopyIn:
        RunCopy(r, rank, op);
        return true;
      case JobOp::kTransfer:
        return RunTransfer(r, rank, op);
      case JobOp::kJoin:
        rank.compute_ready = std::max(rank.compute_ready, rank.stream_end[kGradients]);
        return true;
      case JobOp::kWait:
        Wait(r, rank, op);
        return true;
      case JobOp::kEndGap:
        Idle(r, rank, op, true);
        CloseStep(rank, op.step);
        return true;
    }
    return true;
  }

  static void BeginStep(Rank& rank) {
    rank.step_start = rank.host;
    rank.host += 2;
  }

  void CloseStep(Rank& rank, int step) {
    rank.data.ranges.push_back({.start = At(rank.step_start),
                                .end = At(rank.host),
                                .name = out_.strings.Intern("ProfilerStep#" + std::to_string(100 + step)),
                                .thread = ThreadId(1),
                                .kind = capture::RangeKind::kStep});
  }

  void Idle(int r, Rank& rank, const JobOp& op, bool end) {
    const CallAt at{r, job_.HostOf(r), op.step, op.place, op.kind == JobOp::kCopyIn, end};
    const double gap = job_.gap_us ? job_.gap_us(at) : 0;
    if (gap <= 0) return;
    if (const std::string call = job_.gap_call ? job_.gap_call(at) : std::string(); !call.empty()) {
      rank.data.api_calls.push_back({.start = At(rank.host + 1),
                                     .end = At(rank.host + gap - 1),
                                     .name = out_.strings.Intern(call),
                                     .correlation = CorrelationId(rank.correlation++),
                                     .thread = ThreadId(1)});
    }
    if (at.head && job_.loader_ranges) {
      rank.data.ranges.push_back({.start = At(rank.host),
                                  .end = At(rank.host + gap),
                                  .name = out_.strings.Intern("enumerate(DataLoader)#__next__"),
                                  .thread = ThreadId(1)});
    }
    rank.host += gap;
  }

  // Adds the launch call. Returns the earliest start of its device work.
  double Launch(int r, Rank& rank, const JobOp& op, const char* call) {
    Idle(r, rank, op, false);
    rank.host += 1.5 + std::uniform_real_distribution<double>(0, 1)(rank.random);
    const double start = rank.host;
    rank.host += kLaunchUs;
    rank.data.api_calls.push_back({.start = At(start),
                                   .end = At(rank.host),
                                   .name = out_.strings.Intern(call),
                                   .correlation = CorrelationId(rank.correlation),
                                   .thread = ThreadId(1)});
    return start + kLatencyUs;
  }

  capture::DeviceActivity& Add(Rank& rank, const std::string& name, uint32_t stream, double start, double end,
                               capture::ActivityKind kind) {
    rank.data.activities.push_back({.start = At(start),
                                    .end = At(end),
                                    .name = out_.strings.Intern(name),
                                    .stream = StreamId(stream),
                                    .correlation = CorrelationId(rank.correlation++),
                                    .kind = kind});
    return rank.data.activities.back();
  }

  void RunKernel(int r, Rank& rank, const JobOp& op) {
    const double launched = Launch(r, rank, op, "cudaLaunchKernel");
    const double start = std::max({launched, rank.stream_end[kCompute] + 1, rank.compute_ready + 1});
    KernelAt at = op.at;
    at.overlapped = start < rank.communicating;
    const auto which = static_cast<size_t>(at.kernel);
    double us = kLengthsUs[which] * (at.backward ? 2 : 1) * Noise(rank.random);
    if (job_.drift) us *= job_.drift(r, op.step);
    if (job_.kernel) us *= job_.kernel(at);
    Add(rank, std::string(kNames[which]) + (at.backward ? "_bwd" : ""), kCompute, start, start + us,
        capture::ActivityKind::kKernel);
    rank.stream_end[kCompute] = start + us;
  }

  void RunCopy(int r, Rank& rank, const JobOp& op) {
    const double launched = Launch(r, rank, op, "cudaMemcpyAsync");
    const double start = std::max(launched, rank.stream_end[kCopies] + 1);
    const double us = 200 * Noise(rank.random) * (job_.copy ? job_.copy(r, op.step) : 1);
    capture::DeviceActivity& a =
        Add(rank, "Memcpy HtoD", kCopies, start, start + us, capture::ActivityKind::kMemcpy);
    a.detail = static_cast<uint32_t>(rank.data.copy_details.size());
    rank.data.copy_details.push_back({.bytes = static_cast<uint64_t>(op.bytes), .copy_kind = 1});
    rank.stream_end[kCopies] = start + us;
    rank.compute_ready = std::max(rank.compute_ready, start + us);
  }

  void Wait(int r, Rank& rank, const JobOp& op) {
    Idle(r, rank, op, false);
    const double start = rank.host + 2;
    rank.host = std::max(start, rank.stream_end[kCompute]) + 4;
    rank.data.api_calls.push_back({.start = At(start),
                                   .end = At(rank.host),
                                   .name = out_.strings.Intern("cudaStreamSynchronize"),
                                   .correlation = CorrelationId(rank.correlation),
                                   .thread = ThreadId(1)});
    rank.data.syncs.push_back({.start = At(start),
                               .end = At(rank.host),
                               .correlation = CorrelationId(rank.correlation++),
                               .stream = StreamId(kCompute),
                               .type = capture::SyncType::kStream});
  }

  double LengthUs(const JobOp& op) const {
    if (op.op == CollectiveOp::kAllToAllV) {
      double most = 0;
      for (const int member : members_[op.group]) most = std::max(most, job_.tokens(member));
      return 90 * most;
    }
    if (op.op == CollectiveOp::kAllToAll) return 90;
    if (op.op == CollectiveOp::kSend || op.op == CollectiveOp::kReceive) return 40;
    return op.bytes >= (1 << 24) ? 700 : op.bytes > 64 ? 60 : 15;
  }

  double TransferFactor(const JobOp& op, const std::vector<int>& members) {
    if (!job_.transfer) return 1;
    const bool between = std::any_of(members.begin(), members.end(),
                                     [&](int m) { return job_.HostOf(m) != job_.HostOf(members[0]); });
    return job_.transfer({members, op.step, between});
  }

  // The rank reaches a transfer. Returns false until all members whose data it needs have arrived.
  bool RunTransfer(int r, Rank& rank, const JobOp& op) {
    const bool message = op.op == CollectiveOp::kSend || op.op == CollectiveOp::kReceive;
    const std::vector<int>& group = members_[op.group];
    const auto own = static_cast<int>(std::find(group.begin(), group.end(), r) - group.begin());
    std::vector<int> members = group;
    if (message)
      members = {group[static_cast<size_t>(op.op == CollectiveOp::kSend ? own : op.peer)],
                 group[static_cast<size_t>(op.op == CollectiveOp::kSend ? op.peer : own)]};
    const bool waiting = rank.waiting_at == rank.next;
    if (!waiting) {
      const double launched = Launch(r, rank, op, "cudaLaunchKernelExC");
      double start = std::max(launched, rank.stream_end[op.stream] + 1);
      if (op.op != CollectiveOp::kReceive)
        start = std::max(start, std::max(rank.stream_end[kCompute], rank.compute_ready) + 2);
      rank.arrived = start;
      rank.waiting_at = rank.next;
      rank.number = message ? rank.messages[{op.group, members[0], members[1]}]++
                            : rank.counts[{op.group, static_cast<int>(op.op)}]++;
    }
    Shared& shared = shared_[{op.group, message ? members[0] : -1, message ? members[1] : -1,
                              message ? 0 : static_cast<int>(op.op), rank.number}];
    if (!waiting) {
      ++shared.arrived;
      shared.latest = std::max(shared.latest, rank.arrived);
      if (op.op == CollectiveOp::kSend) shared.latest = rank.arrived;
      if (shared.length < 0) shared.length = LengthUs(op) * Noise(random_) * TransferFactor(op, members);
      if (op.op == CollectiveOp::kSend) shared.sent = true;
    }
    if (op.op == CollectiveOp::kReceive ? !shared.sent
                                        : (!message && shared.arrived < static_cast<int>(members.size())))
      return false;
    const double skew = std::uniform_real_distribution<double>(0, 1)(rank.random);
    const double from = op.op == CollectiveOp::kReceive ? std::max(shared.latest, rank.arrived)
                        : op.op == CollectiveOp::kSend  ? rank.arrived
                                                        : shared.latest;
    Finish(rank, op, from + shared.length + skew);
    rank.waiting_at = SIZE_MAX;
    return true;
  }

  void Finish(Rank& rank, const JobOp& op, double end) {
    const bool message = op.op == CollectiveOp::kSend || op.op == CollectiveOp::kReceive;
    const char* name = op.op == CollectiveOp::kAllReduce ? "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
                                                         : "ncclDevKernel_SendRecv";
    capture::DeviceActivity& a =
        Add(rank, name, op.stream, rank.arrived, end, capture::ActivityKind::kKernel);
    a.communication = true;
    a.collective = static_cast<uint32_t>(rank.data.collectives.size());
    capture::Collective c{
        .activity = static_cast<uint32_t>(rank.data.activities.size() - 1),
        .group = op.group,
        .op = op.op,
        .source = message ? capture::MatchSource::kOrder : capture::MatchSource::kNcclSequence,
        .bytes = op.bytes};
    if (!message) c.sequence = rank.number;
    if (message) c.peer = op.peer;
    rank.data.collectives.push_back(c);
    rank.stream_end[op.stream] = end;
    if (op.stream == kGradients) rank.communicating = std::max(rank.communicating, end);
    if (!op.overlapped) rank.compute_ready = std::max(rank.compute_ready, end);
  }

  struct Shared {
    int arrived = 0;
    double latest = 0;
    double length = -1;
    bool sent = false;
  };

  const SmallJob& job_;
  std::mt19937_64 random_;
  std::vector<Rank> ranks_;
  capture::Capture out_;
  std::vector<std::vector<int>> members_;
  std::vector<uint32_t> tensor_, data_, pipes_;
  uint32_t world_ = 0;
  std::map<std::tuple<uint32_t, int, int, int, int64_t>, Shared> shared_;
};

}  // namespace

capture::Capture CaptureOf(const SmallJob& job) { return Maker(job).Run(); }

}  // namespace lockstep::tests
