// Evidence of collectives about two hosts' clocks. A member does not leave before the members whose data it
// needs have come.
#ifndef LOCKSTEP_CAPTURE_ALIGN_COLLECTIVE_CLOCK_H_
#define LOCKSTEP_CAPTURE_ALIGN_COLLECTIVE_CLOCK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/align/clock_fit.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::capture {

// Limits and readings of the lead of the second host's clock over the first's. Moments are on the first
// host's clock.
struct HostPairEvidence {
  struct Limit {
    HostTime at;
    Nanos lead;
    bool exchange;  // assumes that a send/receive kernel exchanges with all members
  };
  std::vector<Limit> uppers;
  std::vector<Limit> lowers;
  std::vector<LeadSample> samples;
  // Samples of transfers in one direction only.
  std::vector<LeadSample> to_first, to_second;
  bool limits_only = true;  // the pair has no samples: its instances compare both hosts with a third host
};

using HostPair = std::pair<uint32_t, uint32_t>;  // ascending
using PairEvidence = absl::flat_hash_map<HostPair, HostPairEvidence>;

// Collects evidence for pairs of hosts that share a usable instance. If many hosts share one, only two kinds
// of pairs are used. Each host is paired with `reference`, or with the first host if `reference` is not among
// them. Their samples add up. Each host is also paired with the host that came last, which limits the others
// most tightly.
PairEvidence CollectEvidence(const capture::Capture& capture, const Matches& matches, uint32_t reference);

struct PairFit {
  ClockFit fit;
  OffsetRegion region;  // solved unless fit.contradicted; meaningless if fit.stepped
};

// Fits the lead of the second host over the first, over `window` on the first's clock.
PairFit FitPair(const HostPairEvidence& evidence, HostInterval window);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_COLLECTIVE_CLOCK_H_
