#include "tests/support/step_capture.h"

#include <algorithm>
#include <random>
#include <string>

namespace lockstep::tests {
namespace {

using capture::CollectiveOp;

constexpr int64_t kEpochNs = 1'750'000'000'000'000'000;
constexpr uint32_t kMicrobatches = 2;
constexpr double kKernelNs = 400'000, kTensorNs = 90'000, kMessageNs = 60'000, kGradientsNs = 2'500'000,
                 kWorldNs = 60'000, kCopyNs = 150'000;

// A collective of a group or a message, in execution.
struct Meeting {
  uint32_t group;
  CollectiveOp op;
  double transfer;
  int64_t sequence;
};

class World {
 public:
  explicit World(const StepCaptureShape& shape)
      : shape_(shape),
        random_(shape.seed),
        now_(shape.ranks(), 0),
        sent_(shape.ranks()),
        slowness_(shape.ranks(), 1) {
    for (uint32_t r : shape.slow_ranks) slowness_[r] = shape.slow_factor;
  }

  capture::Capture Run() {
    out_.live = true;
    out_.job = "steps";
    out_.world_size = static_cast<int32_t>(shape_.ranks());
    MakeHostsAndRanks();
    MakeGroups();
    for (uint32_t r = 0; r < shape_.ranks(); ++r)
      now_[r] = std::uniform_real_distribution<double>(0, 20'000)(random_);
    for (uint32_t step = 0; step < shape_.steps; ++step) Step(step);
    for (uint32_t r = 0; r < shape_.ranks(); ++r) out_.ranks[r].window = {At(0), At(now_[r])};
    capture::Finish(out_);
    return std::move(out_);
  }

 private:
  static HostTime At(double ns) { return HostTime(kEpochNs + static_cast<int64_t>(ns)); }
  uint32_t RankAt(uint32_t stage, uint32_t replica, uint32_t shard) const {
    return (stage * shape_.data_parallel + replica) * shape_.tensor_parallel + shard;
  }
  double Noisy(double ns) {
    return ns * std::max(0.5, 1 + shape_.noise * std::normal_distribution<double>()(random_));
  }

  void MakeHostsAndRanks() {
    const uint32_t ranks = shape_.ranks();
    for (uint32_t h = 0; h < (ranks + shape_.ranks_per_host - 1) / shape_.ranks_per_host; ++h) {
      out_.hosts.push_back({.id = "n" + std::to_string(h), .name = "n" + std::to_string(h)});
    }
    out_.ranks.resize(ranks);
    for (uint32_t r = 0; r < ranks; ++r) {
      out_.ranks[r].rank = RankId(static_cast<int32_t>(r));
      out_.ranks[r].host = r / shape_.ranks_per_host;
      out_.ranks[r].device = DeviceId(r % shape_.ranks_per_host);
    }
  }

  uint32_t AddGroup(const std::string& name, const std::vector<uint32_t>& members) {
    capture::Group g{.key = name, .name = name, .members = {}, .size = static_cast<int32_t>(members.size())};
    for (uint32_t m : members) g.members.push_back(RankId(static_cast<int32_t>(m)));
    out_.groups.push_back(std::move(g));
    members_.push_back(members);
    sequence_.push_back(0);
    return static_cast<uint32_t>(out_.groups.size()) - 1;
  }

  void MakeGroups() {
    std::vector<uint32_t> all;
    for (uint32_t r = 0; r < shape_.ranks(); ++r) all.push_back(r);
    world_ = AddGroup("world", all);
    for (uint32_t s = 0; s < shape_.pipeline_parallel; ++s) {
      for (uint32_t d = 0; d < shape_.data_parallel; ++d) {
        std::vector<uint32_t> members;
        for (uint32_t t = 0; t < shape_.tensor_parallel; ++t) members.push_back(RankAt(s, d, t));
        tensor_.push_back(AddGroup("tp.s" + std::to_string(s) + ".d" + std::to_string(d), members));
      }
      for (uint32_t t = 0; t < shape_.tensor_parallel; ++t) {
        std::vector<uint32_t> members;
        for (uint32_t d = 0; d < shape_.data_parallel; ++d) members.push_back(RankAt(s, d, t));
        data_.push_back(AddGroup("dp.s" + std::to_string(s) + ".t" + std::to_string(t), members));
      }
    }
    for (uint32_t d = 0; d < shape_.data_parallel; ++d) {
      for (uint32_t t = 0; t < shape_.tensor_parallel; ++t) {
        std::vector<uint32_t> members;
        for (uint32_t s = 0; s < shape_.pipeline_parallel; ++s) members.push_back(RankAt(s, d, t));
        pipeline_.push_back(AddGroup("pp.d" + std::to_string(d) + ".t" + std::to_string(t), members));
      }
    }
  }

  // ---- units

  void Add(uint32_t rank, const char* name, double start, double end,
           capture::ActivityKind kind = capture::ActivityKind::kKernel) {
    capture::DeviceActivity a;
    a.start = At(start);
    a.end = At(end);
    a.name = out_.strings.Intern(name);
    a.stream = StreamId(7);
    a.kind = kind;
    out_.ranks[rank].activities.push_back(a);
  }

  void Kernel(uint32_t rank, const char* name, double part) {
    const double end = now_[rank] + Noisy(kKernelNs * part) * slowness_[rank];
    Add(rank, name, now_[rank], end);
    now_[rank] = end + 1'500;
  }

  void Copy(uint32_t rank) {
    const double end = now_[rank] + Noisy(kCopyNs);
    Add(rank, "Memcpy HtoD", now_[rank], end, capture::ActivityKind::kMemcpy);
    now_[rank] = end + 1'500;
  }

  void AddCommunication(uint32_t rank, const Meeting& m, double start, double end, int64_t sequence,
                        int32_t peer) {
    capture::RankData& data = out_.ranks[rank];
    data.collectives.push_back({.activity = static_cast<uint32_t>(data.activities.size()),
                                .group = m.group,
                                .op = m.op,
                                .source = capture::MatchSource::kNcclSequence,
                                .sequence = sequence,
                                .bytes = static_cast<int64_t>(m.transfer) * 100,
                                .peer = peer});
    Add(rank, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start, end);
    data.activities.back().communication = true;
    data.activities.back().collective = static_cast<uint32_t>(data.collectives.size()) - 1;
  }

  void Collective(uint32_t group, CollectiveOp op, double transfer_ns) {
    const Meeting m{group, op, transfer_ns, sequence_[group]++};
    double latest = 0;
    for (uint32_t r : members_[group]) latest = std::max(latest, now_[r]);
    const double transfer = Noisy(transfer_ns);
    for (uint32_t r : members_[group]) {
      const double end = latest + transfer + std::uniform_real_distribution<double>(0, 1'500)(random_);
      AddCommunication(r, m, now_[r], end, m.sequence, -1);
      now_[r] = end + 1'500;
    }
  }

  // Sends a message to the next or the previous stage. The sender continues at once, the receiver waits.
  void Message(uint32_t from_stage, uint32_t to_stage, uint32_t replica, uint32_t shard) {
    const uint32_t group = pipeline_[replica * shape_.tensor_parallel + shard];
    const uint32_t from = RankAt(from_stage, replica, shard), to = RankAt(to_stage, replica, shard);
    const double transfer = Noisy(kMessageNs);
    AddCommunication(from, {group, CollectiveOp::kSend, kMessageNs, 0}, now_[from], now_[from] + transfer,
                     sent_[from]++, static_cast<int32_t>(to_stage));
    const double start = now_[to], end = std::max(now_[to], now_[from]) + transfer;
    now_[from] += transfer + 1'500;
    AddCommunication(to, {group, CollectiveOp::kReceive, kMessageNs, 0}, start, end, sent_[to]++,
                     static_cast<int32_t>(from_stage));
    now_[to] = end + 1'500;
  }

  // ---- a step

  void Step(uint32_t step) {
    const std::vector<double> begin = now_;
    for (uint32_t r = 0; r < shape_.ranks(); ++r) {
      Copy(r);
      Kernel(r, "embedding", 0.2);
    }
    Collective(world_, CollectiveOp::kAllReduce, kWorldNs);
    for (uint32_t m = 0; m < kMicrobatches; ++m) {
      for (uint32_t s = 0; s < shape_.pipeline_parallel; ++s) Pass(s, s + 1, 1);
    }
    for (uint32_t m = 0; m < kMicrobatches; ++m) {
      for (uint32_t s = shape_.pipeline_parallel; s > 0; --s)
        Pass(s - 1, s >= 2 ? s - 2 : shape_.pipeline_parallel, 2);
    }
    for (uint32_t g : data_) Collective(g, CollectiveOp::kReduceScatter, kGradientsNs);
    for (uint32_t r = 0; r < shape_.ranks(); ++r) Kernel(r, "grad_norm", 0.2);
    Collective(world_, CollectiveOp::kAllReduce, kWorldNs);
    for (uint32_t r = 0; r < shape_.ranks(); ++r) Kernel(r, "adam", 0.8);
    for (uint32_t g : data_) Collective(g, CollectiveOp::kAllGather, kGradientsNs);
    if (shape_.steps == 1) return;
    for (uint32_t r = 0; r < shape_.ranks(); ++r) {
      out_.ranks[r].ranges.push_back(
          {.start = At(begin[r] - 700),
           .end = At(now_[r] - 800),
           .name = out_.strings.Intern("ProfilerStep#" + std::to_string(100 + step)),
           .thread = ThreadId(1)});
    }
  }

  // Runs one microbatch through a stage and sends it to `next`, if that stage exists.
  void Pass(uint32_t stage, uint32_t next, double part) {
    for (uint32_t d = 0; d < shape_.data_parallel; ++d) {
      for (const char* name : {"attention", "mlp"}) {
        for (uint32_t t = 0; t < shape_.tensor_parallel; ++t) {
          Kernel(RankAt(stage, d, t), "norm", 0.1);
          Kernel(RankAt(stage, d, t), name, part);
        }
        Collective(tensor_[stage * shape_.data_parallel + d], CollectiveOp::kAllReduce, kTensorNs);
      }
      if (next >= shape_.pipeline_parallel) continue;
      for (uint32_t t = 0; t < shape_.tensor_parallel; ++t) Message(stage, next, d, t);
    }
  }

  const StepCaptureShape& shape_;
  std::mt19937_64 random_;
  std::vector<double> now_;
  std::vector<int64_t> sent_;
  std::vector<double> slowness_;
  std::vector<std::vector<uint32_t>> members_;
  std::vector<int64_t> sequence_;
  uint32_t world_ = 0;
  std::vector<uint32_t> tensor_, data_, pipeline_;
  capture::Capture out_;
};

}  // namespace

capture::Capture StepCapture(const StepCaptureShape& shape) { return World(shape).Run(); }

}  // namespace lockstep::tests
