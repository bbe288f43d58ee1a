// Frames that a process's host threads ran: PyTorch's operators with the shapes of their arguments, the
// user's annotations, Python functions and modules, and the allocator's events. They are many times more
// numerous than device activities. So a reader keeps them only if asked to (formats::ReadOptions::host).
//
// Plain values, filled by a reader, then read-only. Time stamps are those of the rank's own host clock.
#ifndef LOCKSTEP_CAPTURE_MODEL_HOST_FRAMES_H_
#define LOCKSTEP_CAPTURE_MODEL_HOST_FRAMES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "capture/model/rank_rows.h"

namespace lockstep::capture {

enum class FrameKind : uint8_t {
  kOperator,
  kAnnotation,
  kPython,
  kModule,
  kInferred,  // not recorded: Lockstep wrote it around a launch of communication, for other programs
};

// A stretch of one thread. Frames of a thread nest.
struct HostFrame {
  HostTime start;
  HostTime end;
  NameId name;
  ThreadId thread;
  uint32_t detail = kNone;  // into HostFrames::details
  FrameKind kind = FrameKind::kOperator;
};

// Facts that the source states about a frame besides its times. kNoName: not stated.
struct FrameDetail {
  NameId shapes = kNoName;   // of the arguments, as JSON: "[[64, 3, 7, 7], []]"
  NameId types = kNoName;    // of the arguments, as JSON: "[\"float\", \"Scalar\"]"
  NameId values = kNoName;   // of the arguments that are not tensors, as JSON: "[\"\", \"[2, 2]\"]"; with a
                             // name: "stride=[2, 2]"
  NameId stack = kNoName;    // innermost call first, separated by ';'
  NameId modules = kNoName;  // "A(Top).L1(Sub)…", if PyTorch wrote it on operators
  int64_t sequence =
      -1;  // PyTorch's number that a forward operator shares with its backward operator; -1: none
  ThreadId forward_thread;  // for an operator of the backward pass: PyTorch's number of the forward thread;
                            // 0: none
  int64_t python_id = -1;   // of Python frames; -1: none
  int64_t python_parent = -1;

  friend bool operator==(const FrameDetail&, const FrameDetail&) = default;
};

// PyTorch's allocator handed out memory (bytes > 0) or took it back.
struct AllocationEvent {
  HostTime time;
  ThreadId thread;
  int64_t bytes = 0;
  uint64_t address = 0;              // 0: unknown
  int32_t device = -1;               // -1: the host's memory
  std::optional<int64_t> allocated;  // bytes in use on that device afterwards
  std::optional<int64_t> reserved;   // bytes that the allocator holds afterwards
};

struct HostFrames {
  std::vector<HostFrame> frames;  // sorted by thread, start, then the longer first
  std::vector<FrameDetail> details;
  std::vector<AllocationEvent> allocations;  // sorted by time
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_MODEL_HOST_FRAMES_H_
