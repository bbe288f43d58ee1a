#include "daemon/broker/messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

class MessagesTest : public ::testing::Test {
 protected:
  MessagesTest() {
    auto [one, other] = BrokerSocketPair();
    one_ = std::move(one);
    other_ = std::move(other);
    SetReceiveTimeout(other_.get(), Nanos::Seconds(5));
  }
  Fd one_, other_;
};

TEST_F(MessagesTest, ARequestArrivesWhole) {
  BrokerRequest sent{.call = BrokerCall::kSendToFile, .pid = 7, .uid = 8, .gid = 9, .number = 10, .fd = Fd()};
  sent.text = "/a/b";
  sent.more = std::string(90'000, 'x');
  sent.fd.reset(dup(one_.get()));
  ASSERT_TRUE(SendRequest(one_.get(), sent));
  const auto got = ReceiveRequest(other_.get());
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->call, sent.call);
  EXPECT_EQ(got->pid, 7);
  EXPECT_EQ(got->uid, 8u);
  EXPECT_EQ(got->gid, 9u);
  EXPECT_EQ(got->number, 10u);
  EXPECT_EQ(got->text, sent.text);
  EXPECT_EQ(got->more, sent.more);
  EXPECT_TRUE(got->fd.ok());
}

TEST_F(MessagesTest, AReplyArrivesWhole) {
  BrokerReply sent;
  sent.number = 3;
  sent.info.emplace();
  sent.info->st_ino = 77;
  ASSERT_TRUE(SendReply(one_.get(), sent));
  const auto got = ReceiveReply(other_.get());
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->error, 0);
  EXPECT_EQ(got->number, 3u);
  EXPECT_EQ(got->info->st_ino, 77u);
  EXPECT_FALSE(got->fd.ok());
}

TEST_F(MessagesTest, RefusesPacketsThatAreNoRequests) {
  BrokerRequest large;
  large.text = std::string(kLargestBrokerText + 1, 'x');
  EXPECT_FALSE(SendRequest(one_.get(), large));
  char bytes[256] = {};
  for (const size_t size : {size_t{1}, size_t{31}, sizeof(bytes)}) {
    ASSERT_EQ(send(one_.get(), bytes, size, 0), static_cast<ssize_t>(size));
    EXPECT_FALSE(ReceiveRequest(other_.get()).has_value()) << size;
  }
  const uint32_t unknown = 1000;
  std::memcpy(bytes, &unknown, sizeof(unknown));
  ASSERT_EQ(send(one_.get(), bytes, 32, 0), 32);
  EXPECT_FALSE(ReceiveRequest(other_.get()).has_value());
  one_.reset();
  EXPECT_FALSE(ReceiveRequest(other_.get()).has_value());
}

}  // namespace
}  // namespace lockstep::daemon
