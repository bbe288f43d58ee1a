#include "client/cupti/dependent_records.h"

#include <cstring>

namespace lockstep::client {

namespace cupti = foreign::cupti;

void DependentRecords::Begin() {
  outside_ = 0;
  last_kept_ = false;
  last_decided_ = 0;
  pending_count_ = 0;
}

void DependentRecords::Add(ring::RingWriter& ring, const cupti::ExternalCorrelation& from) {
  Wait(ring,
       {from.external_id, from.correlation_id, static_cast<uint32_t>(from.external_kind), last_kept_, 0});
}

void DependentRecords::Add(ring::RingWriter& ring, const cupti::CudaEvent2& from) {
  const Pending event{uint64_t{from.context_id} << 32 | from.stream_id, from.correlation_id, kEventPending,
                      last_kept_, from.event_id};
  if (from.correlation_id != last_decided_) return Wait(ring, event);
  Settle(ring, event, last_kept_);
}

void DependentRecords::Wait(ring::RingWriter& ring, const Pending& pending) {
  if (pending_count_ == kPending) {
    // CUPTI has lost the call. The record follows the decision on the previous call.
    Settle(ring, pending_[0], pending_[0].among_kept);
    std::memmove(pending_, pending_ + 1, (kPending - 1) * sizeof pending_[0]);
    --pending_count_;
  }
  pending_[pending_count_++] = pending;
}

void DependentRecords::Settle(ring::RingWriter& ring, const Pending& pending, bool keep) {
  if (keep) {
    Write(ring, pending);
  } else {
    ++outside_;
  }
}

void DependentRecords::Write(ring::RingWriter& ring, const Pending& pending) {
  if (pending.kind == kEventPending) {
    auto* to = ring.New<ring::CudaEventRecord>();
    if (to == nullptr) return;
    to->device_ns = 0;
    to->correlation = pending.correlation;
    to->context = static_cast<uint32_t>(pending.external >> 32);
    to->stream = static_cast<uint32_t>(pending.external);
    to->event = pending.event;
    return;
  }
  auto* to = ring.New<ring::ExternalCorrelationRecord>();
  if (to == nullptr) return;
  to->external = pending.external;
  to->correlation = pending.correlation;
  to->external_kind = pending.kind;
}

void DependentRecords::Decide(ring::RingWriter& ring, uint32_t correlation, bool keep) {
  last_kept_ = keep;
  last_decided_ = correlation;
  uint32_t left = 0;
  for (uint32_t i = 0; i < pending_count_; ++i) {
    if (pending_[i].correlation == correlation) {
      Settle(ring, pending_[i], keep);
    } else {
      pending_[left++] = pending_[i];
    }
  }
  pending_count_ = left;
}

void DependentRecords::End(ring::RingWriter& ring) {
  for (uint32_t i = 0; i < pending_count_; ++i) Settle(ring, pending_[i], pending_[i].among_kept);
  pending_count_ = 0;
}

}  // namespace lockstep::client
