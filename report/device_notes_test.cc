#include "report/device_notes.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::report {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

capture::RankData Rank(int32_t rank, const std::string& name, const std::string& uuid, uint32_t host = 0) {
  capture::RankData data;
  data.rank = RankId(rank);
  data.host = host;
  data.properties.name = name;
  data.properties.uuid = uuid;
  return data;
}

std::vector<std::string> NotesOf(std::vector<capture::RankData> ranks) {
  capture::Capture capture;
  capture.ranks = std::move(ranks);
  return DeviceNotes(capture, {"node0", "node1"});
}

TEST(DeviceNotes, AUniformJobHasNoNotes) {
  EXPECT_THAT(NotesOf({Rank(0, "H100", "GPU-a"), Rank(1, "H100", "GPU-b"), Rank(2, "H100", "GPU-a", 1)}),
              IsEmpty());
  EXPECT_THAT(NotesOf({Rank(0, "", ""), Rank(1, "", "")}), IsEmpty());
}

TEST(DeviceNotes, NamesDifferentDeviceModelsWithTheirRanks) {
  EXPECT_THAT(
      NotesOf(
          {Rank(0, "H100", "GPU-a"), Rank(1, "A100", "GPU-b"), Rank(2, "H100", "GPU-c"), Rank(3, "", "")}),
      ElementsAre("the ranks do not run on the same kind of device: A100 (rank 1), H100 (ranks 0, 2)"));
}

TEST(DeviceNotes, NamesRanksThatShareADevice) {
  EXPECT_THAT(
      NotesOf({Rank(0, "H100", "GPU-a"), Rank(1, "H100", "GPU-a"), Rank(2, "H100", "GPU-a", 1)}),
      ElementsAre(
          "ranks 0, 1 share one device of node0 (GPU-a): the kernels of one wait for those of the other"));
}

TEST(DeviceNotes, ARestartedRankDoesNotShareItsDeviceWithItself) {
  EXPECT_THAT(NotesOf({Rank(0, "H100", "GPU-a"), Rank(0, "H100", "GPU-a")}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::report
