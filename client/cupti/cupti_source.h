// Records CUPTI's activities. It enables the activity API, lends buffers, converts returned buffers into ring
// 0, and disables everything at the end. It has no CUPTI subscriber and no timestamp callback, because both
// would break PyTorch's profiler in the same process.
//
// OnRequested runs on any application thread, OnCompleted on CUPTI's worker or on a flushing thread. Neither
// locks, allocates or waits. Only the agent's thread calls the other methods.
#ifndef LOCKSTEP_CLIENT_CUPTI_CUPTI_SOURCE_H_
#define LOCKSTEP_CLIENT_CUPTI_CUPTI_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/cupti/converter.h"
#include "client/cupti/cupti_api.h"
#include "client/cupti/enabled_activities.h"
#include "client/record/buffer_pool.h"
#include "client/record/text.h"
#include "client/record/tick_clock.h"
#include "client/record/timing.h"
#include "client/record/trigger.h"
#include "wire/foreign/cupti.h"
#include "wire/ring/client_segment.h"

namespace lockstep::client {

// CUPTI fills each buffer with zeros when it gets it, on the thread of the application that needs it: 0.1 ms
// for 1 MiB. It holds about 5,000 records of kernels.
inline constexpr size_t kCuptiBufferBytes = 1u << 20;
inline constexpr size_t kMostCuptiBufferBytes = 4u << 20;
inline constexpr size_t kCuptiBuffers = BufferPool::kMost;
// The number of buffers that a steady run has lent or queued. They are touched at ARM.
inline constexpr size_t kWarmCuptiBuffers = 12;
inline constexpr size_t kKernelNameBytes = 8u << 20;

// The buffers that CUPTI gets. Other values than the defaults are for measurements of their cost
// (LOCKSTEP_CUPTI_BUFFER_KIB and LOCKSTEP_CUPTI_ZEROED).
struct CuptiBufferSettings {
  enum class Zeros : uint8_t { kByCupti, kByUs };
  size_t bytes = kCuptiBufferBytes;  // of one buffer, at most kMostCuptiBufferBytes
  // kByUs: a buffer is filled with zeros after its records were converted, and CUPTI does not fill it.
  Zeros zeros = Zeros::kByCupti;
};

// The two functions that CUPTI calls. They find their CuptiSource themselves, and call OnRequested and
// OnCompleted.
struct CuptiCallbacks {
  foreign::cupti::BufferRequested requested = nullptr;
  foreign::cupti::BufferCompleted completed = nullptr;
};

// It fits State::holder.
using HolderName = Text<64>;

struct CuptiMemory {
  Memory buffers;
  Memory discard;  // one more buffer, of kMostCuptiBufferBytes
  Memory names;
};

class CuptiSource {
 public:
  constexpr CuptiSource(const Timing& timing, const Window& window, Trigger& trigger, StringIds& ids)
      : timing_(timing), window_(window), trigger_(trigger), ids_(ids) {}

  // ---- CUPTI's threads ----
  void OnRequested(uint8_t** buffer, size_t* bytes, size_t* max_records);
  void OnCompleted(uint8_t* buffer, size_t valid_bytes);
  // Answers a request in a forked child, where records go nowhere.
  void OnRequestedInChild(uint8_t** buffer, size_t* bytes, size_t* max_records) const;

  // Call it before the first capture.
  void SetBuffers(const CuptiBufferSettings& settings) { buffers_ = settings; }

  // ---- the agent's thread ----
  // Enables the records that `activities` (ring::Activities) requests, and discards them until the window
  // opens. Returns false with `why` if it failed and everything is undone. After an error that cannot pass,
  // such as missing privileges, this source stays unused until the process ends.
  bool Arm(const CuptiApi& api, uint32_t activities, const CuptiCallbacks& callbacks,
           const CuptiMemory& memory, const ring::ClientSegment& segment, Sentence* why);
  bool armed() const { return armed_.load(); }
  // Makes CUPTI set itself up in this process without recording. CUPTI then sees the kernels of CUDA graphs
  // that are made later. Returns false on failure.
  bool Prepare(const CuptiApi& api);
  // From now on, records that CUPTI drops count as our loss. Earlier drops do not count.
  void OpenWindow();
  // Makes CUPTI report all existing devices, contexts and streams, and each new one. Call it after the start
  // of the capture, because earlier records are discarded. A second call does nothing.
  void DescribeObjects();
  // Requests the buffers whose records are complete.
  void Flush();
  // Waits for the records of the window, stops recording, and takes every buffer back from CUPTI, by a forced
  // flush if necessary. It waits at most 2 s, and less if all records are there or no more come.
  void Drain();
  // Stops recording and discards everything that is still inside CUPTI.
  void Abort();

  uint64_t records() const { return records_; }
  uint64_t outside() const { return outside_; }
  // Frees the memory of the buffers that CUPTI does not have. It may keep some, full or empty.
  void DiscardFreeBuffers();
  uint32_t version() const { return version_; }
  // True if the last Arm failed because another tool in this process holds CUPTI. `holder` names it, or is
  // empty if the name is unknown.
  bool held() const { return held_; }
  const HolderName& holder() const { return holder_; }
  // True if CUPTI was lost in the last window: another tool took its clock or buffers, or it failed.
  bool lost() const { return lost_; }
  // Converts CUPTI's stamps if they are not the host's.
  const TickClock& ticks() const { return ticks_; }
  // A remark on the window: a problem that only its end showed, or how its stamps were converted. Empty means
  // none.
  const Sentence& note() const { return note_; }

 private:
  bool CheckVersion(Sentence* why) const;
  enum class Clock : uint8_t { kHosts, kTicks, kForeign, kUnknown };
  Clock ReadClockDomain() const;
  bool CheckClock(Sentence* why);
  // Finds the holder of CUPTI's only subscriber place. Returns false if the place is free. It occupies a free
  // place for a moment, so call it only after a failure.
  bool FindHolder(HolderName* name) const;
  // Appends the holder to a sentence.
  bool NameHolder(Sentence* to, HolderName* name) const;
  // Checks after a window whether CUPTI failed, or another profiler has taken its clock or callbacks.
  void CheckWindow();
  void FlushAll(uint32_t flags);
  bool Enable(uint32_t activities, Sentence* why);
  bool Fail(const char* function, foreign::cupti::Result result, Sentence* why);
  void WarmBuffers();
  void WaitForWindow(MonoTime since);
  // True if CUPTI has records that it has not returned.
  bool records_outstanding() const { return pool_.holding_records() != 0; }
  void Finish();
  void ConvertOrQueue(uint32_t number, size_t valid_bytes);
  void CountDropped();

  const Timing& timing_;
  const Window& window_;
  Trigger& trigger_;
  StringIds& ids_;
  CuptiApi api_;
  uint32_t version_ = 0;
  std::atomic<bool> armed_{false};
  Sentence dormant_;  // the reason if this source is unused, else empty
  bool held_ = false;
  HolderName holder_;
  Sentence note_;
  bool lost_ = false;
  foreign::cupti::Result flush_error_ = foreign::cupti::Result::kSuccess;  // the last one of this session
  TickClock ticks_;
  uint32_t sessions_ = 0;     // number of sessions that were armed or prepared
  bool undescribed_ = false;  // the devices of this capture are not reported yet
  EnabledActivities enabled_;
  const ring::ClientSegment* segment_ = nullptr;
  uint64_t records_ = 0;
  uint64_t outside_ = 0;

  CuptiBufferSettings buffers_;
  BufferPool pool_;
  std::byte* discard_ = nullptr;
  std::atomic<bool> collecting_{false};  // completed buffers are converted, not only taken back
  std::atomic<bool> count_dropped_{false};
  std::atomic<uint32_t> converting_{0};  // 1 while a thread holds ring 0 and the converter
  Converter converter_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_CUPTI_SOURCE_H_
