// What belongs together across threads and devices: which call of which operator launched what, and which
// backward operator answers which forward one (the arrows "ac2g" and "fwdbwd" of PyTorch's trace view).
#ifndef LOCKSTEP_AGGREGATOR_VIEWS_LINKS_H_
#define LOCKSTEP_AGGREGATOR_VIEWS_LINKS_H_

#include <optional>
#include <string_view>
#include <vector>

#include "capture/model/capture.h"

namespace lockstep::views {

// A kernel, copy or set, and where it came from.
struct LaunchLink {
  RankId rank;
  std::string_view op;    // innermost around the call; empty: none, or frames were not kept
  std::string_view call;  // empty: not recorded
  std::optional<HostTime> op_start, call_start;
  ThreadId thread;  // of the call
  std::string_view activity;
  store::ActivityKind kind = store::ActivityKind::kKernel;
  HostTime start;
  Nanos length;
  StreamId stream;
  CorrelationId correlation;
};

struct BackwardLink {
  RankId rank;
  int64_t sequence = 0;  // PyTorch's, of the forward thread
  std::string_view forward, backward;
  HostTime forward_start, backward_start;
  Nanos forward_host, backward_host;
  Nanos forward_device, backward_device;  // with all that lies in them
};

// In the order of their starts on the device, by rank.
std::vector<LaunchLink> LaunchLinksOf(const store::Capture& capture);

// In the order of the forward operators, by rank. Several frames of a thread carry one number: the outermost
// of them is the operator. PyTorch counts for each forward thread and numbers those threads in its own way,
// so where several threads ran forward a number may mean several operators: then the last of them that began
// before the backward one.
std::vector<BackwardLink> BackwardLinksOf(const store::Capture& capture);

}  // namespace lockstep::views

#endif  // LOCKSTEP_AGGREGATOR_VIEWS_LINKS_H_
