// The client's calls into the process's own Python, if it has one: a call in the main thread, and begin and
// end of a profile there. The client neither loads nor links Python. It looks up functions of Python's stable
// ABI in the process.
//
// It is a table of functions, like Timing, so that tests can replace it.
#ifndef LOCKSTEP_CLIENT_PYTHON_PYTHON_CALLS_H_
#define LOCKSTEP_CLIENT_PYTHON_PYTHON_CALLS_H_

#include <cstddef>
#include <cstdint>

#include "client/record/text.h"

namespace lockstep::client {

// kRaised: the program raised an exception, such as Ctrl-C, which must be passed on.
enum class PythonRan : uint8_t { kDone, kError, kRaised };

// Takes the bytes of a profile. They are valid only during the call.
struct ProfileReceiver {
  void (*take)(void* context, const void* bytes, size_t size);
  void* context;
};

struct PythonCalls {
  // Any thread. Returns false with `why` if the process has no usable Python.
  bool (*find)(Sentence* why);
  // Any thread, with or without Python's lock. Makes the main thread call `call(data)` soon, between two
  // bytecodes. The call returns 0, or -1 with an exception set. Returns false if Python accepts no more calls
  // now.
  bool (*post)(int (*call)(void*), void* data);

  // ---- only inside such a call ----
  PythonRan (*begin)(Sentence* error);
  PythonRan (*end)(const ProfileReceiver& receiver, Sentence* error);
  // Loads our Python code before the first begin, so that the profile does not include the loading.
  PythonRan (*prepare)(Sentence* error);
};

// The calls into the Python of this process.
extern const PythonCalls kProcessPython;

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_PYTHON_PYTHON_CALLS_H_
