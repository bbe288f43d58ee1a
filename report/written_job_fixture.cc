#include "report/written_job_fixture.h"

#include <algorithm>
#include <random>

#include "capture/model/timeline_builder_fixture.h"

namespace lockstep::report {
namespace {

using capture::ActivityKind;
using capture::CollectiveOp;

constexpr int kMultiprocessors = 10;

struct KernelName {
  const char* name;
  bool tensor_cores;
};
constexpr KernelName kNames[] = {{"ampere_fp16_s16816gemm_fp16_128x128", true},
                                 {"sm90_xmma_gemm_bf16bf16", true},
                                 {"flash_fwd_kernel", true},
                                 {"vectorized_elementwise_kernel", false},
                                 {"layer_norm_kernel", false}};

// The work of every rank in each step: a kernel, and perhaps a collective after it.
struct Item {
  KernelName name;
  int64_t length = 0;
  double blocks = -1, occupancy = -1;
  bool states_grid = false;  // true: the record states a grid; false: blocks per multiprocessor
  bool meets = false;
  bool all = false;     // a collective of all ranks; false: of neighbours
  bool beside = false;  // the next kernel does not wait for the collective
  CollectiveOp op = CollectiveOp::kAllReduce;
  int64_t bytes = -1;
  int root = -1;  // place in the group
  int64_t transfer = 0;
  bool sets = false;  // sets memory on its own stream, beside other work
};

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed), with_calls_(seed % 2 == 0) {
    const int ranks = 4 + 2 * Draw(0, 6);
    job_.steps = Draw(5, 8);
    job_.ranks.resize(static_cast<size_t>(ranks));
    std::vector<int> all;
    for (int r = 0; r < ranks; ++r) all.push_back(r);
    AddGroup("world", all);
    for (int r = 0; r < ranks; r += 2) AddGroup("pair" + std::to_string(r / 2), {r, r + 1});
    host_.assign(job_.ranks.size(), 0);
    compute_.assign(job_.ranks.size(), 0);
    network_.assign(job_.ranks.size(), 0);
    memory_.assign(job_.ranks.size(), 0);
    launch_.assign(job_.ranks.size(), 0);
    sequence_.assign(job_.groups.size(), 0);
    for (int i = Draw(4, 7); i > 0; --i) items_.push_back(DrawItem());
    // The last collective joins all ranks, so that no rank runs ahead.
    items_.back().meets = items_.back().all = true;
    items_.back().beside = false;
    items_.back().op = CollectiveOp::kAllReduce;
    items_.back().root = -1;
  }

  WrittenJob Run() {
    for (int step = 0; step < job_.steps; ++step) Step(step);
    for (size_t r = 0; r < job_.ranks.size(); ++r) {
      capture::RankData& data = Rank(r).data();
      data.properties.sms = kMultiprocessors;
      data.window = {capture::TimelineBuilder::At(0),
                     capture::TimelineBuilder::At(static_cast<double>(host_[r]))};
    }
    job_.capture = builder_.Build();
    return std::move(job_);
  }

 private:
  int Draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  capture::RankTimeline& Rank(size_t r) { return builder_.Rank(static_cast<int32_t>(r)); }

  void AddGroup(const std::string& name, const std::vector<int>& members) {
    builder_.Group(name, std::vector<int32_t>(members.begin(), members.end()));
    job_.groups.push_back(members);
    job_.names.push_back(name);
  }

  Item DrawItem() {
    Item item{.name = kNames[Draw(0, 4)], .length = Draw(40, 200)};
    if (Draw(0, 2) > 0) item.blocks = Draw(1, 16) / 10.0;
    item.states_grid = Draw(0, 1) == 0;
    if (Draw(0, 2) > 0) item.occupancy = Draw(1, 100) / 100.0;
    item.meets = Draw(0, 3) > 0;
    item.all = Draw(0, 1) == 0;
    item.beside = Draw(0, 1) == 0;
    constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce,     CollectiveOp::kAllGather,
                                     CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll,
                                     CollectiveOp::kBroadcast,     CollectiveOp::kReduce};
    item.op = kOps[Draw(0, 5)];
    if (item.op == CollectiveOp::kBroadcast || item.op == CollectiveOp::kReduce) item.root = Draw(0, 1);
    item.bytes = Draw(0, 5) == 0 ? -1 : 1024 * Draw(1, 4000);
    item.transfer = Draw(20, 150);
    item.sets = Draw(0, 2) == 0;
    return item;
  }

  void Step(int step) {
    for (size_t r = 0; r < job_.ranks.size(); ++r) Begin(r, step);
    for (const Item& item : items_) {
      for (size_t r = 0; r < job_.ranks.size(); ++r) {
        RunKernel(r, step, item);
        if (item.sets) SetMemory(r, step);
      }
      if (!item.meets) continue;
      for (size_t g = 0; g < job_.groups.size(); ++g) {
        if ((g == 0) == item.all) Meet(g, step, item);
      }
    }
    for (size_t r = 0; r < job_.ranks.size(); ++r) End(r, step);
  }

  // The host comes some time after its previous step, loads data, and copies it.
  void Begin(size_t r, int step) {
    host_[r] += Draw(5, 30);
    begin_ = host_[r];
    job_.ranks[r].steps.push_back({begin_, begin_});
    Stretch loads{begin_ + 1, begin_ + 1 + Draw(0, 60)};
    job_.ranks[r].loaders.push_back(loads);
    Rank(r).Range("enumerate(DataLoader)", static_cast<double>(loads.start),
                  static_cast<double>(loads.length()));
    launch_[r] = loads.end + 1;
    AddOperator(r, {launch_[r], launch_[r] + Draw(30, 120)});
    const bool copies = step % 2 == 0;
    const double launch = Launch(r);
    const int64_t start = std::max(compute_[r], launch_[r]), length = Draw(10, 50);
    Rank(r).Copy(4096, static_cast<double>(start), static_cast<double>(length), 7, launch);
    if (!copies) Rank(r).data().activities.back().kind = ActivityKind::kMemset;
    job_.ranks[r].ops.push_back({.time = {start, start + length},
                                 .kind = copies ? ActivityKind::kMemcpy : ActivityKind::kMemset,
                                 .step = step});
    compute_[r] = start + length + Draw(0, 4);
  }

  void AddOperator(size_t r, Stretch time) {
    job_.ranks[r].operators.push_back(time);
    Rank(r).Range("aten::linear", static_cast<double>(time.start), static_cast<double>(time.length()));
    Rank(r).data().ranges.back().kind = capture::RangeKind::kOperator;
  }

  // Returns the time of the next call, or a negative number if calls are not recorded. launch_ is then the
  // earliest start on the device.
  double Launch(size_t r) {
    const int64_t at = launch_[r];
    launch_[r] += 4;
    if (!with_calls_) return -1;
    job_.ranks[r].calls.push_back({at, at + 2});  // a launch takes 2 us
    return static_cast<double>(at);
  }

  void RunKernel(size_t r, int step, const Item& item) {
    const double launch = Launch(r);
    WrittenOp op{.tensor_cores = item.name.tensor_cores,
                 .step = step,
                 .blocks = item.blocks,
                 .occupancy = item.occupancy};
    op.time.start = std::max(compute_[r], launch_[r]);
    op.time.end = op.time.start + item.length + Draw(0, 30) + (r == 1 ? 25 : 0);
    Rank(r).Kernel(item.name.name, static_cast<double>(op.time.start), static_cast<double>(op.time.length()),
                   7, launch);
    capture::RankData& data = Rank(r).data();
    data.activities.back().detail = static_cast<uint32_t>(data.kernel_details.size());
    data.kernel_details.emplace_back();
    capture::KernelDetail& detail = data.kernel_details.back();
    if (item.blocks >= 0 && item.states_grid)
      detail.grid[0] = static_cast<uint32_t>(item.blocks * kMultiprocessors + 0.5),
      detail.grid[1] = detail.grid[2] = 1;
    if (item.blocks >= 0 && !item.states_grid) detail.blocks_per_sm = static_cast<float>(item.blocks);
    if (item.occupancy >= 0) detail.occupancy_percent = static_cast<float>(item.occupancy * 100);
    job_.ranks[r].ops.push_back(op);
    compute_[r] = op.time.end + Draw(0, 4);
  }

  void SetMemory(size_t r, int step) {
    const double launch = Launch(r);
    WrittenOp op{.kind = ActivityKind::kMemset, .step = step};
    op.time.start = std::max({memory_[r], compute_[r], launch_[r]});
    op.time.end = op.time.start + Draw(20, 120);
    Rank(r).Copy(512, static_cast<double>(op.time.start), static_cast<double>(op.time.length()), 9, launch);
    Rank(r).data().activities.back().kind = ActivityKind::kMemset;
    job_.ranks[r].ops.push_back(op);
    memory_[r] = op.time.end + 1;
  }

  void Meet(size_t g, int step, const Item& item) {
    const std::vector<int>& ranks = job_.groups[g];
    WrittenCollective c{
        .group = static_cast<int>(g), .op = item.op, .bytes = item.bytes, .step = step, .ranks = ranks};
    if (item.root >= 0) c.root = ranks[static_cast<size_t>(item.root)];
    int64_t latest = 0, root_came = 0;
    std::vector<double> launches;
    for (int rank : ranks) {
      const auto r = static_cast<size_t>(rank);
      launches.push_back(Launch(r));
      const int64_t came = std::max({network_[r], compute_[r] + Draw(0, 5), launch_[r]});
      c.times.push_back({came, came});
      latest = std::max(latest, came);
      if (rank == c.root) root_came = came;
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      const bool is_root = ranks[i] == c.root;
      int64_t met = latest;
      if (c.op == CollectiveOp::kBroadcast)
        met = is_root ? c.times[i].start : std::max(c.times[i].start, root_came);
      if (c.op == CollectiveOp::kReduce) met = is_root ? latest : c.times[i].start;
      c.times[i].end = met + item.transfer + Draw(0, 3);
      WriteMember(c, i, item, launches[i]);
    }
    ++sequence_[g];
    job_.collectives.push_back(std::move(c));
  }

  void WriteMember(const WrittenCollective& c, size_t i, const Item& item, double launch) {
    const auto r = static_cast<size_t>(c.ranks[i]);
    const auto group = static_cast<uint32_t>(c.group);
    Rank(r).Communication(
        {.op = c.op,
         .group = group,
         .source = c.group == 0 ? capture::MatchSource::kNcclSequence : capture::MatchSource::kGroupSequence,
         .sequence = sequence_[group],
         .bytes = c.bytes,
         .root = item.root},
        static_cast<double>(c.times[i].start), static_cast<double>(c.times[i].length()), 15, launch);
    job_.ranks[r].ops.push_back({.time = c.times[i], .communication = true, .step = c.step});
    network_[r] = c.times[i].end + 1;
    if (!item.beside) compute_[r] = std::max(compute_[r], network_[r]);
  }

  // The host waits for its device.
  void End(size_t r, int step) {
    const int64_t from = launch_[r] + 2,
                  until = std::max({from + 3, compute_[r], network_[r], memory_[r]}) + Draw(1, 6);
    if (with_calls_) {
      Rank(r).Api("cudaDeviceSynchronize", static_cast<double>(from), static_cast<double>(until - from));
      job_.ranks[r].calls.push_back({from, until});
    }
    host_[r] = until + Draw(0, 5);
    Stretch& range = job_.ranks[r].steps.back();
    range.end = host_[r];
    Rank(r).Step(100 + step, static_cast<double>(range.start), static_cast<double>(range.length()));
  }

  std::mt19937_64 random_;
  bool with_calls_;
  WrittenJob job_;
  capture::TimelineBuilder builder_;
  std::vector<Item> items_;
  int64_t begin_ = 0;
  std::vector<int64_t> host_, compute_, network_, memory_,
      launch_;                     // by rank: the time from which each of them is free
  std::vector<int64_t> sequence_;  // by group
};

}  // namespace

WrittenJob WriteJob(uint64_t seed) { return Writer(seed).Run(); }

}  // namespace lockstep::report
