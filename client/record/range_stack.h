// The push/pop ranges that are open on one thread, in all NVTX domains.
#ifndef LOCKSTEP_CLIENT_RECORD_RANGE_STACK_H_
#define LOCKSTEP_CLIENT_RECORD_RANGE_STACK_H_

#include <cstddef>
#include <cstdint>

#include "base/time.h"
#include "client/record/interner.h"

namespace lockstep::client {

// The text of a range: the interner's copy, or the id if the interner's memory was used up.
struct RangeText {
  Interner::Entry* entry = nullptr;
  uint32_t id = 0;
};

struct OpenRange {
  const void* domain = nullptr;  // the domain, which has its own stack in NVTX; null = the default domain
  HostTime start;
  RangeText name;
  uint64_t payload = 0;
};

// NVTX has one stack per (thread, domain). Here all domains of a thread share one stack, so that depth is the
// nesting on the thread.
class RangeStack {
 public:
  static constexpr uint32_t kMost = 64;

  // Returns false beyond kMost. The range is then only counted, and its pop finds nothing.
  bool Push(const OpenRange& range) {
    if (depth_ == kMost) {
      ++too_deep_;
      return false;
    }
    open_[depth_++] = range;
    return true;
  }

  enum class Popped { kRange, kTooDeep, kUnknown };
  // Removes the innermost range of `domain`. kUnknown: the range was pushed before tracking began.
  Popped Pop(const void* domain, OpenRange* out, uint32_t* depth) {
    if (too_deep_ > 0) {
      --too_deep_;
      return Popped::kTooDeep;
    }
    for (uint32_t i = depth_; i-- > 0;) {
      if (open_[i].domain != domain) continue;
      *out = open_[i];
      *depth = i;
      for (uint32_t j = i + 1; j < depth_; ++j) open_[j - 1] = open_[j];
      --depth_;
      return Popped::kRange;
    }
    return Popped::kUnknown;
  }

  uint32_t depth() const { return depth_; }
  const OpenRange& at(uint32_t depth) const { return open_[depth]; }
  void Clear() {
    depth_ = 0;
    too_deep_ = 0;
  }

 private:
  OpenRange open_[kMost];
  uint32_t depth_ = 0;
  uint32_t too_deep_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_RANGE_STACK_H_
