#include "base/tls/identity.h"

#include "gtest/gtest.h"

namespace lockstep::tls {
namespace {

TEST(IdentityTest, IsTheUriOfACertificate) {
  for (const Identity& identity : {Identity{Holder::kAggregator, ""}, Identity{Holder::kNode, "gpu-17.site"},
                                   Identity{Holder::kUser, "ann@site"}})
    EXPECT_EQ(IdentityOfUri(UriOf(identity)), identity) << UriOf(identity);
  EXPECT_EQ(UriOf({Holder::kNode, "n1"}), "lockstep://node/n1");
}

TEST(IdentityTest, RefusesOtherUris) {
  for (const char* uri : {"", "lockstep://", "lockstep://node", "lockstep://node/", "lockstep://node/a/b",
                          "lockstep://node/a b", "lockstep://node/../x", "lockstep://aggregator/x",
                          "LOCKSTEP://node/x", "https://node/x", "lockstep://admin/x", "lockstep://node/-x",
                          "lockstep://node/a%20b", "xlockstep://node/x"})
    EXPECT_FALSE(IdentityOfUri(uri)) << uri;
  EXPECT_FALSE(IdentityOfUri(std::string("lockstep://node/a\0b", 19)));
  EXPECT_TRUE(IdentityOfUri("lockstep://node/" + std::string(64, 'x')));
  EXPECT_FALSE(IdentityOfUri("lockstep://node/" + std::string(65, 'x')));
}

TEST(IdentityTest, IsReadableInMessages) {
  EXPECT_EQ(TextOf(Identity{Holder::kNode, "n1"}), "node n1");
  EXPECT_EQ(TextOf(Identity{Holder::kUser, "ann"}), "user ann");
  EXPECT_EQ(TextOf(Identity{Holder::kAggregator, ""}), "the aggregator");
}

}  // namespace
}  // namespace lockstep::tls
