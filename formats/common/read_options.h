// Options of the readers of recorded traces.
#ifndef LOCKSTEP_FORMATS_COMMON_READ_OPTIONS_H_
#define LOCKSTEP_FORMATS_COMMON_READ_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "capture/model/row_overflow.h"

namespace lockstep::formats {

// The detail in which readers keep the host's operators, annotations and Python functions. With kUnions, they
// keep only the times at which any of them ran (capture::HostUnions). With kFrames, they also keep each one
// (capture::HostFrames), for the views of operators, modules and memory.
enum class HostDetail : uint8_t { kUnions, kFrames };

// The span to read if ranks have several files each, one per span (docs/formats/kineto.md).
struct SpanChoice {
  enum class Kind : uint8_t { kLastOfAllRanks, kLast, kNumber };
  Kind kind = Kind::kLastOfAllRanks;
  int number = 0;  // with kNumber: counted from 1, in order of time
};

struct ReadOptions {
  int threads = 2;
  HostDetail host = HostDetail::kUnions;
  SpanChoice span;
  // Receives the tables of each rank or file once they are read. Null: they stay in memory.
  capture::RowOverflow* overflow = nullptr;
  // Receives a sentence if the input has several spans: their number and the span that is read. The notes of
  // the capture have it, too. It may be empty.
  std::function<void(const std::string& note)> chose_span;
  // Called from time to time, from any thread, with the bytes read so far and in total. It may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_COMMON_READ_OPTIONS_H_
