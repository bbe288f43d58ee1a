// Selects the kernels of sends and receives that are replayed with all their messages.
#ifndef LOCKSTEP_FORMATS_SCENARIO_MESSAGE_KERNELS_H_
#define LOCKSTEP_FORMATS_SCENARIO_MESSAGE_KERNELS_H_

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "capture/align/match.h"
#include "capture/model/capture.h"

namespace lockstep::formats {

struct KernelMessage {
  uint32_t collective;      // into RankData::collectives of the kernel's rank
  capture::Member partner;  // the other end of the message
};

struct MessageKernel {
  uint32_t group = capture::kNone;      // into Capture::groups
  std::vector<KernelMessage> messages;  // in the kernel's order, without the messages of a rank to itself
};

struct KernelPlace {
  uint32_t rank_index;  // into Capture::ranks
  uint32_t activity;    // into RankData::activities
  auto operator<=>(const KernelPlace&) const = default;
};

using MessageKernels = std::map<KernelPlace, MessageKernel>;

// Returns the kernels whose messages all have partners in returned kernels, so that none is replayed in part.
// The k-th message from one rank to another in a group is also the k-th receive in the other program.
// `program_order` is the ProgramOrder of each rank.
MessageKernels SelectMessageKernels(const capture::Capture& capture, const capture::Matches& matches,
                                    const std::vector<std::vector<uint32_t>>& program_order);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_SCENARIO_MESSAGE_KERNELS_H_
