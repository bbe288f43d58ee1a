// Effect of a runtime or driver call on its thread, by the call's name.
#ifndef LOCKSTEP_ANALYSIS_PREPARE_CALL_NAMES_H_
#define LOCKSTEP_ANALYSIS_PREPARE_CALL_NAMES_H_

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
  explicit CallNames(const capture::Capture& capture);
  CallRole Of(NameId name) const {
    return name.value() < roles_.size() ? roles_[name.value()] : CallRole::kOther;
  }

 private:
  std::vector<CallRole> roles_;
};

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_PREPARE_CALL_NAMES_H_
