#include "capture/infer/joint_kernels.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/median.h"

namespace lockstep::capture {
namespace {

constexpr uint32_t kNotFound = UINT32_MAX;
// Joint operations come at least this often, at regular places among the others, and are fewer than these.
constexpr size_t kLeastJoint = 3;
constexpr double kRegular = 0.75, kMostOfAll = 0.5;
// Waiting shows in an operation that lasts this many times as long as usual.
constexpr double kLonger = 2;

struct Meeting {
  uint32_t index;  // in the first sequence
  bool waited;     // a member stayed much longer than usual, until the last one had come
};

std::vector<Meeting> FindMeetings(std::span<const std::span<const KernelInterval>> sequences) {
  std::vector<double> usual;
  for (const auto& sequence : sequences) {
    std::vector<double> lengths;
    for (const KernelInterval& k : sequence) lengths.push_back(k.end_ns - k.start_ns);
    usual.push_back(Median(std::move(lengths)));
  }
  std::vector<Meeting> meetings;
  for (uint32_t i = 0; i < sequences[0].size(); ++i) {
    double latest = sequences[0][i].start_ns, earliest_end = sequences[0][i].end_ns;
    bool all = true, longer = sequences[0][i].end_ns - sequences[0][i].start_ns > kLonger * usual[0];
    for (size_t s = 1; s < sequences.size() && all; ++s) {
      const uint32_t other = EndsAt(sequences[s], sequences[0][i].end_ns);
      all = other != kNotFound;
      if (!all) break;
      const KernelInterval& k = sequences[s][other];
      latest = std::max(latest, k.start_ns);
      earliest_end = std::min(earliest_end, k.end_ns);
      longer |= k.end_ns - k.start_ns > kLonger * usual[s];
    }
    if (all && earliest_end >= latest) meetings.push_back({i, longer});
  }
  return meetings;
}

// The most frequent distance between the places of meetings that show waiting.
uint32_t UsualDistance(const std::vector<Meeting>& meetings) {
  std::map<uint32_t, size_t> count;
  uint32_t best = 0;
  for (size_t i = 1; i < meetings.size(); ++i) {
    const uint32_t distance = meetings[i].index - meetings[i - 1].index;
    if (++count[distance] > count[best]) best = distance;
  }
  return best;
}

}  // namespace

uint32_t EndsAt(std::span<const KernelInterval> sequence, double end_ns) {
  const auto after = std::partition_point(sequence.begin(), sequence.end(),
                                          [&](const KernelInterval& k) { return k.end_ns < end_ns; });
  uint32_t best = kNotFound;
  double nearest = kJointNs;
  for (auto at = after == sequence.begin() ? after : after - 1; at != sequence.end() && at <= after; ++at) {
    const double apart = std::fabs(at->end_ns - end_ns);
    if (apart > nearest) continue;
    nearest = apart;
    best = static_cast<uint32_t>(at - sequence.begin());
  }
  return best;
}

std::vector<uint32_t> FindJointKernels(std::span<const std::span<const KernelInterval>> sequences) {
  if (sequences.size() < 2 || sequences[0].empty()) return {};
  const std::vector<Meeting> meetings = FindMeetings(sequences);
  std::vector<Meeting> waited;
  std::copy_if(meetings.begin(), meetings.end(), std::back_inserter(waited),
               [](const Meeting& m) { return m.waited; });
  if (waited.size() < kLeastJoint) return {};
  // Ends of unrelated operations coincide now and then, but not once per step.
  const uint32_t distance = UsualDistance(waited);
  if (distance < 2) return {};
  std::map<uint32_t, size_t> by_place;
  for (const Meeting& m : waited) ++by_place[m.index % distance];
  const auto place = std::max_element(by_place.begin(), by_place.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  if (place->second < kLeastJoint ||
      static_cast<double>(place->second) < kRegular * static_cast<double>(waited.size()))
    return {};
  std::vector<uint32_t> joint;
  for (const Meeting& m : meetings) {
    if (m.index % distance == place->first) joint.push_back(m.index);
  }
  const bool few = static_cast<double>(joint.size()) <= kMostOfAll * static_cast<double>(sequences[0].size());
  return few ? joint : std::vector<uint32_t>();
}

}  // namespace lockstep::capture
