// Every collective on every rank, cut into waiting for others and transfer; who came last, and whose waiting
// that is.
//
// Symmetric operations need no clock: nobody can leave before the last one came, so what a rank stays longer
// than the one that stayed least, it waited. One-way operations need aligned clocks and are left unsplit
// where the clocks' bound is larger than the operation. Definitions: docs/analysis.md. Pure; the result is
// read-only, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_COLLECTIVES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// One rank's part in one collective.
struct Part {
  Nanos wait;           // from its start; the rest of the duration is transfer
  Nanos wait_by_clock;  // latest start needed - own start, between 0 and the duration
  // All members were seen. Else the stay counts as unsplit: `wait` is then what it waited for those who were,
  // at least.
  bool split = false;
};

// One instance as a whole.
struct InstanceTiming {
  bool split = false;  // who waited for whom is known, among those whose records there are
  bool symmetric = false;
  bool rendezvous = false;  // a message too large for a buffer: its sender waits for its receiver
  bool partial = false;     // some members' records are missing: waits are at least, the transfer is at most
                            // what is said here
  uint32_t last = store::kNone;  // into Instance::members: the one the others waited for
  Nanos transfer;  // what remains when nobody waits: the least over the members, or the reference's
  Nanos skew;      // latest minus earliest start, on the job's clock
  Nanos stalled;   // what the last arriver's own transfer took longer than the reference: a stall of its own
};

struct CollectiveTimes {
  std::vector<std::vector<Part>> parts;   // [rank index][collective]
  std::vector<InstanceTiming> instances;  // as Matches::instances
  // Waiting of others that ended when this rank came, summed over instances: [rank index].
  std::vector<Nanos> caused_wait;
  std::vector<uint32_t> times_last;  // [rank index]
  uint64_t stalled = 0;              // instances whose last arriver's own transfer is an outlier
  uint64_t disagreeing =
      0;  // symmetric instances whose clock-free and clock-based waits differ beyond bound and exit skew
};

// Waiting of others that ended when each rank came, in the used steps only; by rank index.
std::vector<Nanos> CausedWaitInSteps(const store::Capture& capture, const align::Matches& matches,
                                     const CollectiveTimes& times, const Steps& steps);

// How long the ranks may have waited, in the used steps, for members of whom nothing was recorded: what
// symmetric instances that lack some took longer than the shortest that does the same, summed per rank, of
// the rank where that is most.
Nanos MostUnseenWait(const store::Capture& capture, const align::Matches& matches,
                     const CollectiveTimes& times, const Steps& steps);

// The used step that an instance belongs to, by its last arriver; negative outside of them, and where nobody
// came last.
int32_t StepOfInstance(const store::Capture& capture, const align::Instance& instance,
                       const InstanceTiming& timing, const Steps& steps);

// What each operation needs (but for messages by rendezvous, whose sender needs its receiver too): does the
// member at `to` need the data of the member at `from`? nullopt: nobody can tell.
std::optional<bool> Needs(const store::Capture& capture, const align::Instance& instance, size_t to,
                          size_t from);

CollectiveTimes TimeCollectives(const store::Capture& capture, const align::Matches& matches,
                                const align::ClockModel& clock);

// The clocks' bound between two hosts: 0 for one host.
Nanos PairBound(const align::ClockModel& clock, uint32_t host_a, uint32_t host_b);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_COLLECTIVES_H_
