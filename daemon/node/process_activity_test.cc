#include "daemon/node/process_activity.h"

#include <unistd.h>

#include "daemon/node/own_access.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

TEST(ProcessActivity, ReadsStateAndProcessorTime) {
  const auto state = ParseActivity(
      "4711 (a) R (b) T 1 4711 4711 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 7 0 99 1000 10 "
      "18446744073709551615",
      100);
  ASSERT_TRUE(state.has_value());
  EXPECT_EQ(state->state(), "T");
  EXPECT_EQ(state->cpu_ns(), 3'000'000'000);
}

TEST(ProcessActivity, RefusesOtherTexts) {
  for (const char* text :
       {"", "4711", "4711 (a", "4711 (a) ", "4711 (a) R 1 2", "4711 (a) R 1 1 1 1 1 1 1 1 1 1 x y 1"})
    EXPECT_FALSE(ParseActivity(text, 100).has_value()) << text;
}

TEST(ProcessActivity, AddsWhatWasReadAndWritten) {
  const std::string io =
      "rchar: 1000\nwchar: 20\nsyscr: 7\nsyscw: 7\nread_bytes: 4096\nwrite_bytes: 0\n"
      "cancelled_write_bytes: 0\n";
  EXPECT_EQ(ParseTransferred(io), 4116);
  EXPECT_EQ(ParseTransferred(""), 0);
  EXPECT_EQ(ParseTransferred("rchar: x\nwchar\nwrite_bytes: -5\n"), 0);
  EXPECT_EQ(ParseTransferred("rchar: 9223372036854775807\nwchar: 9223372036854775807\n"), INT64_MAX - 1);
}

TEST(ProcessActivity, ShowsOnlyTheProcessItself) {
  const OwnAccess access;
  const auto self = FindProcess(access, getpid());
  ASSERT_TRUE(self.has_value());
  ASSERT_TRUE(ReadActivity(access, self->id).has_value());
  EXPECT_EQ(ReadActivity(access, self->id)->state(), "R");
  EXPECT_GT(ReadActivity(access, self->id)->transferred_bytes(), 0);
  EXPECT_FALSE(ReadActivity(access, {self->id.pid, self->id.start_ticks + 1}).has_value()) << "a reused pid";
}

}  // namespace
}  // namespace lockstep::daemon
