// What a runtime or driver call does to its thread, by its name.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_CALL_NAMES_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_CALL_NAMES_H_

#include <cstdint>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::analysis {

enum class CallRole : uint8_t {
  kOther,
  kCopies,        // may return only when its own copy is done
  kSynchronizes,  // waits for device work
  kAllocates,     // memory or module calls, which may wait for the whole device
  kStreamWait,    // makes a stream wait for an event
};

// Looks each distinct name up once.
class CallNames {
 public:
  explicit CallNames(const store::Capture& capture);
  CallRole Of(NameId name) const {
    return name.value() < roles_.size() ? roles_[name.value()] : CallRole::kOther;
  }

 private:
  std::vector<CallRole> roles_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_CALL_NAMES_H_
