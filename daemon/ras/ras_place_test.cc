#include "daemon/ras/ras_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::daemon {
namespace {

using Family = Loopback::Family;

std::vector<std::pair<Family, uint16_t>> Addresses(const std::string& environment) {
  const absl::StatusOr<RasPlace> place = RasPlaceOf(environment);
  std::vector<std::pair<Family, uint16_t>> addresses;
  if (!place.ok()) return addresses;
  for (const Loopback& address : place->addresses) addresses.emplace_back(address.family, address.port);
  return addresses;
}

TEST(RasPlace, IsOnLocalhostByDefault) {
  const std::vector<std::pair<Family, uint16_t>> both = {{Family::kIp4, 28028}, {Family::kIp6, 28028}};
  EXPECT_EQ(Addresses(""), both);
  EXPECT_EQ(Addresses("A=1\nNCCL_RAS_ENABLE=1\n"), both);
  EXPECT_EQ(RasPlaceOf("")->name, "localhost:28028");
}

TEST(RasPlace, FollowsTheEnvironment) {
  using Places = std::vector<std::pair<Family, uint16_t>>;
  EXPECT_EQ(Addresses("NCCL_RAS_ADDR=localhost:99\n"), (Places{{Family::kIp4, 99}, {Family::kIp6, 99}}));
  EXPECT_EQ(Addresses("NCCL_RAS_ADDR=127.0.0.1:99\n"), (Places{{Family::kIp4, 99}}));
  EXPECT_EQ(Addresses("NCCL_RAS_ADDR=0.0.0.0:99\n"), (Places{{Family::kIp4, 99}}));
  EXPECT_EQ(Addresses("NCCL_RAS_ADDR=[::1]:99\n"), (Places{{Family::kIp6, 99}}));
  EXPECT_EQ(Addresses("NCCL_RAS_ADDR=[::]:99\n"), (Places{{Family::kIp6, 99}}));
}

TEST(RasPlace, IsRefusedOutsideOfThisNode) {
  for (const char* address :
       {"10.0.0.1:99", "127.0.0.2:99", "head:99", "[fe80::1]:99", "localhost", "localhost:0",
        "localhost:65536", ":99", "localhost:x", "[]:9", ":", "[::ffff:10.0.0.1]:9"}) {
    const absl::StatusOr<RasPlace> place = RasPlaceOf(std::string("NCCL_RAS_ADDR=") + address + "\n");
    EXPECT_EQ(place.status().code(), absl::StatusCode::kFailedPrecondition) << address;
    EXPECT_THAT(std::string(place.status().message()), testing::HasSubstr(address));
  }
}

TEST(RasPlace, MayBeOff) {
  EXPECT_THAT(std::string(RasPlaceOf("NCCL_RAS_ENABLE=0\n").status().message()),
              testing::HasSubstr("NCCL_RAS_ENABLE is 0"));
}

}  // namespace
}  // namespace lockstep::daemon
