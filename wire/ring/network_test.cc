// Tests reading network tables: written by a client, and by a hostile process.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "wire/ring/client_segment.h"
#include "wire/ring/network_reader.h"

namespace lockstep::ring {
namespace {

constexpr int64_t kStarted = 1'700'000'000'000'000'000;

uint64_t Waits(std::vector<NetworkWait> by_step) {
  uint64_t waits = 0;
  for (size_t i = 0; i < by_step.size(); ++i) waits |= static_cast<uint64_t>(by_step[i]) << (8 * i);
  return waits;
}

class NetworkTest : public testing::Test {
 protected:
  NetworkTest() {
    EXPECT_EQ(Segment::Create({.ring_count = 1}, &segment_), SegmentError::kNone);
    EXPECT_EQ(client_.Attach(segment_.fd(), segment_.bytes()), AttachError::kNone);
  }
  ~NetworkTest() override { client_.Detach(); }

  NetworkEntry& Write(uint32_t index, uint32_t channel, int64_t moved_ns, uint64_t waits) {
    NetworkEntry& entry = client_.network()[index];
    entry.communicator = 0xABC;
    entry.position = 41;
    entry.started_ns = kStarted;
    entry.moved_ns = moved_ns;
    entry.waits = waits;
    entry.peer = 4;
    entry.channel = channel;
    entry.steps = 40;
    entry.steps_done = 12;
    entry.use = index + 1;
    return entry;
  }

  Segment segment_;
  ClientSegment client_;
};

TEST_F(NetworkTest, ReadsWhatTheClientWrote) {
  EXPECT_TRUE(ReadNetwork(segment_).empty());
  Write(7, 2 | kNetworkSend, kStarted + 5, Waits({NetworkWait::kGpu, NetworkWait::kNetwork}));
  Write(1023, 3, kStarted + 1, Waits({NetworkWait::kNetwork, NetworkWait::kFlush}));
  const std::vector<NetworkProgress> read = ReadNetwork(segment_);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].channel, 3u) << "it has not moved for longer";
  EXPECT_EQ(read[0].direction, NetworkDirection::kReceive);
  EXPECT_EQ(read[1].direction, NetworkDirection::kSend);
  EXPECT_EQ(read[1].channel, 2u);
  EXPECT_EQ(read[1].communicator, 0xABCu);
  EXPECT_EQ(read[1].position, 41u);
  EXPECT_EQ(read[1].peer, 4);
  EXPECT_EQ(read[1].steps, 40u);
  EXPECT_EQ(read[1].steps_done, 12u);
  EXPECT_EQ(read[1].started, HostTime(kStarted));
  EXPECT_EQ(read[1].moved, HostTime(kStarted + 5));
}

TEST_F(NetworkTest, TheWaitIsThatOfTheOldestStep) {
  using enum NetworkWait;
  const struct {
    uint32_t channel;
    std::vector<NetworkWait> by_step;
    NetworkWait oldest;
  } cases[] = {
      {kNetworkSend, {kGpu, kPeer, kNone}, kPeer}, {kNetworkSend, {kGpu, kNetwork, kPeer}, kNetwork},
      {kNetworkSend, {kGpu, kGpu}, kGpu},          {kNetworkSend, {}, kNone},
      {0, {kNetwork, kNetwork}, kNetwork},         {0, {kFlush, kNetwork}, kFlush},
      {0, {kNetwork, kGpu, kFlush}, kGpu},
  };
  for (const auto& c : cases) {
    Write(0, c.channel, kStarted, Waits(c.by_step));
    EXPECT_EQ(ReadNetwork(segment_).at(0).wait, c.oldest);
  }
}

TEST_F(NetworkTest, SurvivesAnyBytes) {
  std::memset(static_cast<void*>(client_.network()), 0xFF, kNetworkBytes);
  const std::vector<NetworkProgress> read = ReadNetwork(segment_);
  ASSERT_EQ(read.size(), kNetworkEntries);
  EXPECT_EQ(read[0].wait, NetworkWait::kNone);
  EXPECT_EQ(read[0].peer, -1);
}

TEST_F(NetworkTest, MatchesTheGoldenFile) {
  const std::string name = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/golden/ring/network.bin";
  Write(0, 2 | kNetworkSend, kStarted + 5,
        Waits({NetworkWait::kGpu, NetworkWait::kNetwork, NetworkWait::kPeer}));
  const auto* bytes = reinterpret_cast<const char*>(client_.network());
  std::ifstream file(name, std::ios::binary);
  const std::vector<char> golden{std::istreambuf_iterator<char>(file), {}};
  if (golden == std::vector<char>(bytes, bytes + sizeof(NetworkEntry))) return;
  std::ofstream("network.bin.actual", std::ios::binary).write(bytes, sizeof(NetworkEntry));
  ADD_FAILURE() << "the bytes differ from " << name << "; what came out is in ./network.bin.actual";
}

TEST_F(NetworkTest, RefusesATableOutsideTheSegment) {
  SegmentHeader& header = *segment_.header();
  const uint64_t offset = header.network_offset;
  SegmentGeometry geometry;
  auto* base = reinterpret_cast<std::byte*>(&header);
  for (const uint64_t lie :
       {uint64_t{0}, header.log_offset, offset + 1, offset + 64, segment_.bytes(), ~uint64_t{0} << 6}) {
    header.network_offset = lie;
    EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kNetwork) << lie;
  }
  header.network_offset = offset;
  header.network_entries = kNetworkEntries * 2;
  EXPECT_EQ(ReadGeometry(base, segment_.bytes(), &geometry), GeometryError::kNone) << "another version";
  EXPECT_EQ(geometry.network_offset, 0u);
}

}  // namespace
}  // namespace lockstep::ring
