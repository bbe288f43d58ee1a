#include "base/tls/authority_folder.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files/read_files.h"
#include "base/read_clock.h"
#include "base/tls/tls_fixture.h"
#include "base/tls/trust.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

class AuthorityFolderTest : public ::testing::Test {
 protected:
  AuthorityFolderTest() {
    char pattern[] = "/tmp/lockstep-authority-XXXXXX";
    root_ = mkdtemp(pattern);
    path_ = root_ + "/authority";
  }
  ~AuthorityFolderTest() override { std::filesystem::remove_all(root_); }

  SignedCertificate Sign(AuthorityFolder& folder, const Identity& identity, HostTime now = kNow) {
    const auto made = folder.Sign(MakeRequest()->request, identity, {}, now, kDay);
    EXPECT_TRUE(made.ok()) << made.status();
    return *made;
  }
  bool IsGood(const SignedCertificate& certificate) {
    const auto trust = Trust::Of(*FileText(path_ + "/ca.crt"), *FileText(path_ + "/ca.crl"));
    return trust.ok() && trust->Check(certificate.pem, Part::kClient, kNow).ok();
  }

  std::string root_;
  std::string path_;
};

TEST_F(AuthorityFolderTest, ClosesItsKeyToOthers) {
  ASSERT_TRUE(AuthorityFolder::Create(path_, kNow).ok());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat((path_ + "/ca.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(AuthorityFolder::Create(path_, kNow).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_EQ(chmod((path_ + "/ca.key").c_str(), 0644), 0);
  EXPECT_EQ(AuthorityFolder::Open(path_).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(AuthorityFolderTest, RevokesAllCertificatesOfOneHolder) {
  AuthorityFolder folder = *AuthorityFolder::Create(path_, kNow);
  const Identity lost{Holder::kNode, "n1"};
  const SignedCertificate first = Sign(folder, lost);
  const SignedCertificate second = Sign(folder, lost);
  const SignedCertificate kept = Sign(folder, {Holder::kNode, "n11"});
  const SignedCertificate user = Sign(folder, {Holder::kUser, "n1"});
  Sign(folder, lost, kNow - kDay * 3);  // has expired
  AuthorityFolder again = *AuthorityFolder::Open(path_);
  EXPECT_EQ(*again.Revoke(lost, kNow), 2u);
  EXPECT_FALSE(IsGood(first));
  EXPECT_FALSE(IsGood(second));
  EXPECT_TRUE(IsGood(kept));
  EXPECT_TRUE(IsGood(user));
  EXPECT_EQ(*again.Revoke(lost, kNow), 0u);
  EXPECT_EQ(*again.Revoke({Holder::kNode, "n11"}, kNow), 1u);
  EXPECT_FALSE(IsGood(first));
  EXPECT_FALSE(IsGood(kept));
}

TEST_F(AuthorityFolderTest, ListsWhatItHasIssued) {
  AuthorityFolder folder = *AuthorityFolder::Create(path_, kNow);
  const SignedCertificate node = Sign(folder, {Holder::kNode, "n1"});
  Sign(folder, {Holder::kAggregator, ""});
  ASSERT_TRUE(folder.Revoke({Holder::kNode, "n1"}, kNow).ok());
  const auto issued = folder.Issued();
  ASSERT_TRUE(issued.ok()) << issued.status();
  ASSERT_EQ(issued->size(), 2u);
  EXPECT_EQ((*issued)[0].identity, (Identity{Holder::kNode, "n1"}));
  EXPECT_EQ((*issued)[0].serial, node.serial);
  EXPECT_EQ((*issued)[0].not_after, kNow + kDay);
  EXPECT_EQ((*issued)[0].revoked, kNow);
  EXPECT_EQ((*issued)[1].identity, (Identity{Holder::kAggregator, ""}));
  EXPECT_EQ((*issued)[1].revoked, std::nullopt);
}

// `openssl ca` reads the index, revokes by it and writes a list that the aggregator accepts.
TEST_F(AuthorityFolderTest, OpensslContinuesWithIt) {
  AuthorityFolder folder = *AuthorityFolder::Create(path_, ReadRealtime());
  const SignedCertificate node = Sign(folder, {Holder::kNode, "n1"}, ReadRealtime());
  std::ofstream(path_ + "/node.crt") << node.pem;
  std::ofstream(path_ + "/openssl.cnf")
      << "[ca]\ndefault_ca = here\n[here]\ndatabase = index.txt\ncertificate = ca.crt\n"
         "private_key = ca.key\ndefault_md = sha256\ndefault_crl_days = 30\n";
  const std::string openssl = "cd " + path_ + " && openssl ca -config openssl.cnf ";
  ASSERT_EQ(std::system((openssl + "-revoke node.crt > out 2>&1").c_str()), 0) << *FileText(path_ + "/out");
  ASSERT_EQ(std::system((openssl + "-gencrl -out ca.crl > out 2>&1").c_str()), 0)
      << *FileText(path_ + "/out");
  const auto trust = Trust::Of(*FileText(path_ + "/ca.crt"), *FileText(path_ + "/ca.crl"));
  ASSERT_TRUE(trust.ok()) << trust.status();
  EXPECT_NE(
      std::string(trust->Check(node.pem, Part::kClient, ReadRealtime()).status().message()).find("revoked"),
      std::string::npos);
  EXPECT_NE((*folder.Issued())[0].revoked, std::nullopt);
}

TEST(IndexLineTest, RefusesMalformedLines) {
  const IssuedCertificate node = {Identity{Holder::kNode, "n1"}, "0A", kNow, std::nullopt};
  EXPECT_EQ(IndexLine(node), "V\t270115080000Z\t\t0A\tunknown\t/O=Lockstep/OU=node/CN=n1");
  EXPECT_TRUE(ParseIndexLine("R\t270115080000Z\t270115080000Z,keyCompromise\t0A\tunknown\t/CN=other"));
  for (const char* line : {"", "V", "V\tx\t\t0A\tunknown\t/", "R\t270115080000Z\t\t0A\tunknown\t/",
                           "V\t270115080000Z\t\t\tunknown\t/", "V\t270115080000Zx\t\t0A\tunknown\t/"})
    EXPECT_FALSE(ParseIndexLine(line)) << line;
}

}  // namespace
}  // namespace lockstep::tls
