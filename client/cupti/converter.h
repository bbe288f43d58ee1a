// CUPTI records → ring records, on the thread CUPTI completes a buffer on.
//
// Keeps what starts in the window. An external correlation has no stamp: it follows the decision for the API
// record of the same correlation, which comes right behind it. One converter per ring 0; one thread at a time
// (CuptiSource sees to it). Never allocates, takes no lock.
#ifndef LOCKSTEP_CLIENT_CONVERTER_H_
#define LOCKSTEP_CLIENT_CONVERTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/cupti/record_sizes.h"
#include "client/lanes.h"
#include "client/record/arena.h"
#include "client/record/interner.h"
#include "client/record/timing.h"
#include "client/record/trigger.h"
#include "wire/foreign/cupti.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

struct ConverterOptions {
  RecordSizes sizes;
  bool driver_records = true;  // false: driver calls only decide for external correlations
  bool decided_by_api =
      true;  // false: no API records come; the device record of the same correlation decides
  // CUPTI 13.0 and 13.1 give a graph's kernels another launch's correlation in every session but a process's
  // first; then none is kept.
  bool graph_correlation = true;
  Trigger* trigger = nullptr;  // hears of the profiler API; null: nobody does
};

class Converter {
 public:
  constexpr Converter() = default;

  // For one capture. `names` holds the kernel and function names.
  void Begin(const CuptiApi& api, const ConverterOptions& options, const Window& window,
             ring::RingWriter ring, Memory names, StringIds& ids);
  // Every record of a completed buffer.
  void Convert(uint8_t* buffer, size_t valid_bytes);
  // Settles the external correlations whose API record never came, publishes the statistics.
  void End();

  uint64_t outside() const { return outside_; }
  ring::RingWriter& ring() { return ring_; }

  // ---- any thread ----
  // Streams and threads that may still have records of the window inside CUPTI.
  uint32_t unfinished_lanes() const { return lanes_.unfinished(); }
  // Grows with every buffer that held a record of the window.
  uint32_t buffers_inside() const { return buffers_inside_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kNoLane = 0;
  static constexpr uint32_t kPending = 64;
  static constexpr uint32_t kPointerCache = 1024;
  static constexpr uint32_t kCallbackNames = 1024;

  // An external correlation, or the record of an event without a stamp: waits for what is decided about its
  // call.
  struct PendingExternal {
    uint64_t external;  // of an event: context and stream
    uint32_t correlation;
    uint32_t kind;    // kEventPending: an event
    bool among_kept;  // the call before it was recorded
    uint32_t event;
  };
  static constexpr uint32_t kEventPending = ~0u;
  struct CachedPointer {
    const char* pointer;
    Interner::Entry* entry;
  };

  void ReadWindow();
  void ConvertOne(foreign::cupti::Activity* record);
  void Kernel(const foreign::cupti::Kernel10& from);
  void Memcpy(const foreign::cupti::Memcpy6& from);
  void MemcpyPeer(const foreign::cupti::MemcpyPeer4& from);
  void Memset(const foreign::cupti::Memset4& from);
  void Api(const foreign::cupti::Api& from);
  void Sync(const foreign::cupti::Synchronization2& from);
  void External(const foreign::cupti::ExternalCorrelation& from);
  void CudaEvent(const foreign::cupti::CudaEvent2& from);
  void Overhead(const foreign::cupti::Overhead3& from);
  // converter_objects.cc
  void Device(const foreign::cupti::Device5& from);
  void Context(const foreign::cupti::Context3& from);
  void Stream(const foreign::cupti::Stream& from);
  void MemoryOp(const foreign::cupti::Memory4& from);

  // Whether a record with these stamps is recorded; counts it otherwise. `lane` as of Lanes, kNoLane: none.
  bool Keep(uint64_t start, uint64_t end, ring::RecordKind kind, uint64_t lane);
  // Of a record without stamps: outside, or waiting in its lane for what becomes of it. False: it cannot
  // wait.
  bool MayNotHaveRun(ring::RecordKind kind, uint64_t lane);
  void LoseUnstamped(uint64_t lane);
  void SettleUnstamped();
  void Decide(uint32_t correlation, bool keep);
  // A call that may open or close the window; what comes behind it in this buffer goes by the new one.
  void TellTrigger(const foreign::cupti::Api& from);
  // Keep() of what a stream did, and Decide() for what belongs to it.
  template <typename Activity>
  bool KeepOnDevice(const Activity& from, ring::RecordKind kind);
  // Of an external correlation whose call CUPTI lost: it goes the way of the call before it.
  void SettleOrphan(const PendingExternal& orphan);
  void WriteExternal(const PendingExternal& external);
  void Wait(const PendingExternal& pending);
  // A record whose layout, or kind, this client does not know.
  void LoseUnknown() {
    if (open_) ring_.Lose(ring::LossReason::kUnknownKind, ring::RecordKind::kPad);
  }
  uint32_t TextOf(const char* name);
  uint32_t FunctionName(foreign::cupti::CallbackDomain domain, uint32_t cbid);

  const CuptiApi* api_ = nullptr;
  const Window* window_ = nullptr;
  ConverterOptions options_;
  ring::RingWriter ring_;
  Interner names_;
  HostTime t0_;  // of the window, read once per buffer
  HostTime t1_;
  bool open_ = false;
  bool inside_ = false;  // this buffer held a record of the window
  Lanes lanes_;
  std::atomic<uint32_t> buffers_inside_{0};
  uint64_t outside_ = 0;
  bool last_kept_ = false;  // of the calls that decide for external correlations
  uint32_t last_decided_ = 0;
  uint32_t pending_count_ = 0;
  PendingExternal pending_[kPending] = {};
  CachedPointer pointers_[kPointerCache] = {};
  Interner::Entry* functions_[2][kCallbackNames] = {};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CONVERTER_H_
