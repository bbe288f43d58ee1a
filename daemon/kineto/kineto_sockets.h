// The sockets at which PyTorch's processes ask for traces: dynolog's name in the abstract namespace, which
// one process per network namespace can hold, and files in folders.
#ifndef LOCKSTEP_DAEMON_KINETO_KINETO_SOCKETS_H_
#define LOCKSTEP_DAEMON_KINETO_KINETO_SOCKETS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"

namespace lockstep::daemon {

// The destructor removes the socket's file if it is still this socket.
class KinetoSocket {
 public:
  KinetoSocket(Fd fd, std::string folder);
  KinetoSocket(KinetoSocket&& other) noexcept = default;
  KinetoSocket& operator=(KinetoSocket&&) = delete;
  ~KinetoSocket();

  int fd() const { return fd_.get(); }
  const std::string& folder() const { return folder_; }  // empty: the abstract name

 private:
  Fd fd_;
  std::string folder_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

struct KinetoSockets {
  std::vector<KinetoSocket> sockets;
  std::vector<std::string> errors;  // one sentence per name that could not be bound
};

enum class AbstractName : uint8_t { kNo, kYes };
// Binds every name that it can. Each folder gets a socket "dynolog"; the caller creates the folders.
KinetoSockets OpenKinetoSockets(AbstractName abstract_name, const std::vector<std::string>& folders);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_KINETO_KINETO_SOCKETS_H_
