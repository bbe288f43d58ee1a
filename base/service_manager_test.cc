#include "base/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace lockstep {
namespace {

// The socket of a service manager at `name`, in systemd's syntax.
class Manager {
 public:
  explicit Manager(const std::string& name)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  }
  std::string Received() {
    char text[64];
    const ssize_t n = ::recv(socket_.get(), text, sizeof text, 0);
    return n < 0 ? "nothing" : std::string(text, static_cast<size_t>(n));
  }

 private:
  Fd socket_;
};

TEST(ServiceManager, IsNotifiedAtAPath) {
  char folder[] = "/tmp/lockstep-notify-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/socket";
  Manager manager(path);
  NotifyServiceManager(path.c_str(), kServiceReady);
  EXPECT_EQ(manager.Received(), "READY=1");
  NotifyServiceManager(path.c_str(), kServiceStopping);
  EXPECT_EQ(manager.Received(), "STOPPING=1");
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST(ServiceManager, IsNotifiedAtAnAbstractName) {
  const std::string name = "@lockstep-notify-" + std::to_string(::getpid());
  Manager manager(name);
  NotifyServiceManager(name.c_str(), kServiceReady);
  EXPECT_EQ(manager.Received(), "READY=1");
}

TEST(ServiceManager, MayBeAbsent) {
  for (const char* nobody : {"", "@", "relative", "/nowhere/at/all"})
    NotifyServiceManager(nobody, kServiceReady);
  NotifyServiceManager(nullptr, kServiceReady);
  const std::string endless = "/" + std::string(200, 'x');
  NotifyServiceManager(endless.c_str(), kServiceReady);
}

}  // namespace
}  // namespace lockstep
