#include "base/service_manager.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "base/service_manager_fake.h"

namespace lockstep {
namespace {

TEST(ServiceManager, IsNotifiedAtAPath) {
  char folder[] = "/tmp/lockstep-notify-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/socket";
  {
    FakeServiceManager manager(path);
    NotifyServiceManager(path.c_str(), kServiceReady);
    EXPECT_EQ(manager.Received(), "READY=1");
    NotifyServiceManager(path.c_str(), kServiceStopping);
    EXPECT_EQ(manager.Received(), "STOPPING=1");
  }
  ::rmdir(folder);
}

TEST(ServiceManager, IsNotifiedAtAnAbstractName) {
  const std::string name = "@lockstep-notify-" + std::to_string(::getpid());
  FakeServiceManager manager(name);
  NotifyServiceManager(name.c_str(), kServiceReady);
  EXPECT_EQ(manager.Received(), "READY=1");
}

TEST(ServiceManager, IsTheWatchdogOfThisProcessOnly) {
  EXPECT_EQ(WatchdogPeriod("120000000", "7", 7), Nanos::Seconds(60));
  EXPECT_EQ(WatchdogPeriod("120000000", nullptr, 7), Nanos::Seconds(60));
  EXPECT_EQ(WatchdogPeriod("120000000", "8", 7), std::nullopt);
  EXPECT_EQ(WatchdogPeriod("120000000", "", 7), std::nullopt);
  EXPECT_EQ(WatchdogPeriod(nullptr, "7", 7), std::nullopt);
  for (const char* wrong : {"", "0", "-5", "5s", " 5", "1e6", "9223372036854775807", "99999999999999999999"})
    EXPECT_EQ(WatchdogPeriod(wrong, "7", 7), std::nullopt) << wrong;
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
