// The Python profile of a capture. It begins and ends in Python's main thread, and is passed on as a sealed
// memory file.
//
//   off ─Arm─▶ armed ─Begin─▶ asked ─(main thread)─▶ running ─End─▶ ending ─(main thread)─▶ over ─Take─▶ off
//
// The agent's thread posts requests, and never waits for Python's lock. The main thread acts when it reaches
// its next bytecode, which a long call of native code delays. A profile that then belongs to an ended capture
// is ended and discarded.
#ifndef LOCKSTEP_CLIENT_PYTHON_PYTHON_PROFILE_H_
#define LOCKSTEP_CLIENT_PYTHON_PYTHON_PROFILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/time.h"
#include "client/python/python_calls.h"
#include "client/record/text.h"
#include "client/record/timing.h"

namespace lockstep::client {

// `window` is the interval between the actual begin and end in the main thread. Without a profile, `error`
// has the reason.
struct PythonProfileResult {
  Fd file;
  uint64_t bytes = 0;
  HostInterval window;
  Sentence error;
};

class PythonProfile {
 public:
  // A process has one. Calls of the main thread may come late, so it must live until the process ends.
  constexpr PythonProfile(const Timing& timing, const PythonCalls& python)
      : timing_(timing), python_(python) {}
  PythonProfile(const PythonProfile&) = delete;
  PythonProfile& operator=(const PythonProfile&) = delete;

  // ---- the agent's thread ----
  void Arm();
  // Call them at T0 and T1, or soon after. A repeated call does nothing.
  void Begin();
  void End();
  // True after End when the result is available, or will not come.
  bool over() const;
  // Returns the result so far. Call it once, after End.
  PythonProfileResult Take();
  // Discards the profile.
  void Abort();
  bool wanted() const { return phase() != Phase::kOff; }

  // Call it in a child process, because the parent's profile does not belong to the child.
  void ForgetInChild() { word_.store(0); }

 private:
  enum class Phase : uint8_t { kOff, kArmed, kAsked, kRunning, kEnding, kOver };
  // The capture's number and its phase change together. A late call of an earlier capture therefore cannot
  // change a later one.
  static constexpr uint64_t Word(uint64_t number, Phase phase) {
    return number << 8 | static_cast<uint64_t>(phase);
  }
  Phase phase() const { return static_cast<Phase>(word_.load(std::memory_order_acquire) & 0xFF); }
  bool Change(Phase from, Phase to);

  static int OnPrepare(void* self);
  static int OnBegin(void* self);
  static int OnEnd(void* self);
  // Ends and discards the running profile.
  PythonRan Forget();
  void Keep(const void* bytes, size_t size);
  void KeepError(const Sentence& error);

  const Timing& timing_;
  const PythonCalls& python_;
  std::atomic<uint64_t> word_{0};

  // The agent's thread uses these members.
  uint64_t number_ = 0;
  Sentence not_asked_;  // the reason why Python was not asked

  // The main thread uses this member.
  uint64_t profiling_ = 0;  // the capture whose profile runs; 0: none
  // The main thread uses these until the phase is kOver, then the agent's thread does.
  int file_ = -1;
  uint64_t bytes_ = 0;
  HostInterval window_;
  Sentence error_;
};

// Returns a memory file with `bytes` that can no longer be changed, or -1 without memory for it.
int SealedFile(const void* bytes, size_t size);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_PYTHON_PYTHON_PROFILE_H_
