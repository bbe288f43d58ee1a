#include "aggregator/captures/capture_ranks.h"

#include <algorithm>
#include <set>
#include <utility>

#include "aggregator/nodes/clock.h"

namespace lockstep::aggregator {
namespace {

bool IsProcess(const v1::ProcessKey& a, const v1::ProcessKey& b) {
  return a.pid() == b.pid() && a.start_ticks() == b.start_ticks();
}

}  // namespace

const char* PhaseName(CapturePhase phase) {
  constexpr const char* kNames[] = {"arming", "starting", "capturing", "draining", "closed"};
  return kNames[static_cast<int>(phase)];
}

CaptureRanks::CaptureRanks(const Selection& selection, const v1::TraceRequest& request,
                           const SessionLimits& limits)
    : gone_wait_(limits.gone_wait) {
  for (const SeenRank& seen : selection.ranks) {
    CaptureRank rank;
    rank.seen = seen;
    *rank.state.mutable_process() = seen.rank.process();
    rank.state.set_state(v1::RankState::SEEN);
    const ChosenPath path = ChoosePath(request, seen.rank);
    rank.kineto = path.kineto;
    rank.kineto_if_held = path.kineto_if_held;
    rank.refused = path.refused;
    if (!rank.refused.empty()) {
      rank.state.set_state(v1::RankState::FAILED);
      rank.state.set_text(rank.refused);
    }
    on_node_[seen.daemon.node_id].push_back(ranks_.size());
    ranks_.push_back(std::move(rank));
  }
}

std::span<const size_t> CaptureRanks::OnNode(const std::string& node_id) const {
  const auto found = on_node_.find(node_id);
  if (found == on_node_.end()) return {};
  return found->second;
}

size_t CaptureRanks::Find(const std::string& node_id, const v1::ProcessKey& process) const {
  // Compares the node, not the daemon, because a restarted daemon continues with the processes of its
  // predecessor.
  for (const size_t i : OnNode(node_id)) {
    if (IsProcess(ranks_[i].seen.rank.process(), process)) return i;
  }
  return ranks_.size();
}

CaptureRanks::Change CaptureRanks::Update(size_t i, const v1::RankState& state, CapturePhase phase,
                                          JobTime now) {
  CaptureRank& rank = ranks_[i];
  Change change;
  if (rank.ended) return change;
  const v1::RankState::State before = rank.state.state();
  rank.state = state;
  if (state.went_over() && rank.cupti_holder.empty() && rank.kineto_if_held &&
      phase == CapturePhase::kArming) {
    rank.kineto = true;
    rank.cupti_holder = state.holder().empty() ? "another tool" : state.holder();
    change.took_over = true;
  }
  if (state.state() == v1::RankState::WAITING) rank.step_reported_at = now;
  switch (state.state()) {
    case v1::RankState::ARMED:
    case v1::RankState::WAITING:
    case v1::RankState::CAPTURING:
      // After the arming phase it is too late to start with the others: the session has given up this rank.
      if (phase == CapturePhase::kArming) rank.armed = true;
      break;
    case v1::RankState::DONE:
      return change;  // reported with its losses when its last record has arrived
    case v1::RankState::FAILED:
    case v1::RankState::GONE:
      rank.gone_since = MonoNow();
      break;
    default:
      break;
  }
  change.reported = state.state() != before;
  return change;
}

void CaptureRanks::SetState(size_t i, v1::RankState::State state, const std::string& text) {
  ranks_[i].state.set_state(state);
  ranks_[i].state.set_text(text);
  if (ranks_[i].lost()) ranks_[i].gone_since = MonoNow();
}

bool CaptureRanks::End(size_t i, const v1::CaptureEnd& end) {
  CaptureRank& rank = ranks_[i];
  rank.ended = true;
  rank.window = {HostTime(end.t0_host_ns()), HostTime(end.t1_host_ns())};
  if (rank.lost()) return false;
  rank.state.set_state(v1::RankState::DONE);
  return true;
}

v1::JournalRankState CaptureRanks::ForJournal(size_t i) const {
  const CaptureRank& rank = ranks_[i];
  v1::JournalRankState state;
  *state.mutable_state() = rank.state;
  state.set_armed(rank.armed);
  state.set_kineto(rank.kineto);
  state.set_cupti_holder(rank.cupti_holder);
  return state;
}

void CaptureRanks::Restore(size_t i, const v1::JournalRankState& state) {
  CaptureRank& rank = ranks_[i];
  rank.state = state.state();
  *rank.state.mutable_process() = rank.seen.rank.process();
  rank.armed = state.armed();
  rank.kineto = state.kineto();
  rank.cupti_holder = state.cupti_holder();
  if (rank.lost()) rank.gone_since = MonoNow();
}

bool CaptureRanks::Settled(const CaptureRank& rank, CapturePhase phase) const {
  if (phase == CapturePhase::kArming) return rank.armed || rank.lost();
  if (!rank.armed || rank.ended) return true;
  return rank.lost() && MonoNow() - rank.gone_since > gone_wait_;
}

bool CaptureRanks::AllSettled(CapturePhase phase) const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [this, phase](const CaptureRank& r) { return Settled(r, phase); });
}

bool CaptureRanks::AllKnowSteps() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const CaptureRank& r) {
    const bool waits = r.armed && !r.kineto && !r.ended && !r.lost();
    return !waits || r.state.step_ns() > 0;
  });
}

CaptureRanks::PathCounts CaptureRanks::ArmedPaths() const {
  PathCounts counts;
  for (const CaptureRank& rank : ranks_) {
    if (rank.armed) ++(rank.kineto ? counts.kineto : counts.clients);
  }
  return counts;
}

bool CaptureRanks::AnyKineto() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const CaptureRank& r) { return r.kineto && r.refused.empty(); });
}

std::vector<DaemonKey> CaptureRanks::Daemons(Of ranks) const {
  std::vector<DaemonKey> out;
  std::set<DaemonKey> seen;
  for (const CaptureRank& rank : ranks_) {
    if (ranks == Of::kArmed && !rank.armed) continue;
    if (seen.insert(rank.seen.daemon).second) out.push_back(rank.seen.daemon);
  }
  return out;
}

}  // namespace lockstep::aggregator
