#include "base/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

namespace lockstep {
namespace {

// A manager's socket at `name`, as systemd spells it.
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

TEST(ServiceManager, IsToldAtAPath) {
  char folder[] = "/tmp/lockstep-notify-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/socket";
  Manager manager(path);
  TellServiceManager(path.c_str(), kServiceReady);
  EXPECT_EQ(manager.Received(), "READY=1");
  TellServiceManager(path.c_str(), kServiceStopping);
  EXPECT_EQ(manager.Received(), "STOPPING=1");
  ::unlink(path.c_str());
  ::rmdir(folder);
}

TEST(ServiceManager, IsToldAtAnAbstractName) {
  const std::string name = "@lockstep-notify-" + std::to_string(::getpid());
  Manager manager(name);
  TellServiceManager(name.c_str(), kServiceReady);
  EXPECT_EQ(manager.Received(), "READY=1");
}

TEST(ServiceManager, ThatIsNotThereIsNoMatter) {
  for (const char* nobody : {"", "@", "relative", "/nowhere/at/all"})
    TellServiceManager(nobody, kServiceReady);
  TellServiceManager(nullptr, kServiceReady);
  const std::string endless = "/" + std::string(200, 'x');
  TellServiceManager(endless.c_str(), kServiceReady);
}

}  // namespace
}  // namespace lockstep
