// Converts CUPTI records to ring records, on the thread on which CUPTI completes a buffer.
//
// It keeps records that start in the window, and records without a stamp with their call (DependentRecords).
// There is one converter, for ring 0. CuptiSource ensures that one thread at a time uses it. It never
// allocates and takes no lock.
#ifndef LOCKSTEP_CLIENT_CUPTI_CONVERTER_H_
#define LOCKSTEP_CLIENT_CUPTI_CONVERTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/cupti/cupti_names.h"
#include "client/cupti/dependent_records.h"
#include "client/cupti/record_sizes.h"
#include "client/record/arena.h"
#include "client/record/interner.h"
#include "client/record/tick_clock.h"
#include "client/record/timing.h"
#include "client/record/tracks.h"
#include "client/record/trigger.h"
#include "wire/foreign/cupti.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

struct ConverterOptions {
  RecordSizes sizes;
  bool driver_records = true;  // false: driver calls only decide on external correlations
  // False: there are no API records; the device record of the same correlation decides.
  bool decided_by_api = true;
  // CUPTI 13.0 and 13.1 give a graph's kernels the correlation of another launch, in every session except the
  // process's first. If false, the correlations of graphs are dropped.
  bool graph_correlation = true;
  const TickClock* ticks = nullptr;  // converts stamps if it is active; null: none do
  Trigger* trigger = nullptr;        // receives calls of the profiler API; null: ignores them
};

class Converter {
 public:
  constexpr Converter() = default;

  // Prepares for one capture. `names` is the memory for kernel and function names.
  void Begin(const CuptiApi& api, const ConverterOptions& options, const Window& window,
             ring::RingWriter ring, Memory names, StringIds& ids);
  // Converts every record of a completed buffer.
  void Convert(uint8_t* buffer, size_t valid_bytes);
  // Decides on external correlations whose API record never came, and publishes the statistics.
  void End();

  uint64_t outside() const { return outside_ + dependents_.outside(); }
  ring::RingWriter& ring() { return ring_; }

  // ---- any thread ----
  // Number of streams and threads that may still have records of the window inside CUPTI.
  uint32_t unfinished_tracks() const { return tracks_.unfinished(); }
  // Grows with every buffer that had a record of the window.
  uint32_t buffers_inside() const { return buffers_inside_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint64_t kNoTrack = 0;

  void ReadWindow();
  void ConvertOne(foreign::cupti::Activity* record);
  // Replaces the record's stamps by those of the host's clock.
  void ToHostClock(foreign::cupti::Activity* record) const;
  void Kernel(const foreign::cupti::Kernel10& from);
  void Memcpy(const foreign::cupti::Memcpy6& from);
  void MemcpyPeer(const foreign::cupti::MemcpyPeer4& from);
  void Memset(const foreign::cupti::Memset4& from);
  void Api(const foreign::cupti::Api& from);
  void Sync(const foreign::cupti::Synchronization2& from);
  void CudaEvent(const foreign::cupti::CudaEvent2& from);
  void Overhead(const foreign::cupti::Overhead3& from);
  void Device(const foreign::cupti::Device5& from);
  void Context(const foreign::cupti::Context3& from);
  void Stream(const foreign::cupti::Stream& from);
  void MemoryOp(const foreign::cupti::Memory4& from);

  // Returns whether a record with these stamps is kept, and counts it otherwise. `track` is as in Tracks, or
  // kNoTrack.
  bool Keep(uint64_t start, uint64_t end, ring::RecordKind kind, uint64_t lane);
  // Handles a record without stamps: it is outside, or it waits in its track for a decision. Returns false if
  // it cannot wait.
  bool MayNotHaveRun(ring::RecordKind kind, uint64_t lane);
  void LoseUnstamped(uint64_t lane);
  void SettleUnstamped();
  // Handles a call that may open or close the window. The rest of this buffer then uses the changed window.
  void NotifyTrigger(const foreign::cupti::Api& from);
  // Calls Keep() for work of a stream, and decides on the records that depend on it.
  template <typename Activity>
  bool KeepOnDevice(const Activity& from, ring::RecordKind kind);
  // Counts a record whose layout or kind this client does not know.
  void LoseUnknown() {
    if (open_) ring_.Lose(ring::LossReason::kUnknownKind, ring::RecordKind::kPad);
  }

  const CuptiApi* api_ = nullptr;
  const Window* window_ = nullptr;
  ConverterOptions options_;
  ring::RingWriter ring_;
  CuptiNames names_;
  DependentRecords dependents_;
  HostTime t0_;  // begin of the window, read once per buffer
  HostTime t1_;
  bool open_ = false;
  bool inside_ = false;  // this buffer had a record of the window
  Tracks tracks_;
  std::atomic<uint32_t> buffers_inside_{0};
  uint64_t outside_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_CONVERTER_H_
