// Makes the messages of a capture: events for its callers, requests for its daemons. Pure functions.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_MESSAGES_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_MESSAGES_H_

#include <cstdint>
#include <string>

#include "aggregator/captures/capture_ranks.h"
#include "aggregator/captures/selection.h"
#include "aggregator/captures/session_limits.h"
#include "aggregator/captures/start_plan.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/time.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"

namespace lockstep::aggregator {

// A sample is for `lockstep top`. It gives way to captures, and its folder is removed after its analysis.
enum class Purpose : uint8_t { kCapture, kSample };

v1::TraceEvent AcceptedEvent(const std::string& capture, const Selection& selection);
v1::TraceEvent PhaseEvent(const char* phase);
// `lost` is the number of the rank's records that are known to be lost.
v1::TraceEvent RankEvent(const CaptureRank& rank, uint64_t lost);
// `remaining` is the time until the phase ends.
v1::TraceEvent ProgressEvent(CapturePhase phase, Nanos remaining, uint64_t records,
                             const CaptureRanks& ranks);

// Returns the time in which the ranks must arm.
Nanos ArmTimeout(const v1::TraceRequest& request, const SessionLimits& limits);
// Arms the ranks of one daemon.
v1::FromAggregator ArmMessage(const std::string& capture, Purpose purpose, const v1::TraceRequest& request,
                              const SessionLimits& limits, const CaptureRanks& ranks,
                              const DaemonKey& daemon);
v1::FromAggregator StartMessage(const std::string& capture, const StartPlan& plan, const CaptureRanks& ranks);
enum class StopMode : uint8_t { kKeep, kAbort };
v1::FromAggregator StopMessage(const std::string& capture, StopMode mode);

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_MESSAGES_H_
