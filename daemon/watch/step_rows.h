// StepRows divides the operation log of one rank into training steps, and measures each.
//
// A step ends with a collective of the rank's reference communicator, which is the largest one that it uses
// regularly. All ranks of a communicator reach the end of a collective together, also if the hosts are ahead
// of their GPUs. If the application marks its steps (lockstep.h, ranges named as steps), it is the last
// collective that was entered before the mark. Otherwise it is each n-th one, where n is the period of the
// sequence of collectives (base/sequence_period.h). The number of a step is then that of its collectives
// divided by n, and equal on all ranks. Collectives inside CUDA graphs and on copy engines have no times, and
// count as the rank's own time.
//
// The input is of a rank's memory and may be hostile: memory and time are bounded, whatever it is.
#ifndef LOCKSTEP_DAEMON_WATCH_STEP_ROWS_H_
#define LOCKSTEP_DAEMON_WATCH_STEP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "wire/ring/log_cursor.h"

namespace lockstep::daemon {

struct RankStep {
  uint64_t number = 0;
  // Collectives of the reference communicator per step. 0: marks divide the steps.
  uint64_t period = 0;
  HostTime begin;
  Nanos duration;
  // Time in which at least one NCCL kernel ran. The rest is the rank's own time.
  Nanos communication;
};

// One thread at a time.
class StepRows {
 public:
  // Of one call of Add. The log of a rank whose steps take a millisecond has fewer in a second.
  static constexpr size_t kMostSteps = 1024;
  // Returns the number of ranks of a communicator; 0: not known, and it cannot be the reference.
  using RanksOf = std::function<int32_t(uint64_t communicator)>;

  // Adds the next records of the log. Returns the steps whose times are complete now, at most kMostSteps;
  // further ones are left out.
  std::vector<RankStep> Add(std::span<const ring::LogRecord> records, const RanksOf& ranks_of);

 private:
  // The end of a step.
  struct Cut {
    uint64_t number = 0;
    HostTime at;
  };
  struct Member {
    uint64_t collectives = 0;  // of the recent ones
    int32_t ranks = 0;
  };
  struct Collective {
    uint64_t number = 0;
    uint64_t shape = 0;
    Nanos gap;  // from the end of the one before it
  };

  void AddKernel(const HostInterval& kernel);
  // Chooses the reference communicator. Another one begins everything again.
  void ChooseReference(const RanksOf& ranks_of);
  void Forget();
  void AddMark(const ring::LogRecord& mark);
  void AddReference(const ring::LogRecord& collective);
  // Finds the period, or checks that the collectives still repeat.
  void LearnPeriod();
  void CheckPeriod();
  void AddCut(uint64_t number, HostTime at);
  // Appends the steps that ended before `now`. Every kernel that follows begins later.
  void EmitUntil(HostTime now, std::vector<RankStep>& steps);
  Nanos CommunicationIn(HostTime begin, HostTime end) const;

  std::map<uint64_t, Member> members_;
  uint64_t counted_ = 0;  // collectives
  uint64_t next_choice_ = 16;
  std::optional<uint64_t> reference_;  // communicator
  HostTime reference_end_;             // of its last collective

  // Marks divide the steps. kMarkedStep marks are preferred to kNamedStep ones.
  std::optional<ring::LogKind> marks_;
  uint64_t since_mark_ = 0;  // reference collectives
  HostTime mark_end_;        // reference_end_ at the last mark

  std::deque<Collective> sequence_;  // the last ones of the reference communicator
  size_t learn_at_ = 0;              // length of the sequence at which the period is sought; 0: the first
  uint64_t candidate_ = 0;           // the period found at the last attempt
  size_t repeat_ = 0;                // collectives with times per step; 0: not known
  uint64_t period_ = 0;              // all collectives per step
  uint64_t checked_ = 0;             // collectives since the period was found or checked
  uint64_t different_ = 0;           // of those, the ones that did not repeat

  std::optional<uint64_t> step_;  // number of the step that runs
  std::deque<Cut> cuts_;
  std::vector<HostInterval> kernels_;  // of all communicators, by their begin
};

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_WATCH_STEP_ROWS_H_
