#include "analysis/replay/contention.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace lockstep::analysis {
namespace {

using capture::CollectiveOp;
using capture::kNone;

// A share needs at least this many kernels of a kind on a rank. Their times beside collectives must differ by
// this share of their length.
constexpr uint32_t kLeastKernels = 12;
constexpr double kLeastSpread = 0.05;
// Kernels of one name and shape do different work if they vary by more than this for other reasons.
constexpr double kAlike = 0.15;
// Different work shows as a gap between lengths: the next longer kernel takes this much more.
constexpr double kGap = 1.2;
// A share is used if it is at least this many times its error, and is limited to kMostShare.
constexpr double kSignificantErrors = 4.0, kMostShare = 0.6;
// Ratio of the error of a median to that of a mean.
constexpr double kMedianError = 1.25;
// Changes below this are rounding.
constexpr double kNothingNs = 2;

struct Span {
  double begin, end;
};

// Makes the spans disjoint and sorted.
void Merge(std::vector<Span>& spans) {
  const auto by_begin = [](const Span& a, const Span& b) { return a.begin < b.begin; };
  if (!std::is_sorted(spans.begin(), spans.end(), by_begin)) std::sort(spans.begin(), spans.end(), by_begin);
  size_t kept = 0;
  for (const Span& s : spans) {
    if (kept > 0 && s.begin <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, s.end);
    } else {
      spans[kept++] = s;
    }
  }
  spans.resize(kept);
}

std::vector<Span>::const_iterator FirstAfter(const std::vector<Span>& spans, double t) {
  return std::partition_point(spans.begin(), spans.end(), [&](const Span& s) { return s.end <= t; });
}

double Covered(const std::vector<Span>& spans, double begin, double end) {
  double sum = 0;
  for (auto s = FirstAfter(spans, begin); s != spans.end() && s->begin < end; ++s)
    sum += std::min(end, s->end) - std::max(begin, s->begin);
  return sum;
}

// The additional time of work that starts at `begin`, if it loses the share `share` of its time in the spans.
double SlowedBy(const std::vector<Span>& spans, double begin, double work, double share) {
  double at = begin, left = work;
  for (auto s = FirstAfter(spans, begin); s != spans.end() && left > 0; ++s) {
    const double alone = std::max(0.0, s->begin - at);
    if (alone >= left) break;
    left -= alone;
    at = std::max(at, s->begin);
    const double done = (s->end - at) * (1 - share);
    if (done >= left) return at + left / (1 - share) - begin - work;
    left -= done;
    at = s->end;
  }
  return at + left - begin - work;
}

// Sums over one rank's kernels of one kind: length against time beside collectives.
struct Sums {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
  void Add(double contention, double length) {
    ++n;
    x += contention;
    y += length;
    xx += contention * contention;
    xy += contention * length;
    yy += length * length;
  }
};
struct Measured {
  double share, error;
};

// A kernel's length and its time beside collectives.
struct Sample {
  double length, contention;
};

class Separator {
 public:
  Separator(const capture::Capture& capture, Graph& graph) : capture_(capture), g_(graph) {}

  void Run() {
    const size_t units = g_.units.size();
    g_.contention.assign(units, 0);
    g_.contention_share.assign(units, 0);
    kind_of_.assign(units, kNone);
    covered_.assign(units, 0);
    const size_t ranks = g_.rank_begin.empty() ? 0 : g_.rank_begin.size() - 1;
    for (uint32_t r = 0; r < ranks; ++r) MeasureRank(r);
    std::vector<double> shares;
    bool any = false;
    for (std::vector<Measured>& m : measured_) {
      shares.push_back(Share(m));
      any = any || shares.back() > 0;
    }
    if (!any) g_.occupying.clear();
    for (uint32_t u = 0; u < units && any; ++u) {
      if (kind_of_[u] == kNone || shares[kind_of_[u]] <= 0) continue;
      g_.contention_share[u] = static_cast<float>(shares[kind_of_[u]]);
      g_.contention[u] = std::floor(g_.contention_share[u] * covered_[u]);
      g_.work[u] -= g_.contention[u];
    }
  }

 private:
  bool Occupies(const capture::RankData& rank, const capture::DeviceActivity& a) const {
    if (a.collective >= rank.collectives.size()) return true;
    const CollectiveOp op = rank.collectives[a.collective].op;
    return op != CollectiveOp::kSend && op != CollectiveOp::kReceive;
  }

  uint32_t KindOf(const capture::RankData& rank, const capture::DeviceActivity& a) {
    uint64_t shape = 0;
    if (a.detail < rank.kernel_details.size()) {
      const capture::KernelDetail& d = rank.kernel_details[a.detail];
      for (const uint64_t part : {uint64_t{d.grid[0]}, uint64_t{d.grid[1]}, uint64_t{d.grid[2]},
                                  uint64_t{d.block[0]}, uint64_t{d.block[1]}, uint64_t{d.block[2]}}) {
        shape = shape * 0x9E3779B97F4A7C15ull + part;
      }
    }
    const auto [it, fresh] =
        kinds_.try_emplace({a.name.value(), shape}, static_cast<uint32_t>(measured_.size()));
    if (fresh) {
      measured_.emplace_back();
      sums_.emplace_back();
    }
    return it->second;
  }

  void MeasureRank(uint32_t r) {
    const capture::RankData& rank = capture_.ranks[r];
    spans_.clear();
    for (uint32_t u = g_.rank_begin[r]; u < g_.rank_begin[r + 1]; ++u) {
      if (g_.units[u].kind != UnitKind::kTransfer || !Occupies(rank, rank.activities[g_.units[u].source]))
        continue;
      g_.occupying.push_back(u);
      spans_.push_back({g_.start[u], g_.end[u]});
    }
    Merge(spans_);
    if (spans_.empty()) return;
    for (Sums& s : sums_) s = {};
    for (uint32_t u = g_.rank_begin[r]; u < g_.rank_begin[r + 1]; ++u) {
      if (g_.units[u].kind != UnitKind::kKernel) continue;
      kind_of_[u] = KindOf(rank, rank.activities[g_.units[u].source]);
      covered_[u] = Covered(spans_, g_.start[u], g_.end[u]);
      if (g_.units[u].step >= 0) sums_[kind_of_[u]].Add(covered_[u], g_.end[u] - g_.start[u]);
    }
    std::vector<uint8_t> unlike(sums_.size(), 0);
    for (size_t k = 0; k < sums_.size(); ++k) unlike[k] = MeasureAlike(k, sums_[k]) ? 0 : 1;
    if (std::find(unlike.begin(), unlike.end(), 1) != unlike.end()) MeasureByLength(r, unlike);
  }

  // Returns false if the kernels do different work. Their common share then means nothing.
  bool MeasureAlike(size_t kind, const Sums& s) {
    if (s.n < kLeastKernels) return true;
    const double xx = s.xx - s.x * s.x / s.n, xy = s.xy - s.x * s.y / s.n, yy = s.yy - s.y * s.y / s.n,
                 mean = s.y / s.n;
    if (mean <= 0) return true;
    const bool spread = xx >= s.n * kLeastSpread * kLeastSpread * mean * mean;
    const double share = spread ? xy / xx : 0, rest = std::max(0.0, yy - share * xy) / (s.n - 2);
    if (rest > kAlike * kAlike * mean * mean) return false;
    if (spread) measured_[kind].push_back({share, std::sqrt(rest / xx)});
    return true;
  }

  // Libraries use one kernel for products of several sizes. Measures the kernels of each size alone.
  void MeasureByLength(uint32_t r, const std::vector<uint8_t>& unlike) {
    std::vector<std::vector<Sample>> samples(unlike.size());
    for (uint32_t u = g_.rank_begin[r]; u < g_.rank_begin[r + 1]; ++u) {
      if (g_.units[u].kind != UnitKind::kKernel || g_.units[u].step < 0 || unlike[kind_of_[u]] == 0) continue;
      samples[kind_of_[u]].push_back({g_.end[u] - g_.start[u], covered_[u]});
    }
    for (size_t k = 0; k < samples.size(); ++k) {
      std::vector<Sample>& list = samples[k];
      std::sort(list.begin(), list.end(), [](const Sample& a, const Sample& b) {
        return std::pair(a.length, a.contention) < std::pair(b.length, b.contention);
      });
      Sums size;
      for (size_t i = 0; i < list.size(); ++i) {
        if (i > 0 && list[i].length > kGap * list[i - 1].length) {
          MeasureAlike(k, size);
          size = {};
        }
        size.Add(list[i].contention, list[i].length);
      }
      MeasureAlike(k, size);
    }
  }

  // Weighted median over the ranks; 0 if it may be chance.
  static double Share(std::vector<Measured>& ranks) {
    if (ranks.empty()) return 0;
    std::sort(ranks.begin(), ranks.end(), [](const Measured& a, const Measured& b) {
      return std::pair(a.share, a.error) < std::pair(b.share, b.error);
    });
    const auto weight = [](const Measured& m) { return 1 / std::max(1e-12, m.error * m.error); };
    double all = 0, seen = 0;
    for (const Measured& m : ranks) all += weight(m);
    double share = 0;
    for (const Measured& m : ranks) {
      share = m.share;
      seen += weight(m);
      if (2 * seen >= all) break;
    }
    return share > kSignificantErrors * kMedianError / std::sqrt(all) ? std::min(share, kMostShare) : 0;
  }

  const capture::Capture& capture_;
  Graph& g_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, uint32_t> kinds_;  // name and shape
  std::vector<uint32_t> kind_of_;                                       // by unit
  std::vector<double> covered_;                                         // by unit
  std::vector<Sums> sums_;                                              // of one rank, by kind
  std::vector<std::vector<Measured>> measured_;                         // by kind
  std::vector<Span> spans_;
};

}  // namespace

void SeparateContention(const capture::Capture& capture, Graph& graph) { Separator(capture, graph).Run(); }

ContentionPlacer::ContentionPlacer(const Schedule& schedule) : graph_(schedule.graph()) {
  for (size_t i = 0; i < graph_.occupying.size();) {
    const uint32_t r = graph_.units[graph_.occupying[i]].rank_index;
    RankPart part{};
    for (; i < graph_.occupying.size() && graph_.units[graph_.occupying[i]].rank_index == r; ++i)
      ++part.spans;
    for (uint32_t u = graph_.rank_begin[r]; u < graph_.rank_begin[r + 1]; ++u) {
      if (graph_.contention_share[u] == 0) continue;
      kernels_.push_back(u);
      ++part.kernels;
    }
    ranks_.push_back(part);
  }
}

void ContentionPlacer::Place(const Replay& replay, Timing& timing, std::vector<uint32_t>& changed) {
  const uint32_t* occupying = graph_.occupying.data();
  const uint32_t* kernel = kernels_.data();
  std::vector<Span> spans;
  for (const RankPart& part : ranks_) {
    spans.clear();
    for (uint32_t i = 0; i < part.spans; ++i, ++occupying)
      spans.push_back({replay.At(StartOf(*occupying)), replay.At(EndOf(*occupying))});
    Merge(spans);
    for (uint32_t i = 0; i < part.kernels; ++i, ++kernel) {
      const double added = std::max(0.0, SlowedBy(spans, replay.At(StartOf(*kernel)), timing.work[*kernel],
                                                  graph_.contention_share[*kernel]));
      if (std::fabs(added - timing.contention[*kernel]) < kNothingNs) continue;
      timing.contention[*kernel] = added;
      changed.push_back(*kernel);
    }
  }
}

}  // namespace lockstep::analysis
