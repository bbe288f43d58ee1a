// FakeServiceManager is the socket of a service manager, for tests.
#ifndef LOCKSTEP_BASE_SERVICE_MANAGER_FAKE_H_
#define LOCKSTEP_BASE_SERVICE_MANAGER_FAKE_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "base/fd.h"

namespace lockstep {

class FakeServiceManager {
 public:
  // The socket is at `name`, in systemd's syntax: an absolute path, or @ and an abstract name.
  explicit FakeServiceManager(const std::string& name)
      : name_(name), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  }
  ~FakeServiceManager() {
    if (name_[0] == '/') ::unlink(name_.c_str());
  }
  FakeServiceManager(const FakeServiceManager&) = delete;
  FakeServiceManager& operator=(const FakeServiceManager&) = delete;

  const char* name() const { return name_.c_str(); }

  // Returns the next state that has arrived, or "nothing".
  std::string Received() {
    char text[64];
    const ssize_t n = ::recv(socket_.get(), text, sizeof text, 0);
    return n < 0 ? "nothing" : std::string(text, static_cast<size_t>(n));
  }
  // Waits for the next state, at most `milliseconds`.
  std::string Next(int milliseconds = 10'000) {
    pollfd poll = {socket_.get(), POLLIN, 0};
    ::poll(&poll, 1, milliseconds);
    return Received();
  }
  void DropReceived() {
    while (Received() != "nothing") {
    }
  }

 private:
  const std::string name_;
  const Fd socket_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_SERVICE_MANAGER_FAKE_H_
