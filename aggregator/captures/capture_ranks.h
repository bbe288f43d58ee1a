// CaptureRanks holds the ranks of one capture and their states: the progress of each from SEEN to DONE.
//
// It has no lock and no thread: its CaptureSession guards it. A rank is named by its place in the selection,
// which is also its place in the manifest.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_RANKS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aggregator/captures/selection.h"
#include "aggregator/captures/session_limits.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/time.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "lockstep/v1/journal.pb.h"

namespace lockstep::aggregator {

enum class CapturePhase : uint8_t { kArming, kStarting, kCapturing, kDraining, kClosed };
// Returns the phase's word in a CaptureStatus and in the CLI.
const char* PhaseName(CapturePhase phase);

struct CaptureRank {
  SeenRank seen;
  v1::RankState state;
  bool kineto = false;  // captured by PyTorch's profiler
  bool kineto_if_held = false;
  std::string cupti_holder;  // tool that held CUPTI, so that PyTorch's profiler took over; empty: it did not
  // Not empty: the process cannot be captured as requested; the reason.
  std::string refused;
  bool armed = false;
  bool ended = false;   // the daemon has sent its last record
  MonoTime gone_since;  // 0: not gone
  HostInterval window;
  JobTime step_reported_at;  // time when its last step was reported

  // Returns true if it failed or is gone.
  bool lost() const { return state.state() == v1::RankState::FAILED || state.state() == v1::RankState::GONE; }
};

class CaptureRanks {
 public:
  CaptureRanks(const Selection& selection, const v1::TraceRequest& request, const SessionLimits& limits);

  const std::vector<CaptureRank>& all() const { return ranks_; }
  // Returns the ranks of a node in ascending order. The nodes are indexed, because a job may have thousands.
  std::span<const size_t> OnNode(const std::string& node_id) const;
  const CaptureRank& at(size_t rank) const { return ranks_[rank]; }
  // Returns the number of ranks if the process is not in this capture on that node.
  size_t Find(const std::string& node_id, const v1::ProcessKey& process) const;

  // Events that a change of a rank's state causes.
  struct Change {
    bool took_over = false;  // PyTorch's profiler has taken over from the client
    bool reported = false;   // the state differs from the last one
  };
  // Takes a daemon's report. The state of a rank that has ended does not change any more.
  Change Update(size_t rank, const v1::RankState& state, CapturePhase phase, JobTime now);
  // Sets the aggregator's own finding.
  void SetState(size_t rank, v1::RankState::State state, const std::string& text);
  // Returns false if the rank was lost before, and keeps that state. Otherwise it is DONE.
  bool End(size_t rank, const v1::CaptureEnd& end);
  // The states as of the start, for the journal.
  v1::JournalRankState ForJournal(size_t rank) const;
  void Restore(size_t rank, const v1::JournalRankState& state);
  void SetTraceBytes(size_t rank, uint64_t bytes) { ranks_[rank].state.set_trace_bytes(bytes); }

  // Returns true if the phase needs no more from the rank.
  bool Settled(const CaptureRank& rank, CapturePhase phase) const;
  bool AllSettled(CapturePhase phase) const;
  // Returns true if every armed client that still waits has reported the length of its steps.
  bool AllKnowSteps() const;

  struct PathCounts {
    size_t clients = 0;
    size_t kineto = 0;
  };
  // Counts the armed ranks by the path through which they are captured.
  PathCounts ArmedPaths() const;
  bool AnyKineto() const;
  enum class Of { kAll, kArmed };
  std::vector<DaemonKey> Daemons(Of ranks) const;

 private:
  const Nanos gone_wait_;
  std::vector<CaptureRank> ranks_;  // never resized
  absl::flat_hash_map<std::string, std::vector<size_t>> on_node_;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_RANKS_H_
