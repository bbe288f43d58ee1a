// Records that have no stamp of their own: external correlations, and CUDA events. Each is kept if the call
// of the same correlation is kept, and waits until that is decided.
//
// CuptiSource ensures that one thread at a time uses it. It never allocates and takes no lock.
#ifndef LOCKSTEP_CLIENT_CUPTI_DEPENDENT_RECORDS_H_
#define LOCKSTEP_CLIENT_CUPTI_DEPENDENT_RECORDS_H_

#include <cstdint>

#include "wire/foreign/cupti.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

class DependentRecords {
 public:
  constexpr DependentRecords() = default;

  void Begin();
  // An external correlation comes directly before its call.
  void Add(ring::RingWriter& ring, const foreign::cupti::ExternalCorrelation& from);
  // An event may also come directly behind its call.
  void Add(ring::RingWriter& ring, const foreign::cupti::CudaEvent2& from);
  // Keeps or drops the waiting records of the call's correlation.
  void Decide(ring::RingWriter& ring, uint32_t correlation, bool keep);
  // Decides on the records whose call never came.
  void End(ring::RingWriter& ring);

  // Number of records that were dropped with their call.
  uint64_t outside() const { return outside_; }

 private:
  static constexpr uint32_t kPending = 64;
  static constexpr uint32_t kEventPending = ~0u;

  struct Pending {
    uint64_t external;  // for an event: context and stream
    uint32_t correlation;
    uint32_t kind;    // kEventPending: an event
    bool among_kept;  // the previous call was recorded
    uint32_t event;
  };

  void Wait(ring::RingWriter& ring, const Pending& pending);
  void Settle(ring::RingWriter& ring, const Pending& pending, bool keep);
  static void Write(ring::RingWriter& ring, const Pending& pending);

  uint64_t outside_ = 0;
  bool last_kept_ = false;  // decision on the last call
  uint32_t last_decided_ = 0;
  uint32_t pending_count_ = 0;
  Pending pending_[kPending] = {};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_DEPENDENT_RECORDS_H_
