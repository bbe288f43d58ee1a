// Counts of Python's cProfile in one rank: one row per function, summed over the length of the profile. Plain
// values.
#ifndef LOCKSTEP_CAPTURE_MODEL_PYTHON_PROFILE_H_
#define LOCKSTEP_CAPTURE_MODEL_PYTHON_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::capture {

struct PythonFunction {
  std::string name;  // "<built-in method torch.mm>" for a C function
  std::string file;  // "~": a C function
  int64_t line = 0;
  int64_t calls = 0;
  int64_t primitive_calls = 0;  // calls outside other calls of the same function
  Nanos self;                   // time without callees
  Nanos total;                  // time with callees
};

struct PythonProfile {
  RankId rank;
  std::vector<PythonFunction> functions;  // in the file's order
  uint64_t unreadable = 0;                // entries that do not describe a function
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_PYTHON_PROFILE_H_
