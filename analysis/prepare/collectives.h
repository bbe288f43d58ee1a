// Splits every collective on every rank into waiting for others and transfer. Also finds the last arriver of
// each instance, and the waiting that it caused.
//
// Symmetric operations need no clock. No member leaves before the last one came, so a rank waited for the
// time by which it stayed longer than the shortest member. One-way operations need aligned clocks. They stay
// unsplit if the clocks' bound exceeds their duration. A kernel of several messages waits for the latest of
// its partners, and all its rows have that wait. Definitions: docs/analysis/waiting.md. Pure. The
// result is read-only, so any thread may use it.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_COLLECTIVES_H_
#define LOCKSTEP_ANALYSIS_PREPARE_COLLECTIVES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/prepare/steps.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

// One rank's part in one collective.
struct Part {
  Nanos wait;           // from the start; the rest of the duration is transfer
  Nanos wait_by_clock;  // latest start that it needs minus own start, between 0 and the duration
  // True if all members were recorded. Otherwise the collective counts as unsplit, and `wait` is a lower
  // bound: the waiting for the recorded members.
  bool split = false;
};

// One kernel's part in all its collectives, given the parts of its rows, at least one. A kernel waits for the
// latest of them, and is unsplit if one of them is.
Part PartOfKernel(std::span<const Part> rows);

// One instance as a whole.
struct InstanceTiming {
  bool split = false;  // the waiting of the recorded members for each other is known
  bool symmetric = false;
  bool rendezvous = false;  // a message too large for a buffer, so its sender waits for its receiver
  bool partial =
      false;  // records of some members are missing: waits are lower bounds, the transfer is an upper bound
  // Into Instance::members: the last arriver, for which the others waited. kNone: unknown, or a message for
  // which no kernel waited last.
  uint32_t last = capture::kNone;
  Nanos transfer;  // duration without waiting: the least over the members, or the reference's
  Nanos skew;      // latest minus earliest start, on the job's clock
  Nanos stalled;   // time by which the last arriver's own transfer exceeded the reference: its own delay
};

struct CollectiveTimes {
  std::vector<std::vector<Part>> parts;   // [rank index][collective]
  std::vector<InstanceTiming> instances;  // as Matches::instances
  // Waiting of other ranks that ended when this rank came, summed over instances: [rank index].
  std::vector<Nanos> caused_wait;
  std::vector<uint32_t> times_last;  // [rank index]
  uint64_t stalled = 0;              // instances whose last arriver's own transfer is an outlier
  uint64_t disagreeing =
      0;  // symmetric instances whose waits with and without clocks differ beyond bound and exit skew
};

// Waiting of other ranks that ended when each rank came, in the used steps only; by rank index.
std::vector<Nanos> CausedWaitInSteps(const capture::Capture& capture, const capture::Matches& matches,
                                     const CollectiveTimes& times, const Steps& steps);

// An upper limit of a rank's waiting for members without records, in the used steps. Sums, for each rank, the
// time by which partial symmetric instances exceed the shortest instance of their kind. Returns the largest
// sum.
Nanos MostUnseenWait(const capture::Capture& capture, const capture::Matches& matches,
                     const CollectiveTimes& times, const Steps& steps);

// The used step of an instance, by its last arriver. Negative: it is outside the used steps, or no member
// came last.
int32_t StepOfInstance(const capture::Capture& capture, const capture::Instance& instance,
                       const InstanceTiming& timing, const Steps& steps);

// True if the member at `to` needs the data of the member at `from`. Ignores rendezvous, in which the sender
// also needs its receiver. nullopt: unknown.
std::optional<bool> Needs(const capture::Capture& capture, const capture::Instance& instance, size_t to,
                          size_t from);

CollectiveTimes TimeCollectives(const capture::Capture& capture, const capture::Matches& matches,
                                const capture::ClockModel& clock);

// The clocks' bound between two hosts; 0 within one host.
Nanos PairBound(const capture::ClockModel& clock, uint32_t host_a, uint32_t host_b);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_COLLECTIVES_H_
