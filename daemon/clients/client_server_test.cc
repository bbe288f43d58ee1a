// Tests the client socket with peers that keep the protocol and with peers that do not.
#include "daemon/clients/client_server.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <random>
#include <thread>

#include "daemon/clients/client_fake.h"
#include "daemon/clients/client_server_fixture.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

using std::chrono::milliseconds;

TEST_F(ClientServerTest, RegistersAClientAndGivesItASealedSegment) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  ASSERT_TRUE(client.Register("LOCKSTEP_JOB=j\nLOCKSTEP_RANK=3\nLOCKSTEP_WORLD_SIZE=4\n"));
  EXPECT_EQ(fcntl(client.memfd(), F_GET_SEALS) & (F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
            F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  OnLoop([&] {
    const auto ranks = registry_.Ranks(RankFilter::All());
    ASSERT_EQ(ranks.size(), 1u);
    EXPECT_EQ(ranks[0].process().pid(), getpid());
    EXPECT_EQ(ranks[0].process().start_ticks(), 555u);
    EXPECT_EQ(ranks[0].uid(), getuid());
    EXPECT_EQ(ranks[0].rank(), 3);
    EXPECT_EQ(ranks[0].program(), "fake_client");
  });
  client.Disconnect();
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
  EXPECT_EQ(Registered(), 0u);
}

TEST_F(ClientServerTest, ForwardsStatesAndMessages) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  ASSERT_TRUE(client.Register(""));
  OnLoop([&] {
    EXPECT_TRUE(server_->Send({getpid(), 555}, FakeClient::Make<ring::Arm>(ring::MessageType::kArm)));
    EXPECT_FALSE(server_->Send({getpid(), 556}, FakeClient::Make<ring::Arm>(ring::MessageType::kArm)));
  });
  EXPECT_TRUE(client.Expect<ring::Arm>(ring::MessageType::kArm));
  client.SendState(9, ring::ClientState::kArmed);
  ASSERT_TRUE(WaitFor([&] { return states_.size() == 1; }));
  EXPECT_EQ(States()[0].capture, 9u);
}

TEST_F(ClientServerTest, ForwardsProfilesWithTheirFile) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  ASSERT_TRUE(client.Register(""));
  auto profile = FakeClient::Make<ring::Profile>(ring::MessageType::kProfile);
  profile.bytes = 9;
  Fd file(memfd_create("profile", MFD_CLOEXEC));
  ASSERT_TRUE(client.SendBytes(&profile, sizeof(profile), file.get()));
  ASSERT_TRUE(WaitFor([&] { return profile_bytes_ == 9; }));
  {
    MutexLock lock(&mutex_);
    EXPECT_TRUE(profile_file_.ok());
  }
  // A truncated message breaks the protocol.
  profile.header.bytes = 100;
  ASSERT_TRUE(client.SendBytes(&profile, 100));
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
}

TEST_F(ClientServerTest, GivesEachSegmentANumberOfItsOwn) {
  Open();
  std::set<uint64_t> seen;
  for (int i = 0; i < 3; ++i) {
    FakeClient client;
    ASSERT_TRUE(client.Connect(path_));
    ASSERT_TRUE(client.Register(""));
    EXPECT_TRUE(seen.insert(client.segment().header().incarnation).second);
  }
}

TEST_F(ClientServerTest, OneProcessIsOneEntry) {
  Open();
  FakeClient first;
  FakeClient second;
  ASSERT_TRUE(first.Connect(path_) && first.Register(""));
  ASSERT_TRUE(second.Connect(path_) && second.Register(""));
  EXPECT_EQ(Registered(), 1u);
  EXPECT_EQ(first.Receive(std::chrono::seconds(5)), FakeClient::Got::kClosed);
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
  EXPECT_EQ(Gone()[0], "it reconnected");
}

TEST_F(ClientServerTest, GivesAClientThatOffersItsSegmentANewOneAndReadsNothingFromTheOld) {
  Open();
  Fd offered(memfd_create("old", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(offered.get(), int64_t{4} << 30), 0);
  ASSERT_EQ(fcntl(offered.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  auto hello = FakeClient::MakeHello("");
  hello.reserved = 1;
  ASSERT_TRUE(client.Send(hello, offered.get()));
  EXPECT_TRUE(client.Expect<ring::Welcome>(ring::MessageType::kWelcome));
  struct stat info {};
  ASSERT_EQ(fstat(offered.get(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

TEST_F(ClientServerTest, RefusesAnotherLayoutAndNamesIt) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  auto hello = FakeClient::MakeHello("");
  hello.layout_major = 99;
  std::strcpy(hello.version, "9.8.7");
  client.Send(hello);
  EXPECT_EQ(
      Refusal(client),
      absl::StrCat("the client is version 9.8.7 and speaks layout 99, the daemon is " LOCKSTEP_VERSION
                   " and speaks ",
                   ring::kLayoutMajor, ": install the client's release of lockstep-daemon on this node"));
}

TEST_F(ClientServerTest, RefusesAnOlderLayoutWithTheRemedy) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  auto hello = FakeClient::MakeHello("");
  hello.layout_major = ring::kLayoutMajor - 1;
  client.Send(hello);
  EXPECT_NE(Refusal(client).find("install the daemon's release of lockstep-client where the job runs"),
            std::string::npos);
}

// Tests clients of another minor version of the same major version.
class OtherMinorTest : public ClientServerTest, public testing::WithParamInterface<uint32_t> {};

TEST_P(OtherMinorTest, UsesTheOlderMinorVersion) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  auto hello = FakeClient::MakeHello("LOCKSTEP_RANK=1\nLOCKSTEP_WORLD_SIZE=2\n");
  hello.layout_minor = GetParam();
  ASSERT_TRUE(client.Send(hello));
  const auto welcome = client.Expect<ring::Welcome>(ring::MessageType::kWelcome);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->layout_minor, std::min(GetParam(), ring::kLayoutMinor));
}
INSTANTIATE_TEST_SUITE_P(Minor, OtherMinorTest, testing::Range(0u, ring::kLayoutMinor + 2));

TEST_F(ClientServerTest, RefusesAProcessThatProcDoesNotShow) {
  processes_.hidden = true;
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  client.Send(FakeClient::MakeHello(""));
  EXPECT_NE(Refusal(client).find("/proc"), std::string::npos);
}

TEST_F(ClientServerTest, RemembersRefusalsByRankProgramAndReason) {
  processes_.hidden = true;
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  client.Send(FakeClient::MakeHello("LOCKSTEP_RANK=3\nLOCKSTEP_WORLD_SIZE=4\n"));
  Refusal(client);
  std::vector<std::string> refusals;
  OnLoop([&] { refusals = attempts_.Refusals(getuid()); });
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_NE(refusals[0].find("rank 3 (fake_client"), std::string::npos) << refusals[0];
  EXPECT_NE(refusals[0].find("/proc"), std::string::npos) << refusals[0];
}

TEST_F(ClientServerTest, RemembersSocketProbes) {
  Open();
  bool probed = false;
  OnLoop([&] { probed = attempts_.HasProbed({getpid(), 555}); });
  EXPECT_FALSE(probed);
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  client.Disconnect();
  for (int tries = 0; tries < 500 && !probed; ++tries) {
    OnLoop([&] { probed = attempts_.HasProbed({getpid(), 555}); });
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(probed);
}

TEST_F(ClientServerTest, RefusesOtherUsersAtAUsersDaemon) {
  options_.owner = getuid() + 1;
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  EXPECT_NE(Refusal(client).find("belongs to user"), std::string::npos);
}

TEST_F(ClientServerTest, LimitsTheClientsOfAUser) {
  options_.most_clients_per_user = 2;
  Open();
  FakeClient a;
  FakeClient b;
  FakeClient c;
  ASSERT_TRUE(a.Connect(path_) && b.Connect(path_) && c.Connect(path_));
  EXPECT_NE(Refusal(c).find("client limit"), std::string::npos);
  a.Disconnect();
  b.Disconnect();
  // The daemon notices the disconnects asynchronously.
  for (int tries = 0; tries < 500; ++tries) {
    FakeClient d;
    ASSERT_TRUE(d.Connect(path_));
    if (d.Register("")) return;
    std::this_thread::sleep_for(milliseconds(10));
  }
  FAIL() << "the places of those that left were not given on";
}

TEST_F(ClientServerTest, AProcessWithoutAContextIsPresentAndNotARank) {
  options_.hello_timeout = Nanos::Millis(50);
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  auto presence = FakeClient::Make<ring::Presence>(ring::MessageType::kPresence);
  std::strcpy(presence.program, "torchrun");
  ASSERT_TRUE(client.Send(presence));
  EXPECT_EQ(client.Receive(milliseconds(200)), FakeClient::Got::kNothing) << "it may wait for ever";
  const auto presences = [&] {
    std::vector<std::string> found;
    OnLoop([&] { found = attempts_.Presences(getuid()); });
    return found;
  };
  EXPECT_EQ(presences(), (std::vector<std::string>{"pid " + std::to_string(getpid()) + " (torchrun)"}));
  EXPECT_EQ(Registered(), 0u);
  ASSERT_TRUE(client.Register("LOCKSTEP_JOB=j\n"));
  EXPECT_EQ(Registered(), 1u);
  EXPECT_TRUE(presences().empty());
  client.Disconnect();
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));

  FakeClient launcher;
  ASSERT_TRUE(launcher.Connect(path_));
  ASSERT_TRUE(launcher.Send(presence));
  EXPECT_EQ(launcher.Receive(milliseconds(50)), FakeClient::Got::kNothing);
  EXPECT_EQ(presences().size(), 1u);
  launcher.Disconnect();
  for (int i = 0; i < 100 && !presences().empty(); ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(presences().empty());
}

TEST_F(ClientServerTest, DropsASilentClient) {
  options_.hello_timeout = Nanos::Millis(50);
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_));
  EXPECT_NE(Refusal(client).find("no hello"), std::string::npos);
}

TEST_F(ClientServerTest, RefusesInvalidMessagesAndServesOthers) {
  Open();
  const auto hello = FakeClient::MakeHello("");
  auto wrong_magic = hello;
  wrong_magic.header.magic ^= 1;
  auto wrong_length = hello;
  wrong_length.header.bytes = 12;
  auto wrong_type = hello;
  wrong_type.header.type = ring::MessageType::kWelcome;
  auto state_first = FakeClient::Make<ring::State>(ring::MessageType::kState);
  const std::string too_long(5000, 'x');
  const auto refused = [&](const void* bytes, size_t length) {
    FakeClient client;
    EXPECT_TRUE(client.Connect(path_));
    EXPECT_TRUE(client.SendBytes(bytes, length));
    EXPECT_NE(Refusal(client), "(none)");
    EXPECT_EQ(client.Receive(std::chrono::seconds(5)), FakeClient::Got::kClosed);
  };
  refused(&wrong_magic, sizeof(wrong_magic));
  refused(&wrong_length, sizeof(wrong_length));
  refused(&wrong_type, sizeof(wrong_type));
  refused(&state_first, sizeof(state_first));
  refused(&hello, sizeof(hello) - 8);
  refused("x", 1);
  refused(too_long.data(), too_long.size());
  EXPECT_EQ(Registered(), 0u);
  ExpectService();
}

TEST_F(ClientServerTest, RefusesASecondHello) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_) && client.Register(""));
  client.Send(FakeClient::MakeHello(""));
  EXPECT_NE(Refusal(client).find("after the hello"), std::string::npos);
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
}

TEST_F(ClientServerTest, SurvivesRandomPackets) {
  Open();
  std::mt19937_64 random(4);
  for (int round = 0; round < 300; ++round) {
    FakeClient client;
    ASSERT_TRUE(client.Connect(path_));
    if (random() % 2 == 0) client.Register("");
    for (int packet = 0; packet < 5; ++packet) {
      ring::Hello bytes;
      auto* raw = reinterpret_cast<unsigned char*>(&bytes);
      for (size_t i = 0; i < sizeof(bytes); ++i) raw[i] = static_cast<unsigned char>(random());
      const size_t length = 1 + random() % sizeof(bytes);
      if (random() % 2 == 0) {
        bytes.header = {ring::kHandshakeMagic, static_cast<ring::MessageType>(random() % 9),
                        static_cast<uint32_t>(length)};
      }
      const bool with_descriptor = random() % 3 == 0;
      client.SendBytes(&bytes, length, with_descriptor ? null_.get() : -1);
    }
  }
  ExpectService();
}

TEST_F(ClientServerTest, DropsAClientThatDoesNotReadMessages) {
  Open();
  FakeClient client;
  ASSERT_TRUE(client.Connect(path_) && client.Register(""));
  bool taken = true;
  for (int i = 0; i < 100'000 && taken; ++i) {
    OnLoop([&] {
      taken = server_->Send({getpid(), 555}, FakeClient::Make<ring::Arm>(ring::MessageType::kArm));
    });
  }
  EXPECT_FALSE(taken);
  ASSERT_TRUE(WaitFor([&] { return gone_.size() == 1; }));
  EXPECT_EQ(Gone()[0], "it does not accept messages");
}

}  // namespace
}  // namespace lockstep::daemon
