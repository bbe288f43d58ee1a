// What Python's cProfile counted in one rank: a row a function, summed over the profile's length. Plain
// values.
#ifndef LOCKSTEP_AGGREGATOR_STORE_PYTHON_PROFILE_H_
#define LOCKSTEP_AGGREGATOR_STORE_PYTHON_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::store {

struct PythonFunction {
  std::string name;  // "<built-in method torch.mm>" for those of C
  std::string file;  // "~": of C
  int64_t line = 0;
  int64_t calls = 0;
  int64_t primitive_calls = 0;  // those that were not within another of the same
  Nanos self;                   // without what it called
  Nanos total;                  // with it
};

struct PythonProfile {
  RankId rank;
  std::vector<PythonFunction> functions;  // in the file's order
  uint64_t unreadable = 0;                // entries that are no function's
};

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_PYTHON_PROFILE_H_
