// Finds the arrows of PyTorch's trace view: "ac2g" from an operator's call to the activity that it launched,
// and "fwdbwd" from a forward operator to its backward operator.
#ifndef LOCKSTEP_VIEWS_DEVICE_LINKS_H_
#define LOCKSTEP_VIEWS_DEVICE_LINKS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

// A kernel, copy or set, with its call and operator.
struct LaunchLink {
  RankId rank;
  std::string_view op;    // innermost operator around the call; empty: none, or frames were not kept
  std::string_view call;  // empty: not recorded
  std::optional<HostTime> op_start, call_start;
  ThreadId thread;  // of the call
  std::string_view activity;
  capture::ActivityKind kind = capture::ActivityKind::kKernel;
  HostTime start;
  Nanos length;
  StreamId stream;
  CorrelationId correlation;
};

struct BackwardLink {
  RankId rank;
  int64_t sequence = 0;  // PyTorch's sequence number, of the forward thread
  std::string_view forward, backward;
  HostTime forward_start, backward_start;
  Nanos forward_host, backward_host;
  Nanos forward_device, backward_device;  // including the operators inside them
};

// Returns links by rank, in the order of the activities' starts.
std::vector<LaunchLink> LaunchLinksOf(const capture::Capture& capture);

// Returns links by rank, in the order of the forward operators. If nested frames of a thread have the same
// sequence number, the outermost is the operator.
//
// PyTorch counts sequence numbers per forward thread, and identifies these threads by numbers of its own.
// With several forward threads, one number may therefore stand for several operators. The link then starts at
// the last of them that began before the backward operator.
std::vector<BackwardLink> BackwardLinksOf(const capture::Capture& capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_DEVICE_LINKS_H_
