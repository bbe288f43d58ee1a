// AnalysisTurns decides which analysis runs next: a number of them at the same time, one of each user.
//
// Users take turns. One with many captures therefore waits behind the others, and his captures keep their
// order.
#ifndef LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_TURNS_H_
#define LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_TURNS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/mutex.h"

namespace lockstep::aggregator {

// Thread-safe. It must outlive its turns.
class AnalysisTurns {
 public:
  explicit AnalysisTurns(size_t most) : most_(most) {}

  // A turn that was given. It ends with this object.
  class Turn {
   public:
    Turn(AnalysisTurns& turns, uid_t user) : turns_(turns), user_(user) {}
    ~Turn() { turns_.End(user_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    AnalysisTurns& turns_;
    const uid_t user_;
  };

  // Waits for the user's turn. Returns null after Close().
  std::unique_ptr<Turn> Wait(uid_t user);
  void Close();
  // Number of callers in Wait().
  size_t waiting() const;

 private:
  bool IsNext(uid_t user, uint64_t ticket) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(uid_t user) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(uid_t user);

  const size_t most_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uid_t> running_ ABSL_GUARDED_BY(mutex_);
  std::deque<uid_t> users_ ABSL_GUARDED_BY(mutex_);  // the waiting users in the order of their turns
  std::map<uid_t, std::deque<uint64_t>> tickets_ ABSL_GUARDED_BY(mutex_);  // of each waiting user
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_REPORTS_ANALYSIS_TURNS_H_
