#include "daemon/ras/ras_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "daemon/ras/ras_fake.h"

namespace lockstep::daemon {
namespace {

using testing::HasSubstr;

RasLimits Short() {
  return {.within = Nanos::Millis(800), .first_line_within = Nanos::Millis(100), .answer_bytes = 1000};
}

v1::RasAnswer Ask(const FakeRas& ras, const RasLimits& limits = RasLimits()) {
  return AskRas(ras.place(), geteuid(), limits, ReadTcpTable);
}

TEST(RasQuery, ReadsJson) {
  const FakeRas ras({.json = "{\"a\": 1}\n"});
  const v1::RasAnswer answer = Ask(ras);
  EXPECT_EQ(answer.problem(), "");
  EXPECT_EQ(answer.text(), "{\"a\": 1}\n");
  EXPECT_TRUE(answer.is_json());
  EXPECT_EQ(answer.address(), ras.place().name);
}

TEST(RasQuery, ReadsTheTextOfOlderReleases) {
  const FakeRas ras({.knows_json = false, .text = "NCCL version 2.24.3\n"});
  const v1::RasAnswer answer = Ask(ras);
  EXPECT_EQ(answer.problem(), "");
  EXPECT_EQ(answer.text(), "NCCL version 2.24.3\n");
  EXPECT_FALSE(answer.is_json());
}

TEST(RasQuery, TakesTheTextIfJsonIsTooLong) {
  const FakeRas ras({.json = std::string(5000, 'x'), .text = std::string(900, 'y')});
  const v1::RasAnswer answer = Ask(ras, Short());
  EXPECT_EQ(answer.problem(), "");
  EXPECT_EQ(answer.text(), std::string(900, 'y'));
  EXPECT_FALSE(answer.is_json());
}

TEST(RasQuery, RefusesAnAnswerWithoutEnd) {
  const FakeRas ras(
      {.json = std::string(1 << 22, 'x'), .text = std::string(1 << 22, 'x'), .keeps_open = true});
  const v1::RasAnswer answer = Ask(ras, Short());
  EXPECT_THAT(answer.problem(), HasSubstr("longer than 1000 bytes"));
  EXPECT_EQ(answer.text(), "");
}

TEST(RasQuery, PassesAStoppedProcess) {
  const FakeRas ras({.json = "{}", .silent_connections = 2});
  const v1::RasAnswer answer = Ask(ras, Short());
  EXPECT_EQ(answer.problem(), "");
  EXPECT_EQ(answer.text(), "{}");
  EXPECT_EQ(ras.connections(), 3);
}

TEST(RasQuery, EndsInTimeWithoutAnAnswer) {
  for (const FakeRasBehaviour& behaviour :
       {FakeRasBehaviour{.silent_connections = 100}, FakeRasBehaviour{.answers_status = false},
        FakeRasBehaviour{.json = "{}", .keeps_open = true}}) {
    const FakeRas ras(behaviour);
    const auto begin = std::chrono::steady_clock::now();
    const v1::RasAnswer answer = Ask(ras, Short());
    EXPECT_THAT(answer.problem(), HasSubstr("does not answer in time"));
    // Generous, for a busy machine.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
}

TEST(RasQuery, RefusesAnotherProtocol) {
  for (const std::string& greeting :
       {std::string("HTTP/1.1 400 Bad Request\n"), std::string(100'000, 'x'), std::string("\n")}) {
    const FakeRas ras({.greeting = greeting});
    EXPECT_THAT(Ask(ras).problem(), HasSubstr("does not speak RAS's protocol")) << greeting.substr(0, 20);
  }
}

TEST(RasQuery, SendsNothingToAnotherUsersProgram) {
  const FakeRas ras({});
  const v1::RasAnswer answer = AskRas(ras.place(), geteuid() + 1, RasLimits(), ReadTcpTable);
  EXPECT_THAT(answer.problem(), HasSubstr("another user's program listens there"));
  EXPECT_EQ(ras.connections(), 0);
}

// The listener may change between the look at the table and the connection.
TEST(RasQuery, AsksNothingOfAnotherUserThatHasTakenThePort) {
  const FakeRas ras({});
  int looks = 0;
  const uid_t owner = geteuid() + 1;
  const TcpTableReader table = [&](Loopback::Family family) {
    if (looks++ > 0 || family != Loopback::Family::kIp4) return ReadTcpTable(family);
    char line[200];
    std::snprintf(line, sizeof(line), "0: 0100007F:%04X 00000000:0000 0A 0:0 0:0 0 %u 0 1\n", ras.port(),
                  owner);
    return TcpTable::Parse(line);
  };
  EXPECT_THAT(AskRas(ras.place(), owner, RasLimits(), table).problem(),
              HasSubstr("another user's program answers there"));
}

TEST(RasQuery, SaysThatNoProcessListens) {
  RasPlace place;
  {
    const FakeRas ras({});
    place = ras.place();
  }
  EXPECT_THAT(AskRas(place, geteuid(), RasLimits(), ReadTcpTable).problem(),
              HasSubstr("no process listens there"));
}

}  // namespace
}  // namespace lockstep::daemon
