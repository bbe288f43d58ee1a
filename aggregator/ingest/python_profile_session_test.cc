// Tests captures with Python profiles: each is stored beside the records, whole or not at all, and a rank
// without one is named.
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "aggregator/ingest/ingest_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class PythonProfileSessionTest : public IngestTest {
 protected:
  std::future<TraceRun> TraceWithProfiles() {
    return Trace(Nanos::Millis(50), [](v1::TraceRequest& request) {
      request.set_activities(request.activities() | v1::RECORDED_ACTIVITY_PYTHON_PROFILE);
    });
  }
  static void Piece(v1::TraceFile& piece) {
    piece.set_kind(v1::TraceFile::PYTHON_PROFILE);
    piece.set_begin_host_ns(1);
    piece.set_end_host_ns(2);
  }
  static void Last(v1::TraceFile& piece) {
    Piece(piece);
    piece.set_last(true);
  }
  std::string RecordsOf(const std::string& id) const { return folder_ + "/captures/" + id + "/records/"; }
  capture::Manifest ManifestOf(const std::string& id) const {
    std::ifstream file(RecordsOf(id) + "manifest.json");
    return capture::ParseManifest(std::string(std::istreambuf_iterator<char>(file), {})).value();
  }
};

TEST_F(PythonProfileSessionTest, IsStoredWholeOrOmittedWithTheReason) {
  Serve();
  FakeDaemon& daemon = DaemonWithRanks("n0", 0, 4, 4);
  auto running = TraceWithProfiles();
  const std::string id = ArmAll(daemon);
  WaitForStart(daemon);
  daemon.SendTraceFile(1, id, 0, 0, "abc", Piece);
  daemon.SendTraceFile(2, id, 0, 3, "defg", Last);
  daemon.SendTraceFile(3, id, 1, 0, "abc", Piece);
  daemon.SendTraceFile(4, id, 1, 3, "", [](v1::TraceFile& piece) {
    Piece(piece);
    piece.set_given_up("no room");
  });
  daemon.SendTraceFile(5, id, 2, 7, "out of order", Last);
  for (int rank = 0; rank < 4; ++rank) daemon.SendEnd(static_cast<uint64_t>(6 + rank), id, rank);
  EXPECT_TRUE(daemon.WaitForAck(9));
  EXPECT_EQ(running.get().finished.outcome(), v1::TraceFinished::COMPLETE)
      << "a capture is complete without it";
  const capture::Manifest manifest = ManifestOf(id);
  EXPECT_EQ(manifest.processes[0].python_profile.name, "r00000.p00000.cprofile");
  EXPECT_EQ(manifest.processes[0].python_profile.bytes, 7u);
  EXPECT_EQ(manifest.processes[0].python_profile.window.start, HostTime(1));
  EXPECT_EQ(manifest.processes[0].python_profile.window.end, HostTime(2));
  std::ifstream file(RecordsOf(id) + "r00000.p00000.cprofile");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "abcdefg");
  for (int rank = 1; rank < 4; ++rank) {
    EXPECT_TRUE(manifest.processes[static_cast<size_t>(rank)].python_profile.name.empty());
    EXPECT_FALSE(fs::exists(RecordsOf(id) + "r0000" + std::to_string(rank) + ".p0000" + std::to_string(rank) +
                            ".cprofile"));
  }
  EXPECT_THAT(manifest.notes, Contains("no Python profile of rank 1: no room"));
  EXPECT_THAT(manifest.notes, Contains(HasSubstr("no Python profile of rank 2: ")));
  EXPECT_THAT(manifest.notes,
              Contains("no Python profile of rank 3: its client or its daemon is too old to take one"));
  EXPECT_EQ(manifest.notes.size(), 3u);
  EXPECT_EQ(Load(id).ranks.size(), 4u);
}

TEST_F(PythonProfileSessionTest, DiscardsAnUnrequestedProfile) {
  auto [daemon, running, id] = StartCapture();
  daemon.SendTraceFile(1, id, 0, 0, "abc", Last);
  daemon.SendEnd(2, id, 0);
  EXPECT_TRUE(daemon.WaitForAck(2));
  running.get();
  const capture::Manifest manifest = ManifestOf(id);
  EXPECT_TRUE(manifest.processes[0].python_profile.name.empty());
  EXPECT_THAT(manifest.notes, IsEmpty());
  EXPECT_FALSE(fs::exists(RecordsOf(id) + "r00000.p00000.cprofile"));
}

}  // namespace
}  // namespace lockstep::aggregator
