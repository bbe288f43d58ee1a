// A descriptor of the client in the user's process. Its number is at least 512 if possible, because programs
// rely on low numbers. An application may close all descriptors and reuse the number. Before each use, fstat
// therefore checks that it is still the file that we opened.
#ifndef LOCKSTEP_CLIENT_DESCRIPTOR_H_
#define LOCKSTEP_CLIENT_DESCRIPTOR_H_

#include <cstdint>

namespace lockstep::client {

class Descriptor {
 public:
  constexpr Descriptor() = default;

  // Moves `low` to a high number and closes it. Returns false if the process may have no more descriptors;
  // `low` is closed in any case.
  bool Take(int low);
  // Returns the number if it is still ours. Else it forgets the number without closing it, and returns -1.
  int Use();
  void Close();
  // Forgets the number without closing it. A child process calls it, because its copy belongs to the
  // application.
  void Forget() { fd_ = -1; }

 private:
  int fd_ = -1;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_DESCRIPTOR_H_
