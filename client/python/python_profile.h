// The Python profile of a capture: begun and ended in Python's main thread, given on as a sealed memory file.
//
//   off ─Arm─▶ armed ─Begin─▶ asked ─(main thread)─▶ running ─End─▶ ending ─(main thread)─▶ over ─Take─▶ off
//
// Our thread asks and never waits for Python's lock; the main thread acts when it next comes to a bytecode,
// which a long call of native code puts off. What it then finds belonging to a capture that has gone on
// without it, it ends and throws away.
#ifndef LOCKSTEP_CLIENT_PYTHON_PROFILE_H_
#define LOCKSTEP_CLIENT_PYTHON_PROFILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/fd.h"
#include "base/time.h"
#include "client/python/python_calls.h"
#include "client/record/text.h"
#include "client/record/timing.h"

namespace lockstep::client {

// `window` is when the main thread began and ended it; without a profile `trouble` says why.
struct PythonProfileResult {
  Fd file;
  uint64_t bytes = 0;
  HostInterval window;
  Sentence trouble;
};

class PythonProfile {
 public:
  // One per process: the main thread's calls may come late, so it lives as long as the process.
  constexpr PythonProfile(const Timing& timing, const PythonCalls& python)
      : timing_(timing), python_(python) {}
  PythonProfile(const PythonProfile&) = delete;
  PythonProfile& operator=(const PythonProfile&) = delete;

  // ---- our thread ----
  void Arm();
  // At T0 and T1, or soon after; what has been asked for is not asked for again.
  void Begin();
  void End();
  // After End: the result is there, or will not be.
  bool over() const;
  // After End, once: what there is by now.
  PythonProfileResult Take();
  // Not wanted any more.
  void Abort();
  bool wanted() const { return phase() != Phase::kOff; }

  // In a child process: the parent's profile is not the child's.
  void ForgetInChild() { word_.store(0); }

 private:
  enum class Phase : uint8_t { kOff, kArmed, kAsked, kRunning, kEnding, kOver };
  // The capture's number and its phase change as one: a call of an earlier capture changes nothing of a later
  // one.
  static constexpr uint64_t Word(uint64_t number, Phase phase) {
    return number << 8 | static_cast<uint64_t>(phase);
  }
  Phase phase() const { return static_cast<Phase>(word_.load(std::memory_order_acquire) & 0xFF); }
  bool Change(Phase from, Phase to);

  static int OnPrepare(void* self);
  static int OnBegin(void* self);
  static int OnEnd(void* self);
  // Ends the profile that runs, of which nothing is wanted.
  PythonRan Forget();
  void Keep(const void* bytes, size_t size);
  void KeepTrouble(const Sentence& trouble);

  const Timing& timing_;
  const PythonCalls& python_;
  std::atomic<uint64_t> word_{0};

  // Our thread.
  uint64_t number_ = 0;
  Sentence not_asked_;  // why Python was not asked

  // The main thread.
  uint64_t profiling_ = 0;  // the capture whose profile runs; 0: none
  // The main thread, until the phase is over; then our thread.
  int file_ = -1;
  uint64_t bytes_ = 0;
  HostInterval window_;
  Sentence trouble_;
};

// `bytes` in a memory file that nobody can change any more; -1: there is no memory for it.
int SealedFile(const void* bytes, size_t size);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_PYTHON_PROFILE_H_
