#include "base/tls/authority.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files/read_files.h"
#include "base/tls/tls_fixture.h"
#include "base/tls/trust.h"
#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

// Runs the openssl program in a folder with the given files. It is another reader of what we write.
class OpensslProgram {
 public:
  OpensslProgram() {
    char name[] = "/tmp/lockstep-openssl-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~OpensslProgram() { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string Run(const std::string& arguments) {
    const std::string command =
        "cd " + folder_.string() + " && openssl " + arguments + " > out 2>&1; echo \"exit $?\" >> out";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return FileText((folder_ / "out").string()).value_or("");
  }
  std::string Read(const std::string& name) { return FileText((folder_ / name).string()).value_or(""); }

 private:
  std::filesystem::path folder_;
};

TEST(AuthorityTest, SignsWhatOpensslVerifies) {
  const Authority authority = *Authority::Make(kNow);
  const KeyAndRequest made = *MakeRequest();
  const auto signed_one = authority.Sign(made.request, {Holder::kNode, "gpu-17"},
                                         {"gpu-17.site", "10.0.0.7", "::1"}, kNow, kDay * 90);
  ASSERT_TRUE(signed_one.ok()) << signed_one.status();
  OpensslProgram openssl;
  openssl.Write("ca.crt", authority.certificate());
  openssl.Write("tls.crt", signed_one->pem);
  openssl.Write("ca.crl", *authority.Revoke({}, kNow));
  const std::string at = " -attime " + std::to_string(kNow.ns() / 1'000'000'000) + " ";
  EXPECT_NE(
      openssl.Run("verify -x509_strict" + at + "-purpose sslclient -CAfile ca.crt tls.crt").find("exit 0"),
      std::string::npos);
  EXPECT_NE(openssl.Run("verify -x509_strict -crl_check" + at + "-CRLfile ca.crl -CAfile ca.crt tls.crt")
                .find("exit 0"),
            std::string::npos);
  const std::string text = openssl.Run("x509 -noout -text -in tls.crt");
  for (const char* part : {"URI:lockstep://node/gpu-17", "DNS:gpu-17.site", "IP Address:10.0.0.7",
                           "O = Lockstep, OU = node, CN = gpu-17", "CA:FALSE"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  openssl.Write("ca.crl", *authority.Revoke({{signed_one->serial, kNow}}, kNow));
  EXPECT_NE(openssl.Run("verify -crl_check" + at + "-CRLfile ca.crl -CAfile ca.crt tls.crt")
                .find("certificate revoked"),
            std::string::npos);
}

TEST(AuthorityTest, SignsRequestsOfOpenssl) {
  OpensslProgram openssl;
  ASSERT_NE(openssl.Run("req -new -newkey ed25519 -nodes -keyout key -out request -subj /CN=anything")
                .find("exit 0"),
            std::string::npos);
  const Authority authority = *Authority::Make(kNow);
  const auto made = authority.Sign(openssl.Read("request"), {Holder::kUser, "ann"}, {}, kNow, kDay);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ReadCertificate(made->pem)->identity, (Identity{Holder::kUser, "ann"}));
}

TEST(AuthorityTest, RefusesWeakForgedAndForeignRequests) {
  OpensslProgram openssl;
  ASSERT_NE(openssl.Run("req -new -newkey rsa:1024 -nodes -keyout key -out weak -subj /CN=x").find("exit 0"),
            std::string::npos);
  const Authority authority = *Authority::Make(kNow);
  const auto code = [&](const std::string& request, const Identity& identity,
                        const std::vector<std::string>& hosts) {
    return authority.Sign(request, identity, hosts, kNow, kDay).status().code();
  };
  const std::string request = MakeRequest()->request;
  EXPECT_EQ(code(openssl.Read("weak"), {Holder::kNode, "n"}, {}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("nonsense", {Holder::kNode, "n"}, {}), absl::StatusCode::kInvalidArgument);
  std::string forged = request;
  forged[forged.find("-----END") - 12] ^= 1;
  EXPECT_EQ(code(forged, {Holder::kNode, "n"}, {}), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"", "a,URI:lockstep://aggregator", "a b", "a\nb", "@section"})
    EXPECT_EQ(code(request, {Holder::kNode, name}, {}), absl::StatusCode::kInvalidArgument) << name;
  for (const char* host : {"", "a,URI:lockstep://aggregator", "a b", "@x"})
    EXPECT_EQ(code(request, {Holder::kNode, "n"}, {host}), absl::StatusCode::kInvalidArgument) << host;
  EXPECT_EQ(code(request, {Holder::kNode, "n"}, {"n.site"}), absl::StatusCode::kOk);
}

TEST(AuthorityTest, IsLoadedFromItsTexts) {
  const Authority authority = *Authority::Make(kNow);
  const auto again = Authority::Of(authority.certificate(), authority.key());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->certificate(), authority.certificate());
  const Authority other = *Authority::Make(kNow);
  EXPECT_EQ(Authority::Of(authority.certificate(), other.key()).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto node = authority.Sign(MakeRequest()->request, {Holder::kNode, "n"}, {}, kNow, kDay);
  EXPECT_FALSE(Authority::Of(node->pem, authority.key()).ok());
}

TEST(AuthorityTest, OfOneSecretIsOneAuthority) {
  const Authority here = *Authority::OfSecret("a secret of sixteen characters");
  const Authority there = *Authority::OfSecret("a secret of sixteen characters");
  EXPECT_EQ(here.certificate(), there.certificate());
  EXPECT_NE(here.certificate(), Authority::OfSecret("another secret")->certificate());
  const std::string random = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
  EXPECT_EQ(Authority::OfSecret(random)->certificate(), Authority::OfSecret(random)->certificate());
  EXPECT_NE(Authority::OfSecret(random)->certificate(),
            Authority::OfSecret("f" + random.substr(1))->certificate());
  const auto made = here.Sign(MakeRequest()->request, {Holder::kAggregator, ""}, {}, kNow, kDay);
  ASSERT_TRUE(made.ok()) << made.status();
  const Trust trust = *Trust::Of(there.certificate(), "");
  EXPECT_TRUE(trust.Check(made->pem, Part::kServer, kNow).ok());
}

}  // namespace
}  // namespace lockstep::tls
