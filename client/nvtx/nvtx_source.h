// Records NVTX ranges and marks, and the steps of lockstep.h. It knows of NVTX only what an injection
// receives. It keeps domains and registered strings in fixed memory until the process ends.
//
// Any thread may call it. While idle, each call costs one load and a branch (RecordingFlags::nvtx). While
// progress is followed, each begin of a range also reads the range's name, and steps go to the operation log.
#ifndef LOCKSTEP_CLIENT_NVTX_NVTX_SOURCE_H_
#define LOCKSTEP_CLIENT_NVTX_NVTX_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "client/nvtx/nvtx_payload.h"
#include "client/record/operation_log.h"
#include "client/record/recorder.h"
#include "client/record/recording_flags.h"
#include "client/record/timing.h"
#include "client/record/trigger.h"
#include "wire/foreign/nvtx.h"

namespace lockstep::client {

// The text of a range. An empty message has no text.
struct RangeMessage {
  const char* text = "";
  size_t length = 0;
};

// The domain of the ranges that lockstep.h makes.
inline constexpr std::string_view kLockstepDomain = "lockstep";

class NvtxSource {
 public:
  constexpr NvtxSource(RecordingFlags& flags, Recorder& recorder, const ActivityClock& clock,
                       const Window& window, Trigger& trigger, OperationLog& log)
      : flags_(flags), recorder_(recorder), clock_(clock), window_(window), trigger_(trigger), log_(log) {}

  bool idle() const { return flags_.nvtx.load(std::memory_order_relaxed) == 0; }
  // The begins of steps go to the operation log, also while idle.
  bool follows_steps() const { return flags_.progress.load(std::memory_order_relaxed) != 0; }
  // The begin of a range has no effect.
  bool ignores_begins() const { return idle() && !follows_steps(); }

  // ---- the application's threads; domain null = the default domain ----
  // Returns the nesting depth on this thread, or kNoPushPopTracking while idle.
  int Push(const void* domain, RangeMessage message, uint64_t payload);
  int Pop(const void* domain);
  void Mark(const void* domain, RangeMessage message, uint64_t payload);
  foreign::nvtx::RangeId Start(const void* domain, RangeMessage message, uint64_t payload);
  void End(foreign::nvtx::RangeId id);

  // Returns handles that the application passes back. A full table returns a handle without a name.
  foreign::nvtx::DomainHandle CreateDomain(const char* name);
  foreign::nvtx::StringHandle RegisterString(const char* text, size_t length);
  RangeMessage Registered(foreign::nvtx::StringHandle handle) const;
  // The schemas and enumerations of payloads.
  NvtxSchemas& schemas() { return schemas_; }
  // Returns whether `domain` is NCCL's, created through us.
  bool IsNccl(const void* domain) const;
  // Sets a host thread's name, cut to fit, while idle too. The latest name counts. A full table drops new
  // threads.
  void NameThread(uint32_t thread, RangeMessage name);

  // ---- the agent's thread, at the end of a capture (see Recorder::End) ----
  // Writes the ranges that are still open on a thread.
  void CloseOpen(ThreadSlot& slot);
  // Writes the start/end ranges that are still open, through any slot of ours.
  void CloseStarted(ThreadSlot& slot);
  // Writes every known thread name, at the start of a window.
  void WriteThreadNames(ThreadSlot& slot);
  // Forgets the start/end ranges of an earlier capture.
  void Begin(uint64_t capture) { capture_ = capture; }

 private:
  static constexpr uint32_t kDomains = 256;
  static constexpr uint32_t kDomainName = 64;
  static constexpr uint32_t kStrings = 4096;
  static constexpr uint32_t kStringBytes = 256u << 10;
  static constexpr uint32_t kStarted = 256;  // start/end ranges that are open at the same time
  static constexpr uint32_t kStartedText = 256;
  static constexpr uint32_t kThreads = 256;  // threads with a name
  static constexpr uint32_t kThreadName = 64;

  struct Domain {
    char name[kDomainName];
    bool is_nccl;
  };
  struct NamedThread {
    std::atomic<uint32_t> thread{0};  // 0: free
    std::atomic<uint32_t> length{0};  // 0: being filled in
    char name[kThreadName] = {};
  };
  struct StringPlace {
    const char* text;
    uint32_t length;
  };
  // A start/end range may end on another thread, so it has its own copy of the text.
  struct Started {
    std::atomic<uint64_t> id{0};  // 0 free, kFilling while being written
    HostTime start;
    const void* domain = nullptr;
    uint64_t payload = 0;
    uint32_t thread = 0;
    uint32_t length = 0;
    char text[kStartedText] = {};
  };
  static constexpr uint64_t kFilling = ~uint64_t{0};

  struct Finished {
    HostTime start;
    HostTime end;
    bool start_known = true;  // pushed while tracking was on
    bool end_known = true;
  };

  RangeText Keep(ThreadSlot& slot, RangeMessage message);
  uint32_t Define(ThreadSlot& slot, RangeText text);
  // Returns an empty text for the default domain and for domains of another injection.
  std::string_view NameOf(const void* domain) const;
  uint32_t DomainName(ThreadSlot& slot, const void* domain);
  // Adds the range to the operation log if its name is that of a step.
  void LogStep(const void* domain, RangeMessage message);
  // Reports the begin of a range, at which the window may begin or end.
  void NotifyTrigger(const void* domain, RangeMessage message, uint64_t key, HostTime now);
  static void WriteThreadName(ThreadSlot& slot, uint32_t thread, RangeMessage name);
  void Write(ThreadSlot& slot, const OpenRange& range, const Finished& times, uint32_t depth,
             uint32_t thread);

  RecordingFlags& flags_;
  Recorder& recorder_;
  const ActivityClock& clock_;
  const Window& window_;
  Trigger& trigger_;
  OperationLog& log_;
  uint64_t capture_ = 0;
  std::atomic<uint32_t> domains_used_{0};
  std::atomic<uint32_t> strings_used_{0};
  std::atomic<uint32_t> string_bytes_used_{0};
  std::atomic<uint64_t> next_started_{1};
  Domain domains_[kDomains] = {};
  StringPlace strings_[kStrings] = {};
  char string_bytes_[kStringBytes] = {};
  Started started_[kStarted];
  NamedThread threads_[kThreads];
  NvtxSchemas schemas_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_NVTX_SOURCE_H_
