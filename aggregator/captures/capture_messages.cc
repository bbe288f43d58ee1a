#include "aggregator/captures/capture_messages.h"

#include <algorithm>

namespace lockstep::aggregator {

v1::TraceEvent AcceptedEvent(const std::string& capture, const Selection& selection) {
  v1::TraceEvent event;
  v1::TraceAccepted& accepted = *event.mutable_accepted();
  accepted.set_capture(capture);
  accepted.set_job(selection.job);
  accepted.set_world_size(selection.world_size);
  for (const SeenRank& seen : selection.ranks) *accepted.add_ranks() = seen.rank;
  for (const int32_t rank : selection.missing_ranks) accepted.add_missing_ranks(rank);
  return event;
}

v1::TraceEvent PhaseEvent(const char* phase) {
  v1::TraceEvent event;
  event.mutable_progress()->set_phase(phase);
  return event;
}

v1::TraceEvent RankEvent(const CaptureRank& rank, uint64_t lost) {
  v1::TraceEvent event;
  v1::RankProgress& progress = *event.mutable_rank();
  progress.set_rank(rank.seen.rank.rank());
  progress.set_host_name(rank.seen.host_name);
  *progress.mutable_state() = rank.state;
  progress.set_lost(lost);
  return event;
}

v1::TraceEvent ProgressEvent(CapturePhase phase, Nanos remaining, uint64_t records,
                             const CaptureRanks& ranks) {
  v1::TraceEvent event = PhaseEvent(PhaseName(phase));
  v1::TraceProgress& progress = *event.mutable_progress();
  progress.set_remaining_ns(std::max(remaining, Nanos()).ns());
  progress.set_records(records);
  for (const CaptureRank& rank : ranks.all()) {
    if (phase != CapturePhase::kCapturing || rank.state.state() != v1::RankState::WAITING) continue;
    progress.set_phase("waiting");
    progress.set_waiting(progress.waiting() + 1);
    progress.set_step(std::max(progress.step(), rank.state.step()));
  }
  return event;
}

Nanos ArmTimeout(const v1::TraceRequest& request, const SessionLimits& limits) {
  return request.arm_timeout_ns() > 0 ? Nanos(request.arm_timeout_ns()) : limits.arm_timeout;
}

v1::FromAggregator ArmMessage(const std::string& capture, Purpose purpose, const v1::TraceRequest& request,
                              const SessionLimits& limits, const CaptureRanks& ranks,
                              const DaemonKey& daemon) {
  v1::FromAggregator message;
  v1::Arm& arm = request.past_ns() != 0 ? *message.mutable_arm_past() : *message.mutable_arm();
  arm.set_capture(capture);
  arm.set_activities(request.activities());
  arm.set_timeout_ns(ArmTimeout(request, limits).ns());
  arm.set_framework(request.framework());
  arm.set_sample(purpose == Purpose::kSample);
  for (const size_t i : ranks.OnNode(daemon.node_id)) {
    const CaptureRank& rank = ranks.at(i);
    if (rank.seen.daemon != daemon || !rank.refused.empty()) continue;
    *arm.add_processes() = rank.seen.rank.process();
    if (rank.kineto) *arm.add_kineto() = rank.seen.rank.process();
    if (rank.kineto_if_held) *arm.add_kineto_if_held() = rank.seen.rank.process();
  }
  return message;
}

v1::FromAggregator StartMessage(const std::string& capture, const StartPlan& plan,
                                const CaptureRanks& ranks) {
  v1::FromAggregator message;
  *message.mutable_start() = plan.Message(ranks);
  message.mutable_start()->set_capture(capture);
  return message;
}

v1::FromAggregator StopMessage(const std::string& capture, StopMode mode) {
  v1::FromAggregator message;
  message.mutable_stop()->set_capture(capture);
  message.mutable_stop()->set_abort(mode == StopMode::kAbort);
  return message;
}

}  // namespace lockstep::aggregator
