#include "base/tls/certificate_watch.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/tls/authority.h"
#include "base/tls/tls_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

using testing::HasSubstr;

class CertificateWatchTest : public ::testing::Test {
 protected:
  CertificateWatchTest() {
    char pattern[] = "/tmp/lockstep-certificate-watch-XXXXXX";
    path_ = mkdtemp(pattern);
  }
  ~CertificateWatchTest() override { std::filesystem::remove_all(path_); }
  // A certificate that is valid for a day.
  void Write(HostTime from) { WriteTlsFolder(path_, authority_, Identity{Holder::kNode, "n1"}, from); }
  CertificateWatch WatchOf(const std::string& folder) {
    return CertificateWatch(folder, &OpenDirectly, clock_,
                            [this](LogLevel, const char* event, std::initializer_list<LogField>) {
                              logged_.emplace_back(event);
                            });
  }

  std::string path_;
  const Authority authority_ = *Authority::Make(kNow);
  const std::shared_ptr<StepClock> clock_ = std::make_shared<StepClock>();
  std::vector<std::string> logged_;
};

TEST_F(CertificateWatchTest, WarnsBeforeTheEndAndAfterIt) {
  Write(kNow);
  const CertificateWatch watch = WatchOf(path_);
  EXPECT_EQ(watch.End(), kNow + kDay);
  clock_->realtime = kNow + kDay - CertificateWatch::kRenewBefore - Nanos::Seconds(60);
  EXPECT_EQ(watch.Warning(), "");
  watch.LogWarning();
  EXPECT_TRUE(logged_.empty());
  clock_->realtime = kNow + kDay - CertificateWatch::kRenewBefore;
  EXPECT_THAT(watch.Warning(), HasSubstr("ends in 14 days: renew it with `lockstep node rotate`"));
  clock_->realtime = kNow + kDay - Nanos::Seconds(2 * 3600);
  EXPECT_THAT(watch.Warning(), HasSubstr(path_ + " ends in 2 h"));
  clock_->realtime = kNow + kDay * 2;
  EXPECT_THAT(watch.Warning(), HasSubstr("has ended 24 h ago"));
  watch.LogWarning();
  EXPECT_EQ(logged_, std::vector<std::string>{"certificate_ends"});
}

TEST_F(CertificateWatchTest, SeesANewCertificate) {
  Write(kNow);
  const CertificateWatch watch = WatchOf(path_);
  EXPECT_NE(watch.Warning(), "");
  Write(kNow + CertificateWatch::kRenewBefore);
  EXPECT_EQ(watch.Warning(), "");
}

TEST_F(CertificateWatchTest, IsSilentWithoutACertificate) {
  EXPECT_EQ(WatchOf("").Warning(), "");
  EXPECT_EQ(WatchOf(path_).Warning(), "");
  EXPECT_FALSE(WatchOf(path_).End().has_value());
}

}  // namespace
}  // namespace lockstep::tls
