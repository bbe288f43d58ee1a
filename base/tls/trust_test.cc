#include "base/tls/trust.h"

#include <string>
#include <vector>

#include "base/tls/authority.h"
#include "base/tls/tls_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

class TrustTest : public ::testing::Test {
 protected:
  SignedCertificate Make(const Authority& authority, const Identity& identity, HostTime now = kNow) {
    return *authority.Sign(MakeRequest()->request, identity, {}, now, kDay);
  }
  // Returns the message, empty if the certificate is good.
  std::string Checked(const std::string& pem, Part part = Part::kClient, const std::string& revoked = "") {
    const auto checked = Trust::Of(site_.certificate(), revoked)->Check(pem, part, kNow);
    EXPECT_TRUE(checked.ok() || checked.status().code() == absl::StatusCode::kUnauthenticated);
    return std::string(checked.status().message());
  }

  const Authority site_ = *Authority::Make(kNow);
  const Authority other_ = *Authority::Make(kNow);
  const Identity node_{Holder::kNode, "gpu-17"};
};

TEST_F(TrustTest, ReturnsTheHolder) {
  const auto checked = Trust::Of(site_.certificate(), "")->Check(Make(site_, node_).pem, Part::kClient, kNow);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->identity, node_);
  EXPECT_EQ(checked->not_after, kNow + kDay);
}

TEST_F(TrustTest, ReturnsTheNamesOfTheMachine) {
  const std::vector<std::string> hosts = {"head.example.org", "10.0.0.1", "fd00::7"};
  const SignedCertificate made = *site_.Sign(MakeRequest()->request, node_, hosts, kNow, kDay);
  EXPECT_EQ(ReadCertificate(made.pem)->hosts, hosts);
  EXPECT_TRUE(ReadCertificate(Make(site_, node_).pem)->hosts.empty());
}

TEST_F(TrustTest, RefusesAnotherAuthority) {
  EXPECT_EQ(Checked(Make(other_, node_).pem),
            "the certificate of node gpu-17 was made by another authority than that of ca.crt");
  EXPECT_EQ(Checked(site_.certificate()).empty(), false);
}

TEST_F(TrustTest, RefusesCertificatesOutOfTheirTime) {
  EXPECT_EQ(Checked(Make(site_, node_, kNow - kDay * 2).pem),
            "the certificate of node gpu-17 expired on 2027-01-14 08:00 UTC: get a new one with `lockstep "
            "node enrol`");
  EXPECT_NE(Checked(Make(site_, node_, kNow + kDay).pem).find("compare the clocks"), std::string::npos);
}

TEST_F(TrustTest, RefusesRevokedCertificates) {
  const SignedCertificate lost = Make(site_, node_);
  const SignedCertificate kept = Make(site_, node_);
  const std::string revoked = *site_.Revoke({{lost.serial, kNow}}, kNow);
  EXPECT_EQ(Checked(lost.pem, Part::kClient, revoked), "the certificate of node gpu-17 has been revoked");
  EXPECT_EQ(Checked(kept.pem, Part::kClient, revoked), "");
}

TEST_F(TrustTest, RefusesAUsersCertificateAsAServer) {
  const std::string user = Make(site_, {Holder::kUser, "ann"}).pem;
  EXPECT_EQ(Checked(user, Part::kClient), "");
  EXPECT_EQ(Checked(user, Part::kServer), "the certificate of user ann was made for another purpose");
}

TEST_F(TrustTest, RefusesOtherBytes) {
  std::string altered = Make(site_, node_).pem;
  altered[altered.find("-----END") - 12] ^= 1;
  EXPECT_NE(Checked(altered), "");
  EXPECT_NE(Checked(""), "");
  EXPECT_NE(Checked("-----BEGIN CERTIFICATE-----\nnonsense"), "");
  std::string many;
  for (int i = 0; i < 20; ++i) many += site_.certificate();
  EXPECT_NE(Checked(many).find("1 to 8 certificates"), std::string::npos);
}

TEST_F(TrustTest, AcceptsTwoAuthoritiesOfWhichOneHasAList) {
  const Trust trust = *Trust::Of(site_.certificate() + other_.certificate(), *site_.Revoke({}, kNow));
  EXPECT_TRUE(trust.Check(Make(site_, node_).pem, Part::kClient, kNow).ok());
  EXPECT_TRUE(trust.Check(Make(other_, node_).pem, Part::kClient, kNow).ok());
}

TEST_F(TrustTest, RefusesForeignLists) {
  EXPECT_EQ(Trust::Of(site_.certificate(), *other_.Revoke({}, kNow)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Trust::Of(site_.certificate(), "nonsense").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Trust::Of("nonsense", "").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::tls
