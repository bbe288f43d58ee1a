// What a process's host threads ran, frame by frame: PyTorch's operators with the shapes they were called
// with, the user's annotations, Python functions and modules, and what its allocator did. Kept only where a
// reader was asked to (trace::ReadOptions::host), since there are many times more of these than of device
// activities.
//
// Plain values, filled by a reader, then read-only. Stamps are those of the rank's own host clock.
#ifndef LOCKSTEP_AGGREGATOR_STORE_HOST_FRAMES_H_
#define LOCKSTEP_AGGREGATOR_STORE_HOST_FRAMES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/rank_rows.h"

namespace lockstep::store {

enum class FrameKind : uint8_t { kOperator, kAnnotation, kPython, kModule };

// A stretch of one thread. Frames of a thread nest.
struct HostFrame {
  HostTime start;
  HostTime end;
  NameId name;
  ThreadId thread;
  uint32_t detail = kNone;  // into HostFrames::details
  FrameKind kind = FrameKind::kOperator;
};

// What the source told of a frame besides its times. kNoName: nothing.
struct FrameDetail {
  NameId shapes = kNoName;  // of the arguments, as JSON: "[[64, 3, 7, 7], []]"
  NameId types = kNoName;   // of the arguments, as JSON: "[\"float\", \"Scalar\"]"
  NameId values = kNoName;  // of the arguments that are no tensors, as JSON: "[\"\", \"[2, 2]\"]"; one with a
                            // name: "stride=[2, 2]"
  NameId stack = kNoName;   // innermost call first, separated by ';'
  NameId modules = kNoName;  // "A(Top).L1(Sub)…", where PyTorch wrote it on operators
  int64_t sequence = -1;     // PyTorch's number that a forward operator and its backward share; -1: none
  ThreadId forward_thread;   // of an operator of the backward pass: PyTorch's own number of the forward
                             // thread; 0: none
  int64_t python_id = -1;    // of Python frames; -1: none
  int64_t python_parent = -1;

  friend bool operator==(const FrameDetail&, const FrameDetail&) = default;
};

// PyTorch's allocator gave out memory (bytes > 0) or took it back.
struct AllocationEvent {
  HostTime time;
  ThreadId thread;
  int64_t bytes = 0;
  uint64_t address = 0;              // 0: not told
  int32_t device = -1;               // -1: the host's memory
  std::optional<int64_t> allocated;  // in use after it, of that device
  std::optional<int64_t> reserved;   // held by the allocator after it
};

struct HostFrames {
  std::vector<HostFrame> frames;  // sorted by thread, start, then the longer first
  std::vector<FrameDetail> details;
  std::vector<AllocationEvent> allocations;  // sorted by time
};

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_HOST_FRAMES_H_
