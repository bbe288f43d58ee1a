// The arena holds all memory of the client. It is one reservation, made when the first capture is armed, and
// then kept, so that a late callback never uses an unmapped address. Between captures its pages go back to
// the system.
#ifndef LOCKSTEP_CLIENT_RECORD_ARENA_H_
#define LOCKSTEP_CLIENT_RECORD_ARENA_H_

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

  // Reserves only address space; pages come with the first touch. Forked children do not inherit it. Returns
  // false if there is no address space.
  bool Reserve(size_t bytes);
  bool reserved() const { return base_ != nullptr; }

  // Returns the next `bytes` of the reservation, aligned to a page, or an empty part if it is used up. Parts
  // are never returned.
  Memory Take(size_t bytes);
  // Returns a part's pages to the system. It reads as zero afterwards.
  static void Discard(Memory part);
  // Loads a part's pages now, so that no callback has to wait for them.
  static void Touch(Memory part);

 private:
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
  size_t used_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_ARENA_H_
