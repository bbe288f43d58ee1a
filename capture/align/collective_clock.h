// What collectives say about two hosts' clocks: nobody leaves before those whose data it needs have come.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_COLLECTIVE_CLOCK_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_COLLECTIVE_CLOCK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "capture/align/clock_fit.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::align {

// "The second host's clock leads the first's by at least / at most / about so much", read on the first host's
// clock.
struct HostPairEvidence {
  struct Limit {
    HostTime at;
    Nanos lead;
    bool exchange;  // rests on the assumption that a send/receive kernel exchanges with all
  };
  std::vector<Limit> uppers;
  std::vector<Limit> lowers;
  std::vector<LeadSample> samples;
  // Of what goes one way only.
  std::vector<LeadSample> to_first, to_second;
  bool limits_only = true;  // of meetings in which others were compared with some third host
};

using HostPair = std::pair<uint32_t, uint32_t>;  // ascending
using PairEvidence = absl::flat_hash_map<HostPair, HostPairEvidence>;

// Of every pair of hosts that share a usable instance, but where many share one: pairs with `reference` (or,
// when it is not among them, with the first), whose samples add up, and with the host that came last, which
// limits the others most tightly.
PairEvidence CollectEvidence(const store::Capture& capture, const Matches& matches, uint32_t reference);

struct PairFit {
  ClockFit fit;
  OffsetRegion region;  // solved unless fit.contradicted; means nothing where fit.stepped
};

// How far the second host leads the first, over `window` on the first's clock.
PairFit FitPair(const HostPairEvidence& evidence, HostInterval window);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_COLLECTIVE_CLOCK_H_
