#include "daemon/watch/step_watch.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "wire/ring/progress_reader.h"

namespace lockstep::daemon {

void StepWatch::Start(Sink sink) {
  if (sink_ != nullptr) return;
  sink_ = std::move(sink);
  since_ = clock_.Realtime();
  pause_ = kShortestPause;
  timer_ = loop_.After(pause_, [this] { Look(); });
}

void StepWatch::Stop() {
  sink_ = nullptr;
  if (timer_) loop_.Cancel(*timer_);
  timer_.reset();
  ranks_.clear();
}

void StepWatch::Look() {
  std::vector<v1::ProcessSteps> all;
  std::map<ProcessId, Rank> seen;
  bool grown = false;
  for (const v1::Rank& rank : registry_.Ranks(RankFilter::All())) {
    if (rank.rank() < 0) continue;
    const ProcessId id = FromProto(rank.process());
    const std::shared_ptr<DaemonSegment> segment = clients_.SegmentOf(id);
    if (segment == nullptr || !segment->HasLog()) continue;
    const auto known = ranks_.find(id);
    Rank& state = seen[id];
    if (known != ranks_.end() && known->second.incarnation == segment->incarnation())
      state = std::move(known->second);
    state.incarnation = segment->incarnation();
    grown = LookAt(rank, state, *segment, all) || grown;
  }
  ranks_ = std::move(seen);
  pause_ = grown ? kShortestPause : std::min(pause_ * 2, kLongestPause);
  timer_ = loop_.After(pause_, [this] { Look(); });
  if (!all.empty()) sink_(all);
}

bool StepWatch::LookAt(const v1::Rank& rank, Rank& state, const DaemonSegment& segment,
                       std::vector<v1::ProcessSteps>& all) {
  const uint64_t missed = state.cursor.missed();
  const std::vector<ring::LogRecord> records =
      segment.NewRecords(state.cursor, clock_.Realtime() - kSettling);
  // Steps without a part of their operations would be wrong.
  if (state.cursor.missed() != missed) state.rows = StepRows();
  std::optional<std::map<uint64_t, int32_t>> sizes;
  const auto ranks_of = [&](uint64_t communicator) {
    if (!sizes) sizes = segment.RanksOfCommunicators();
    const auto found = sizes->find(communicator);
    return found == sizes->end() ? 0 : found->second;
  };
  std::vector<RankStep> steps = state.rows.Add(records, ranks_of);
  // Earlier ones were there to learn from.
  std::erase_if(steps, [&](const RankStep& step) { return step.begin + step.duration < since_; });
  if (!steps.empty()) {
    v1::ProcessSteps& process = all.emplace_back();
    *process.mutable_process() = rank.process();
    for (const RankStep& step : steps) {
      v1::StepRow& row = *process.add_steps();
      row.set_number(step.number);
      row.set_period(step.period);
      row.set_duration_ns(step.duration.ns());
      row.set_communication_ns(step.communication.ns());
    }
  }
  return !records.empty();
}

}  // namespace lockstep::daemon
