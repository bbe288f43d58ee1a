// A descriptor of ours in somebody else's process. It lives at 512 or above, out of the way of programs that
// count on low numbers, and is never used before fstat has shown that it still is what we opened: an
// application may close everything and reuse the number.
#ifndef LOCKSTEP_CLIENT_DESCRIPTOR_H_
#define LOCKSTEP_CLIENT_DESCRIPTOR_H_

#include <cstdint>

namespace lockstep::client {

class Descriptor {
 public:
  constexpr Descriptor() = default;

  // Moves `low` up and closes it. False: the process may have no more descriptors; `low` is closed all the
  // same.
  bool Take(int low);
  // The number if it is still ours, else -1 (and then it is forgotten, not closed).
  int Use();
  void Close();
  // Without closing: for a child process, whose copy of it is not ours to use.
  void Forget() { fd_ = -1; }

 private:
  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_DESCRIPTOR_H_
