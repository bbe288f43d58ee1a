// All memory of the client: one reservation, made when the first capture is armed and then kept, so that a
// late callback never meets an unmapped address. Between captures its pages go back to the system.
#ifndef LOCKSTEP_CLIENT_ARENA_H_
#define LOCKSTEP_CLIENT_ARENA_H_

#include <cstddef>
#include <cstdint>

namespace lockstep::client {

struct Memory {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class Arena {
 public:
  constexpr Arena() = default;

  // Address space only; pages come with the first touch. Not inherited by forked children. False: no address
  // space.
  bool Reserve(size_t bytes);
  bool reserved() const { return base_ != nullptr; }

  // The next `bytes` of the reservation on a page boundary; empty when it is spent. Never given back.
  Memory Take(size_t bytes);
  // Gives a part's pages back to the system; it reads as zero afterwards.
  static void Discard(Memory part);
  // Brings a part's pages in now, so that nobody pays for it inside a callback.
  static void Touch(Memory part);

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_ARENA_H_
