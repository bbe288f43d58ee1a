#include "daemon/ras/tcp_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

namespace lockstep::daemon {
namespace {

using Family = Loopback::Family;

constexpr char kHeading[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
constexpr char kTail[] = " 0 1 1 0000000000000000 100 0 0 10 0\n";

std::string Line(const char* local, const char* remote, const char* state, int uid) {
  return std::string("   0: ") + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000 " + std::to_string(uid) + kTail;
}

TEST(TcpTable, FindsTheListenersThatAConnectionMayReach) {
  // 28028 is 6D7C.
  const std::string text =
      kHeading + Line("0100007F:6D7C", "00000000:0000", "0A", 1000) +
      Line("0100007F:6D7C", "00000000:0000", "0A", 1000) + Line("00000000:6D7C", "00000000:0000", "0A", 7) +
      Line("0100007F:6D7D", "00000000:0000", "0A", 8) + Line("0200007F:6D7C", "00000000:0000", "0A", 9) +
      Line("0100007F:6D7C", "0100007F:1000", "01", 10);
  const TcpTable table = TcpTable::Parse(text);
  EXPECT_THAT(table.ListenersOn({Family::kIp4, 28028}), testing::ElementsAre(7, 1000));
  EXPECT_THAT(table.ListenersOn({Family::kIp4, 28030}), testing::IsEmpty());
  EXPECT_THAT(table.ListenersOn({Family::kIp6, 28028}), testing::IsEmpty());
  EXPECT_EQ(table.UserOfPeer({Family::kIp4, 28028}, 0x1000), 10u);
  EXPECT_FALSE(table.UserOfPeer({Family::kIp4, 28028}, 0x1001));
}

TEST(TcpTable, ReadsAddressesOfIp6) {
  const std::string text =
      Line("00000000000000000000000001000000:6D7C", "00000000000000000000000000000000:0000", "0A", 5) +
      Line("00000000000000000000000000000000:6D7C", "00000000000000000000000000000000:0000", "0A", 6);
  EXPECT_THAT(TcpTable::Parse(text).ListenersOn({Family::kIp6, 28028}), testing::ElementsAre(5, 6));
}

TEST(TcpTable, SkipsOtherLines) {
  EXPECT_THAT(TcpTable::Parse("").ListenersOn({Family::kIp4, 1}), testing::IsEmpty());
  EXPECT_THAT(TcpTable::Parse("a b\n1 2 3 4 5 6 7 x\n").ListenersOn({Family::kIp4, 1}), testing::IsEmpty());
}

TEST(TcpTable, IsTheKernels) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_THAT(ReadTcpTable(Family::kIp4).ListenersOn({Family::kIp4, ntohs(address.sin_port)}),
              testing::ElementsAre(geteuid()));
}

}  // namespace
}  // namespace lockstep::daemon
