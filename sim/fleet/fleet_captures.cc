#include "sim/fleet/fleet_captures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json/json_out.h"

namespace lockstep::sim {
namespace {

constexpr const char* kMomentNames[] = {"arm", "armed", "start", "encoded", "batch", "sent_all", "acked"};
static_assert(std::size(kMomentNames) == static_cast<size_t>(FleetMoment::kCount));

}  // namespace

void FleetCaptures::Widen(Interval<HostTime>& moments, HostTime at) {
  const bool first = moments.end == HostTime();
  moments.start = first ? at : std::min(moments.start, at);
  moments.end = std::max(moments.end, at);
}

void FleetCaptures::Begin(const std::string& capture, HostTime at) {
  MutexLock lock(&mutex_);
  Capture& running = captures_[capture];
  ++running.daemons;
  Widen(running.moments[static_cast<size_t>(FleetMoment::kArm)], at);
}

void FleetCaptures::Note(const std::string& capture, FleetMoment moment, HostTime at) {
  MutexLock lock(&mutex_);
  const auto running = captures_.find(capture);
  if (running != captures_.end()) Widen(running->second.moments[static_cast<size_t>(moment)], at);
}

std::shared_ptr<const FleetJob> FleetCaptures::Job(const std::string& capture, const FleetJobShape& shape,
                                                   Interval<HostTime> window) {
  MutexLock lock(&mutex_);
  Capture& running = captures_[capture];
  running.window = window;
  if (running.job == nullptr) running.job = std::make_shared<FleetJob>(shape);
  return running.job;
}

void FleetCaptures::Finish(const std::string& capture, const FleetSize& size, End end) {
  MutexLock lock(&mutex_);
  const auto found = captures_.find(capture);
  if (found == captures_.end()) return;
  Capture& running = found->second;
  running.size.ranks += size.ranks;
  running.size.rows += size.rows;
  running.size.batches += size.batches;
  running.size.bytes += size.bytes;
  running.size.decode += size.decode;
  ++running.ends[end];
  // The aggregator starts no daemon before all are armed, so all have begun when the first one finishes.
  if (++running.finished < running.daemons) return;
  print_(Line(capture, running));
  captures_.erase(found);
  ended_(++finished_);
}

std::string FleetCaptures::Line(const std::string& id, const Capture& capture) {
  JsonOut out(JsonOut::Layout::kOneLine);
  out.BeginObject();
  out.Member("event", "capture");
  out.Member("capture", id);
  out.Member("daemons", capture.daemons);
  const auto count = [&](End end) {
    const auto found = capture.ends.find(end);
    return found == capture.ends.end() ? uint32_t{0} : found->second;
  };
  out.Member("left", count(End::kLeft));
  out.Member("aborted", count(End::kAborted));
  out.Member("ranks", capture.size.ranks);
  out.Member("rows", capture.size.rows);
  out.Member("steps", capture.job != nullptr ? capture.job->steps() : 0);
  out.Member("batches", capture.size.batches);
  out.Member("bytes", capture.size.bytes);
  out.Member("t0_ns", capture.window.start.ns());
  out.Member("t1_ns", capture.window.end.ns());
  for (size_t i = 0; i < std::size(kMomentNames); ++i) {
    out.Member(absl::StrCat(kMomentNames[i], "_first_ns"), capture.moments[i].start.ns());
    out.Member(absl::StrCat(kMomentNames[i], "_last_ns"), capture.moments[i].end.ns());
  }
  out.Member("decode_cpu_ns", capture.size.decode);
  out.EndObject();
  return out.Take();
}

}  // namespace lockstep::sim
