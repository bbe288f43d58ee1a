// Is one channel of kernels the sender, another the receiver of the same messages, and which answers which?
//
// Messages arrive in the order in which they were sent, so the question is by how many places both counts are
// shifted. A receiver that came first leaves with its sender (a message that is buffered) and, where nothing
// is buffered, everybody leaves with everybody. Everyone who clearly waited therefore names one shift, and no
// message may contradict it. Where nobody ever waited, the operations that both sides meet in once a step do:
// a step receives what it sent. Pure functions, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_FIT_H_
#define LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_FIT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace lockstep::align {

// One kernel of a channel.
struct MessageSide {
  double start_ns = 0;  // since any one moment that all of a call share
  double end_ns = 0;
  int64_t place = 0;  // among the channel's kernels, those that were lost included
};

// An operation that both ranks leave together, on each one's clock.
struct Meeting {
  double sender_ns = 0;
  double receiver_ns = 0;
};

// How the places of a channel's kernels are known.
enum class Places : uint8_t {
  kSeen,     // by counting those that were recorded
  kCounted,  // with those that were lost
};

// What one message says about a fit.
enum class Tells : uint8_t {
  kNothing,      // possible, as it would be with others
  kTogether,     // one side waited clearly and both left together
  kContradicts,  // the side that waited left at another time, or before the other came
};

struct MessageFit {
  int64_t shift = 0;        // place of the send less that of its receive
  double ahead_ns = 0;      // of the receiver's clock
  bool rendezvous = false;  // the sender waits too
  uint32_t messages = 0;
  uint32_t together = 0;
  uint32_t contradicting = 0;
  double spread_ns = 0;  // typical distance of ends of those that left together

  Tells Of(const MessageSide& send, const MessageSide& receive) const;
  // How much better than chance the ends coincide, in log likelihood. Larger is better.
  double Evidence() const;
};

// Both sides in order of place and of end. `meetings`, in order, tell how the clocks lie; without them that
// is known to `apart_ns`, infinite where it is not. nullopt: nothing says that the two exchange messages, or
// what says so fits more than one shift.
std::optional<MessageFit> FitMessages(std::span<const MessageSide> sends,
                                      std::span<const MessageSide> receives, double apart_ns,
                                      std::span<const Meeting> meetings, Places places);

}  // namespace lockstep::align

#endif  // LOCKSTEP_AGGREGATOR_ALIGN_MESSAGE_FIT_H_
