#include "sim/nccl/shared_world.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

namespace lockstep::sim {
namespace {

uint64_t NewId() { return std::random_device{}() * 0x100000001ull ^ static_cast<uint64_t>(getpid()); }

TEST(SharedWorld, ProcessesJoinAndTheNameIsRemoved) {
  const uint64_t id = NewId();
  const pid_t child = fork();
  std::string error;
  std::atomic<bool> stop{false};
  const int rank = child == 0 ? 1 : 0;
  std::unique_ptr<SharedWorld> world = SharedWorld::Join(id, 2, rank, {77, rank + 10, 0, 0}, &error);
  if (world == nullptr) {
    if (child == 0) _exit(9);
    FAIL() << error;
  }
  world->Publish(5, 1000 + rank);
  std::memset(world->window(rank), 'a' + rank, 8);
  world->Barrier(stop);
  const bool right = world->member(1 - rank).device == 11 - rank &&
                     world->StartOf(5, 1 - rank) == 1001 - rank && world->StartOf(6, 1 - rank) == -1 &&
                     world->window(1 - rank)[7] == 'b' - rank;
  if (child == 0) _exit(right ? 0 : 1);
  EXPECT_TRUE(right);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_LT(shm_open(SharedWorld::NameOf(id).c_str(), O_RDWR, 0), 0) << "the name is gone";
}

TEST(SharedWorld, TransfersAreCountedByPairAndDirection) {
  std::string error;
  const auto world = SharedWorld::Join(NewId(), 1, 0, {}, &error);
  ASSERT_NE(world, nullptr) << error;
  using End = SharedWorld::End;
  world->PublishTransfer(0, 0, End::kSender, 0, 50);
  EXPECT_EQ(world->StartOfTransfer(0, 0, End::kSender, 0), 50);
  EXPECT_EQ(world->StartOfTransfer(0, 0, End::kReceiver, 0), -1);
  EXPECT_EQ(world->StartOfTransfer(0, 0, End::kSender, 1), -1);
  EXPECT_EQ(world->StartOfTransfer(0, 0, End::kSender, SharedWorld::kRing), -1)
      << "the same place, a later one";
}

TEST(SharedWorld, RefusesAnInvalidRankWithAReason) {
  std::string error;
  EXPECT_EQ(SharedWorld::Join(NewId(), 2, 2, {}, &error), nullptr);
  EXPECT_NE(error.find("rank 2 of 2"), std::string::npos);
  EXPECT_EQ(SharedWorld::Join(NewId(), SharedWorld::kMostRanks + 1, 0, {}, &error), nullptr);
}

TEST(SharedWorld, ABarrierEndsOnRequest) {
  std::string error;
  const uint64_t id = NewId();
  std::unique_ptr<SharedWorld> other;
  std::thread joins([&] {
    std::string why;
    other = SharedWorld::Join(id, 2, 1, {}, &why);
  });
  const auto world = SharedWorld::Join(id, 2, 0, {}, &error);
  joins.join();
  ASSERT_NE(world, nullptr) << error;
  std::atomic<bool> stop{false};
  std::thread stops([&] {
    usleep(20'000);
    stop = true;
    world->NotifyChange();
  });
  EXPECT_FALSE(world->Barrier(stop));
  stops.join();
}

}  // namespace
}  // namespace lockstep::sim
