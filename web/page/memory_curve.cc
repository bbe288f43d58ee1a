#include "web/page/memory_curve.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "views/host/memory.h"

namespace lockstep::web {
namespace {

using views::Memory;
using views::MemoryLife;
using views::MemoryPoint;

constexpr size_t kMostCurves = 4;
constexpr size_t kMostPeaks = 3;
constexpr size_t kMostOwners = 4;
constexpr int64_t kCurveBins = 400;
// Two peaks are at least this part of the curve apart. A further one has at least kPeakShare of the highest.
constexpr int64_t kApart = 8;
constexpr double kPeakShare = 0.5;

using Points = std::span<const MemoryPoint>;

// The points of one memory follow each other in Memory::curve.
std::vector<Points> MemoriesOf(const std::vector<MemoryPoint>& curve) {
  std::vector<Points> out;
  for (size_t from = 0, to = 0; from < curve.size(); from = to) {
    while (to < curve.size() && curve[to].place == curve[from].place && curve[to].kind == curve[from].kind)
      ++to;
    out.push_back(Points(curve).subspan(from, to - from));
  }
  return out;
}

int64_t HighestOf(Points points) {
  int64_t highest = points[0].in_use;
  for (const MemoryPoint& p : points) highest = std::max(highest, p.in_use);
  return highest;
}

void AddPoints(Points points, MemoryCurve& out) {
  const HostTime start = points.front().time;
  const int64_t width = (points.back().time - start).ns() / kCurveBins + 1;
  const auto add = [&](const MemoryPoint& p) {
    out.time_ns.push_back(static_cast<float>((p.time - start).ns()));
    out.in_use_bytes.push_back(static_cast<float>(p.in_use));
  };
  for (size_t from = 0, to = 0; from < points.size(); from = to) {
    const int64_t bin = (points[from].time - start).ns() / width;
    size_t lowest = from, highest = from;
    for (to = from; to < points.size() && (points[to].time - start).ns() / width == bin; ++to) {
      if (points[to].in_use < points[lowest].in_use) lowest = to;
      if (points[to].in_use > points[highest].in_use) highest = to;
    }
    add(points[std::min(lowest, highest)]);
    if (lowest != highest) add(points[std::max(lowest, highest)]);
  }
}

// Names the allocations that are in use at a peak.
void AddOwners(const Memory& memory, const MemoryPoint& at, MemoryPeak& peak) {
  std::map<std::string_view, int64_t> bytes;
  for (const MemoryLife& life : memory.lives) {
    if (life.place != at.place || life.kind != at.kind) continue;
    if (!life.allocated || *life.allocated > at.time || (life.released && *life.released <= at.time))
      continue;
    if (!life.by.empty()) bytes[life.by] += life.bytes;
  }
  for (const auto& [name, sum] : bytes) peak.owners.push_back({std::string(name), sum});
  std::stable_sort(peak.owners.begin(), peak.owners.end(),
                   [](const MemoryOwner& a, const MemoryOwner& b) { return a.bytes > b.bytes; });
  if (peak.owners.size() > kMostOwners) peak.owners.resize(kMostOwners);
  peak.unknown_bytes = peak.bytes;
  for (const MemoryOwner& owner : peak.owners) peak.unknown_bytes -= owner.bytes;
  peak.unknown_bytes = std::max<int64_t>(0, peak.unknown_bytes);
}

void AddPeaks(const Memory& memory, Points points, MemoryCurve& out) {
  const HostTime start = points.front().time;
  const Nanos apart((points.back().time - start).ns() / kApart);
  std::vector<size_t> order;
  for (size_t k = 0; k < points.size(); ++k) {
    // A point is a candidate only if the memory was lower before.
    if (k == 0 || points[k].in_use > points[k - 1].in_use) order.push_back(k);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return points[a].in_use > points[b].in_use; });
  for (const size_t k : order) {
    if (out.peaks.size() == kMostPeaks || points[k].in_use <= 0) break;
    if (!out.peaks.empty() &&
        static_cast<double>(points[k].in_use) < kPeakShare * static_cast<double>(out.peaks[0].bytes))
      break;
    const Nanos time = points[k].time - start;
    const bool near = std::any_of(out.peaks.begin(), out.peaks.end(), [&](const MemoryPeak& p) {
      return Nanos(std::abs((p.time - time).ns())) < apart;
    });
    if (near) continue;
    MemoryPeak peak{.time = time, .bytes = points[k].in_use, .owners = {}};
    AddOwners(memory, points[k], peak);
    out.peaks.push_back(std::move(peak));
  }
}

}  // namespace

std::vector<MemoryCurve> MakeMemoryCurves(const capture::Capture& capture) {
  const Memory memory = views::MemoryOf(capture);
  std::vector<Points> memories = MemoriesOf(memory.curve);
  std::stable_sort(memories.begin(), memories.end(), [](Points a, Points b) {
    const bool device_a = a[0].place.device >= 0, device_b = b[0].place.device >= 0;
    return device_a != device_b ? device_a : HighestOf(a) > HighestOf(b);
  });
  if (memories.size() > kMostCurves) memories.resize(kMostCurves);
  std::vector<MemoryCurve> out;
  for (const Points points : memories) {
    const MemoryPoint& first = points[0];
    MemoryCurve curve{.rank = first.place.rank,
                      .place = first.place.device < 0 ? "host" : absl::StrCat("GPU", first.place.device),
                      .kind = std::string(first.kind),
                      .relative = first.relative};
    AddPoints(points, curve);
    AddPeaks(memory, points, curve);
    out.push_back(std::move(curve));
  }
  return out;
}

}  // namespace lockstep::web
