// What the client asks of the Python that runs its process, if one does: a call in its main thread, and begin
// and end of a profile there. Python is never loaded nor linked: its functions are looked up in what the
// process has, and all are of its stable ABI.
//
// A table of functions, as Timing, so that tests hand in their own.
#ifndef LOCKSTEP_CLIENT_PYTHON_CALLS_H_
#define LOCKSTEP_CLIENT_PYTHON_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "client/record/text.h"

namespace lockstep::client {

// kRaised: with an exception that is the program's (Ctrl-C came meanwhile), which must be passed on.
enum class PythonRan : uint8_t { kDone, kTrouble, kRaised };

// Takes the bytes of a profile; they are gone when it returns.
struct ProfileTaker {
  void (*take)(void* context, const void* bytes, size_t size);
  void* context;
};

struct PythonCalls {
  // Any thread. Is there a Python that can be asked? False, with `why`.
  bool (*find)(Sentence* why);
  // Any thread, with or without Python's lock. Has `call(data)` called soon by the main thread, between two
  // of its bytecodes; it returns 0, or -1 with an exception set. False: Python takes no more calls now.
  bool (*post)(int (*call)(void*), void* data);

  // ---- only inside such a call ----
  PythonRan (*begin)(Sentence* trouble);
  PythonRan (*end)(const ProfileTaker& taker, Sentence* trouble);
  // Reads our Python ahead of the first begin, so that this is not in what is measured.
  PythonRan (*prepare)(Sentence* trouble);
};

// Those of this process.
extern const PythonCalls kProcessPython;

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_PYTHON_CALLS_H_
