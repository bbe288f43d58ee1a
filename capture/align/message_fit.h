// Decides whether two channels are the sender and the receiver of the same messages, and pairs their kernels.
//
// Messages arrive in the order in which they were sent, so one shift between the counts of both sides pairs
// them. A receiver that came first leaves with its sender. Without a buffer, both sides always leave
// together. So each message on which one side clearly waited shows one shift, and no message may contradict
// it. If no side ever waited, the operations that both ranks share once per step decide: a message is
// received in the step in which it was sent. Pure functions, any thread.
#ifndef LOCKSTEP_CAPTURE_ALIGN_MESSAGE_FIT_H_
#define LOCKSTEP_CAPTURE_ALIGN_MESSAGE_FIT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace lockstep::capture {

// One kernel of a channel.
struct MessageSide {
  double start_ns = 0;  // since a moment that is common to all arguments of a call
  double end_ns = 0;
  int64_t place = 0;          // index among the channel's kernels, lost ones included
  bool among_others = false;  // its kernel has other messages, for which it may stay longer
};

// An operation that two ranks leave together, as a time on each one's clock.
struct SyncPoint {
  double sender_ns = 0;
  double receiver_ns = 0;
};

// The way in which the places of a channel's kernels are known.
enum class Places : uint8_t {
  kSeen,     // by counting the recorded kernels
  kCounted,  // by the numbers of calls, so lost kernels count
};

// Evidence of one message for or against a fit.
enum class Consistency : uint8_t {
  kNothing,         // possible, as it would be with other shifts
  kLeavesTogether,  // one side clearly waited, and both left together
  kContradicts,     // the side that waited left at another time, or before the other came
};

struct MessageFit {
  int64_t shift = 0;        // place of the send minus the place of its receive
  double ahead_ns = 0;      // lead of the receiver's clock
  bool rendezvous = false;  // the sender waits too
  uint32_t messages = 0;
  uint32_t together = 0;
  uint32_t contradicting = 0;
  double spread_ns = 0;  // typical distance of the ends of messages that left together

  Consistency ConsistencyOf(const MessageSide& send, const MessageSide& receive) const;
  // Log likelihood by which the ends coincide better than by chance. Larger is better.
  double Evidence() const;
};

// Both sides are ordered by place and by end. `sync_points`, in order, show the lead of the clocks. Without
// them, the lead is known to within `apart_ns`, infinite if unknown. nullopt: nothing shows that the two
// channels exchange messages, or several shifts fit.
std::optional<MessageFit> FitMessages(std::span<const MessageSide> sends,
                                      std::span<const MessageSide> receives, double apart_ns,
                                      std::span<const SyncPoint> sync_points, Places places);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_ALIGN_MESSAGE_FIT_H_
