#include "base/tls/tls_folder.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/tls/authority.h"
#include "base/tls/tls_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

class TlsFolderTest : public ::testing::Test {
 protected:
  TlsFolderTest() {
    char pattern[] = "/tmp/lockstep-tls-folder-XXXXXX";
    path_ = mkdtemp(pattern);
    Write(kAuthoritiesFile, authority_.certificate());
    const KeyAndRequest made = *MakeRequest();
    node_ = *authority_.Sign(made.request, {Holder::kNode, "n1"}, {}, kNow, kDay);
    Write(kCertificateFile, node_.pem);
    Write(kKeyFile, made.key);
  }
  ~TlsFolderTest() override { std::filesystem::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(path_ + "/" + name) << text;
    chmod((path_ + "/" + name).c_str(), 0600);
  }
  bool Trusts(TlsFolder& folder) {
    const auto trust = folder.CurrentTrust();
    return trust.ok() && trust->Check(node_.pem, Part::kClient, kNow).ok();
  }

  std::string path_;
  const std::shared_ptr<StepClock> clock_ = std::make_shared<StepClock>();
  std::vector<std::string> events_;
  const LogSink log_ = [this](LogLevel, const char* event, std::initializer_list<LogField>) {
    events_.emplace_back(event);
  };
  const Authority authority_ = *Authority::Make(kNow);
  SignedCertificate node_;
};

TEST_F(TlsFolderTest, ChecksItsOwnCertificate) {
  const TlsFolder folder(path_, clock_, log_);
  const auto own = folder.Check(Holder::kNode);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->identity.name, "n1");
  EXPECT_EQ(folder.Check(Holder::kAggregator).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TlsFolderTest, RefusesAKeyThatOthersCanReadOrThatIsAnothers) {
  const TlsFolder folder(path_, clock_, log_);
  ASSERT_EQ(chmod(folder.PathOf(kKeyFile).c_str(), 0644), 0);
  EXPECT_EQ(folder.Check(Holder::kNode).status().code(), absl::StatusCode::kPermissionDenied);
  Write(kKeyFile, MakeRequest()->key);
  EXPECT_NE(std::string(folder.Check(Holder::kNode).status().message()).find("is not the key of"),
            std::string::npos);
}

TEST_F(TlsFolderTest, NamesAMissingFile) {
  std::filesystem::remove(path_ + "/" + kAuthoritiesFile);
  TlsFolder folder(path_, clock_, log_);
  const absl::Status status = folder.CurrentTrust().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find(path_ + "/ca.crt"), std::string::npos);
}

TEST_F(TlsFolderTest, ARevocationTakesEffectWithinASecond) {
  TlsFolder folder(path_, clock_, log_);
  EXPECT_TRUE(Trusts(folder));
  Write(kRevokedFile, *authority_.Revoke({{node_.serial, kNow}}, kNow));
  clock_->now += Nanos::Millis(500);
  EXPECT_TRUE(Trusts(folder));
  clock_->now += Nanos::Millis(501);
  EXPECT_FALSE(Trusts(folder));
}

TEST_F(TlsFolderTest, AFileThatCannotBeUsedLeavesTheEarlierOneInUse) {
  TlsFolder folder(path_, clock_, log_);
  EXPECT_TRUE(Trusts(folder));
  Write(kAuthoritiesFile, "nonsense");
  clock_->now += Nanos::Seconds(2);
  EXPECT_TRUE(Trusts(folder));
  EXPECT_TRUE(Trusts(folder));
  EXPECT_EQ(events_, std::vector<std::string>{"tls_folder_refused"});
  Write(kAuthoritiesFile, Authority::Make(kNow)->certificate());
  clock_->now += Nanos::Seconds(2);
  EXPECT_FALSE(Trusts(folder));
}

}  // namespace
}  // namespace lockstep::tls
