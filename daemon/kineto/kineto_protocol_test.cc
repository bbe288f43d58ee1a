#include "daemon/kineto/kineto_protocol.h"

#include <cstring>

#include "base/split_mix.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

std::string FromHex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return out;
}

std::span<const std::byte> MessageBytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// A request as dynolog's own client code sends it: type 2, 2 pids, job 77, pids 4242 and 4200.
std::string Vector() {
  return FromHex(
      "1800000000000000"
      "72657100" +
      std::string(56, '0') +
      "0200000002000000"
      "4d00000000000000"
      "92100000"
      "68100000");
}

std::string Frame(std::string_view type, const std::string& payload, uint64_t size) {
  std::string out(kKinetoHeaderBytes, '\0');
  std::memcpy(out.data(), &size, sizeof(size));
  std::memcpy(out.data() + 8, type.data(), type.size());
  return out + payload;
}

TEST(KinetoProtocolTest, ReadsAPollAsClientsSendIt) {
  ASSERT_EQ(Vector().size(), 64u);
  const auto request = ParseKinetoRequest(MessageBytes(Vector()));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->kind, KinetoRequest::Kind::kPoll);
  EXPECT_EQ(request->wants, KinetoRequest::kActivities);
  EXPECT_EQ(request->job, 77);
  EXPECT_EQ(request->pids, (std::vector<int32_t>{4242, 4200}));
}

TEST(KinetoProtocolTest, ReadsARegisterOfOldClients) {
  const std::string payload = FromHex(
      "03000000"
      "92100000"
      "4d00000000000000");
  const auto request = ParseKinetoRequest(MessageBytes(Frame("ctxt", payload, 16)));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->kind, KinetoRequest::Kind::kRegister);
  EXPECT_EQ(request->gpu, 3);
  EXPECT_EQ(request->pids, (std::vector<int32_t>{4242}));
  EXPECT_EQ(request->job, 77);
}

TEST(KinetoProtocolTest, EncodesAnswersAsClientsReadThem) {
  EXPECT_EQ(EncodeKinetoPollReply(""), FromHex("0000000000000000"
                                               "72657100" +
                                               std::string(56, '0')));
  EXPECT_EQ(EncodeKinetoPollReply("A=1\n"), FromHex("0400000000000000"
                                                    "72657100" +
                                                    std::string(56, '0') + "413d310a"));
  EXPECT_EQ(EncodeKinetoRegisterReply(7), FromHex("0400000000000000"
                                                  "63747874" +
                                                  std::string(56, '0') + "07000000"));
}

TEST(KinetoProtocolTest, RefusesSizesThatDoNotFit) {
  const std::string good = Vector();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ParseKinetoRequest(MessageBytes(good.substr(0, length))).ok()) << length;
  }
  EXPECT_FALSE(ParseKinetoRequest(MessageBytes(good + "x")).ok());
  for (const int32_t count : {0, -1, 1, 3, 65, 0x7FFFFFFF, static_cast<int32_t>(0x80000000), 0x40000002}) {
    std::string wrong = good;
    std::memcpy(wrong.data() + kKinetoHeaderBytes + 4, &count, sizeof(count));
    EXPECT_FALSE(ParseKinetoRequest(MessageBytes(wrong)).ok()) << count;
  }
  for (const uint64_t size : {uint64_t{0}, uint64_t{23}, uint64_t{25}, ~uint64_t{0}, uint64_t{1} << 63}) {
    std::string wrong = good;
    std::memcpy(wrong.data(), &size, sizeof(size));
    EXPECT_FALSE(ParseKinetoRequest(MessageBytes(wrong)).ok()) << size;
  }
  EXPECT_FALSE(ParseKinetoRequest(MessageBytes(Frame("ctxt", std::string(15, '\0'), 15))).ok());
  EXPECT_FALSE(ParseKinetoRequest(MessageBytes(Frame("nope", "", 0))).ok());
  EXPECT_FALSE(ParseKinetoRequest(MessageBytes(Frame(std::string(32, 'r'), "", 0))).ok());
}

TEST(KinetoProtocolTest, NeverReadsBeyondTheDatagram) {
  SplitMix random(11);
  for (int round = 0; round < 200000; ++round) {
    std::string bytes = Vector();
    for (int i = 0; i < 3; ++i) bytes[random.Next() % bytes.size()] = static_cast<char>(random.Next());
    bytes.resize(random.Next() % (bytes.size() + 20));
    // The buffer has exactly the datagram's length, so that the address sanitizer detects a read beyond it.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    const auto request = ParseKinetoRequest(std::as_bytes(std::span(exact)));
    if (!request.ok()) continue;
    EXPECT_GE(request->pids.size(), 1u);
    EXPECT_LE(request->pids.size(), kMostKinetoPids);
  }
}

}  // namespace
}  // namespace lockstep::daemon
