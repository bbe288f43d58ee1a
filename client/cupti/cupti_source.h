// CUPTI's activity API as a source of records: arms it, hands it buffers, converts what comes back into ring
// 0, and takes everything back at the end. Holds no CUPTI subscriber and registers no timestamp callback:
// both would break PyTorch's profiler in the same process.
//
// OnRequested runs on any application thread and OnCompleted on CUPTI's worker or a flushing thread; neither
// locks, allocates or waits. All else is called by our thread.
#ifndef LOCKSTEP_CLIENT_CUPTI_SOURCE_H_
#define LOCKSTEP_CLIENT_CUPTI_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "client/cupti/converter.h"
#include "client/cupti/cupti_api.h"
#include "client/record/buffer_pool.h"
#include "client/record/text.h"
#include "client/record/timing.h"
#include "client/record/trigger.h"
#include "wire/foreign/cupti.h"
#include "wire/ring/client_segment.h"

namespace lockstep::client {

inline constexpr size_t kCuptiBufferBytes = 4u << 20;
inline constexpr size_t kCuptiBuffers = 48;
// Touched at ARM: what a steady run has lent or queued at a time.
inline constexpr size_t kWarmCuptiBuffers = 6;
inline constexpr size_t kKernelNameBytes = 8u << 20;

// The two functions CUPTI calls; they find their CuptiSource themselves and call OnRequested and OnCompleted.
struct CuptiCallbacks {
  foreign::cupti::BufferRequested requested = nullptr;
  foreign::cupti::BufferCompleted completed = nullptr;
};

// Fits State::holder.
using HolderName = Text<64>;

struct CuptiMemory {
  Memory buffers;
  Memory discard;  // one buffer more
  Memory names;
};

class CuptiSource {
 public:
  constexpr CuptiSource(const Timing& timing, const Window& window, Trigger& trigger, StringIds& ids)
      : timing_(timing), window_(window), trigger_(trigger), ids_(ids) {}

  // ---- CUPTI's threads ----
  void OnRequested(uint8_t** buffer, size_t* bytes, size_t* max_records);
  void OnCompleted(uint8_t* buffer, size_t valid_bytes);

  // ---- our thread ----
  // Enables what `activities` (ring::Activities) asks for; what comes is discarded until the window opens.
  // False, with `why`: everything is undone. After a CUPTI error this source stays dormant for the life of
  // the process.
  bool Arm(const CuptiApi& api, uint32_t activities, const CuptiCallbacks& callbacks,
           const CuptiMemory& memory, const ring::ClientSegment& segment, Sentence* why);
  bool armed() const { return armed_.load(); }
  // Has CUPTI set itself up in this process, and records nothing: a CUDA graph that is made later is one
  // whose kernels it can see. False: it could not.
  bool Prepare(const CuptiApi& api);
  // From now on what CUPTI drops is our loss; what it dropped before is not.
  void OpenWindow();
  // Has CUPTI tell of the devices, contexts and streams that there are, and of each that is made from now on.
  // Behind the capture's start: before, nothing is kept. Does nothing the second time.
  void DescribeObjects();
  // Asks CUPTI for the buffers whose records are complete.
  void Flush();
  // Waits until the records of the window have come (at most 2 s, less when they are all there or nothing
  // comes any more), stops recording, and takes every buffer back from CUPTI, at last by force.
  void Drain();
  // Stops recording, keeps nothing that is still inside CUPTI.
  void Abort();

  uint64_t records() const { return records_; }
  uint64_t outside() const { return outside_; }
  // CUPTI still has buffers of ours (a drain that timed out): their memory must stay.
  bool buffers_lent() const { return pool_.lent() != 0; }
  uint32_t version() const { return version_; }
  // The last Arm failed because another tool in this process holds CUPTI; `holder` names it, empty where that
  // cannot be told.
  bool held() const { return held_; }
  const HolderName& holder() const { return holder_; }
  // What went wrong in the window that only its end showed; empty: nothing.
  const Sentence& note() const { return note_; }

 private:
  enum class Undo : uint8_t { kDisable, kDriverApi, kThreadIdType, kSyncRecords };
  struct UndoStep {
    Undo what;
    uint32_t argument;
  };

  bool CheckVersion(Sentence* why) const;
  enum class Clock : uint8_t { kHosts, kForeign, kUnknown };
  Clock ReadClockDomain() const;
  bool CheckClock(Sentence* why);
  // Who holds CUPTI's one subscriber's place, in words; false where nobody does. Takes the place for a moment
  // where nobody does, so only where something has gone wrong already.
  bool FindHolder(HolderName* name) const;
  // The same, put into a sentence.
  bool NameHolder(Sentence* to, HolderName* name) const;
  // After a window: another profiler may have taken CUPTI's clock or its callbacks.
  void LookForRivals();
  bool EnableKinds(uint32_t activities, Sentence* why);
  bool EnableKind(foreign::cupti::ActivityKind kind, Sentence* why);
  void EnableOptional(foreign::cupti::ActivityKind kind);
  bool EnableMemory(Sentence* why);
  void EnableDriverLaunches();
  bool Fail(const char* function, foreign::cupti::Result result, Sentence* why);
  void Remember(Undo what, uint32_t argument);
  void UndoAll();
  void WaitForWindow(MonoTime since);
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
  Sentence dormant_;  // why, when not empty
  bool held_ = false;
  HolderName holder_;
  Sentence note_;
  uint32_t sessions_ = 0;     // armed or prepared so far
  bool undescribed_ = false;  // the devices of this capture are still to be told of
  UndoStep undo_[32] = {};
  uint32_t undo_count_ = 0;
  const ring::ClientSegment* segment_ = nullptr;
  uint64_t records_ = 0;
  uint64_t outside_ = 0;

  BufferPool pool_;
  std::byte* discard_ = nullptr;
  std::atomic<bool> collecting_{false};  // completed buffers are converted, not just taken back
  std::atomic<bool> count_dropped_{false};
  std::atomic<uint32_t> converting_{0};  // who holds ring 0 and the converter
  Converter converter_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_SOURCE_H_
