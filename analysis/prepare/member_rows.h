// The rows and times of an instance's member.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_MEMBER_ROWS_H_
#define LOCKSTEP_ANALYSIS_PREPARE_MEMBER_ROWS_H_

#include <algorithm>

#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::analysis {

inline const capture::RankData& RankOf(const capture::Capture& capture, const capture::Member& m) {
  return capture.ranks[m.rank_index];
}
inline const capture::Collective& At(const capture::Capture& capture, const capture::Member& m) {
  return RankOf(capture, m).collectives[m.collective];
}
inline const capture::DeviceActivity& ActivityOf(const capture::Capture& capture, const capture::Member& m) {
  return RankOf(capture, m).activities[At(capture, m).activity];
}

inline JobTime StartOfMember(const capture::Capture& capture, const capture::ClockModel& clock,
                             const capture::Member& m) {
  return clock.ToJob(RankOf(capture, m).host, ActivityOf(capture, m).start);
}
inline JobTime EndOfMember(const capture::Capture& capture, const capture::ClockModel& clock,
                           const capture::Member& m) {
  return clock.ToJob(RankOf(capture, m).host, ActivityOf(capture, m).end);
}
// A reversed record counts as no time.
inline Nanos DurationOf(const capture::Capture& capture, const capture::Member& m) {
  return std::max(Nanos(), ActivityOf(capture, m).end - ActivityOf(capture, m).start);
}

// True for a message from one rank to another.
inline bool IsTransfer(const capture::Capture& capture, const capture::Instance& instance) {
  const capture::CollectiveOp op = At(capture, instance.members[0]).op;
  return op == capture::CollectiveOp::kSend || op == capture::CollectiveOp::kReceive;
}

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_MEMBER_ROWS_H_
