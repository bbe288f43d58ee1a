#include "base/rpc/peer_table.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::rpc {
namespace {

// Both ends of a connection. The table sees `server`.
struct Ends {
  Fd client, server;
  bool open() const {
    char byte;
    return ::recv(client.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0;
  }
};

std::unique_ptr<Ends> MakeEnds() {
  int pair[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  return std::make_unique<Ends>(Ends{Fd(pair[0]), Fd(pair[1])});
}

class PeerTableTest : public testing::Test {
 protected:
  Ends& Connect(const std::string& peer, const std::string& source) {
    ends_.push_back(MakeEnds());
    added_ = table_.Add(ends_.back()->server.get(), peer, source, now_);
    return *ends_.back();
  }

  PeerTable table_{{.strangers = 6,
                    .strangers_per_source = 3,
                    .closed_per_second = 20,
                    .refused_calls = 3,
                    .trusted_per_user = 2}};
  std::vector<std::unique_ptr<Ends>> ends_;
  MonoTime now_ = MonoTime(1'000'000'000);
  bool added_ = false;  // of the last Connect
};

TEST_F(PeerTableTest, ASourceAtItsLimitLosesItsOldestConnection) {
  const Ends& first = Connect("a:1", "a");
  const Ends& other = Connect("b:1", "b");
  Connect("a:2", "a");
  Connect("a:3", "a");
  EXPECT_TRUE(first.open());
  const Ends& newest = Connect("a:4", "a");
  EXPECT_FALSE(first.open());
  EXPECT_TRUE(newest.open());
  EXPECT_TRUE(other.open());
  EXPECT_EQ(table_.displaced(), 1u);
  EXPECT_EQ(table_.strangers(), 4u);
}

TEST_F(PeerTableTest, WhenAllIsFullTheLargestSourceLosesOne) {
  const Ends& lone = Connect("b:1", "b");
  const Ends& first = Connect("a:1", "a");
  Connect("a:2", "a");
  Connect("a:3", "a");
  Connect("c:1", "c");
  Connect("c:2", "c");
  const Ends& newest = Connect("d:1", "d");
  EXPECT_FALSE(first.open());
  EXPECT_TRUE(lone.open());
  EXPECT_TRUE(newest.open());
}

TEST_F(PeerTableTest, ASourceDisplacesAtMostSoManyPerSecond) {
  for (int i = 0; i < 23; ++i) {
    Connect("a:" + std::to_string(i), "a");
    EXPECT_TRUE(added_) << i;
  }
  const Ends& refused = Connect("a:23", "a");
  EXPECT_FALSE(added_);
  EXPECT_TRUE(refused.open()) << "its owner closes it";
  Connect("b:1", "b");
  EXPECT_TRUE(added_);
  now_ = now_ + Nanos::Seconds(1);
  Connect("a:24", "a");
  EXPECT_TRUE(added_);
  EXPECT_EQ(table_.displaced(), 21u);
}

TEST_F(PeerTableTest, AStrangerWhoseCallsAreRefusedLosesTheConnection) {
  const Ends& ends = Connect("a:1", "a");
  for (int i = 0; i < 2; ++i) table_.NoteRefused("a:1", now_);
  EXPECT_TRUE(ends.open());
  table_.NoteRefused("a:1", now_);
  EXPECT_FALSE(ends.open());
  EXPECT_EQ(table_.strangers(), 0u);
  table_.NoteRefused("a:1", now_);
  EXPECT_EQ(table_.closed_for_calls(), 1u);

  const Ends& trusted = Connect("b:1", "b");
  ASSERT_TRUE(table_.Trust("b:1", std::nullopt).ok());
  for (int i = 0; i < 9; ++i) table_.NoteRefused("b:1", now_);
  EXPECT_TRUE(trusted.open());
}

TEST_F(PeerTableTest, ASourceThatGoesOnIsRefusedForTheRestOfTheSecond) {
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string peer = "a:" + std::to_string(i);
    Connect(peer, "a");
    refused += !added_;
    for (int call = 0; call < 3; ++call) table_.NoteRefused(peer, now_);
  }
  EXPECT_EQ(refused, 90);
  now_ = now_ + Nanos::Seconds(1);
  Connect("a:last", "a");
  EXPECT_TRUE(added_);
}

TEST_F(PeerTableTest, NoStrangerDisplacesATrustedPeer) {
  const Ends& owner = Connect("a:1", "a");
  ASSERT_TRUE(table_.Trust("a:1", std::nullopt).ok());
  for (int i = 2; i < 50; ++i) Connect("a:" + std::to_string(i), "a");
  EXPECT_TRUE(owner.open());
  EXPECT_EQ(table_.strangers(), 3u);
  EXPECT_EQ(table_.trusted(), 1u);
}

TEST_F(PeerTableTest, ConnectionsThatHaveEndedTakeNoPlace) {
  for (int i = 0; i < 50; ++i) {
    Ends& ends = Connect("a:" + std::to_string(i), "a");
    ends.server.reset();
    ends.client.reset();
  }
  EXPECT_EQ(table_.displaced(), 0u);
  EXPECT_LE(table_.strangers(), 3u);
}

TEST_F(PeerTableTest, AReusedDescriptorIsAnotherConnection) {
  Ends& ended = Connect("a:1", "a");
  const int number = ended.server.get();
  ended.server.reset();
  const std::unique_ptr<Ends> stranger = MakeEnds();
  ASSERT_TRUE(stranger->client.get() == number || stranger->server.get() == number);
  table_.CloseOneStranger();
  EXPECT_TRUE(stranger->open());
  EXPECT_EQ(table_.strangers(), 0u);
  EXPECT_EQ(table_.displaced(), 0u);
}

TEST_F(PeerTableTest, LimitsTheConnectionsOfAUser) {
  Connect("a:1", "a");
  Connect("a:2", "a");
  ASSERT_TRUE(table_.Trust("a:1", 1001).ok());
  ASSERT_TRUE(table_.Trust("a:2", 1001).ok());
  Connect("a:3", "a");
  const absl::Status third = table_.Trust("a:3", 1001);
  EXPECT_EQ(third.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(third.message().find("1001"), std::string_view::npos);
  EXPECT_TRUE(table_.Trust("a:3", 1002).ok());
  ends_.front()->server.reset();
  Connect("a:4", "a");
  EXPECT_TRUE(table_.Trust("a:4", 1001).ok()) << "the first has ended";
}

TEST_F(PeerTableTest, ATrustedPeerKeepsItsSource) {
  Connect("a:1", "a");
  ASSERT_TRUE(table_.Trust("a:1", 1001).ok());
  EXPECT_EQ(table_.SourceOf("a:1"), "a");
  EXPECT_EQ(table_.SourceOf("a:2"), "");
}

TEST_F(PeerTableTest, APeerThatConnectsAgainFromItsPortIsAStranger) {
  Connect("a:1", "a").server.reset();
  ASSERT_TRUE(table_.Trust("a:1", 1001).ok());
  Connect("a:1", "a");
  EXPECT_EQ(table_.strangers(), 1u);
  EXPECT_EQ(table_.trusted(), 0u);
  EXPECT_EQ(table_.SourceOf("a:1"), "a");
}

TEST_F(PeerTableTest, ClosesAStrangerWhenNoDescriptorIsFree) {
  const Ends& first = Connect("a:1", "a");
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  // dup3 to a number above the limit fails, so the limit is just above the table's.
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(first.server.get()) + 1;
  setrlimit(RLIMIT_NOFILE, &none);
  table_.CloseOneStranger();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(first.open());
}

}  // namespace
}  // namespace lockstep::rpc
