// CallSlots limits the calls that one user has at the same time, because each occupies a thread and memory.
//
// Callers with the aggregator's token are not limited. Any thread may call it.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CALL_SLOTS_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CALL_SLOTS_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aggregator/captures/callers.h"
#include "base/mutex.h"

namespace lockstep::aggregator {

class CallSlots {
 public:
  explicit CallSlots(size_t most_per_user) : most_per_user_(most_per_user) {}

  // A call that runs. It ends with this object.
  class Hold {
   public:
    Hold(CallSlots& slots, uid_t user) : slots_(slots), user_(user) {}
    ~Hold() {
      MutexLock lock(&slots_.mutex_);
      if (--slots_.running_.at(user_) == 0) slots_.running_.erase(user_);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    CallSlots& slots_;
    const uid_t user_;
  };

  // Returns null for a caller that is not limited. kResourceExhausted: the user has too many calls.
  absl::StatusOr<std::unique_ptr<Hold>> Take(const Caller& caller) {
    if (caller.may_use_all()) return nullptr;
    const uid_t user = *caller.uid();
    MutexLock lock(&mutex_);
    size_t& running = running_[user];
    if (running >= most_per_user_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("user ", user, " has ", running,
                       " calls in progress, and one user may have no more: wait "
                       "until one has ended"));
    }
    ++running;
    return std::make_unique<Hold>(*this, user);
  }

 private:
  const size_t most_per_user_;
  Mutex mutex_;
  std::map<uid_t, size_t> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CALL_SLOTS_H_
