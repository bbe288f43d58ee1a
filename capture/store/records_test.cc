#include "capture/store/records.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "capture/store/records_blocks.h"
#include "capture/store/records_manifest.h"
#include "capture/store/records_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/columns.h"

namespace lockstep::capture {
namespace {

using columns::BlockBuilder;
using columns::Kind;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr int64_t kT0 = 1'700'000'000'000'000'000;

std::string Strings(uint64_t epoch, const std::vector<columns::StringDefinition>& strings) {
  std::string out;
  columns::EncodeStrings(epoch, strings, out);
  return out;
}

std::vector<uint64_t> Row(Kind kind, const std::vector<std::pair<size_t, int64_t>>& values) {
  std::vector<uint64_t> row(columns::Schema(kind).size(), 0);
  for (const auto& [column, value] : values) row[column] = static_cast<uint64_t>(value);
  return row;
}

std::string Block(Kind kind, uint64_t epoch, const std::vector<std::vector<uint64_t>>& rows) {
  BlockBuilder builder(kind);
  for (const auto& row : rows) builder.Append(row);
  std::string out;
  builder.Encode(epoch, 0, out);
  return out;
}

std::vector<uint64_t> Kernel(int64_t start, int64_t duration, uint32_t name, uint32_t correlation,
                             uint32_t device = 0) {
  namespace c = columns::kernel;
  return Row(Kind::kKernel, {{c::kStart, kT0 + start},
                             {c::kDuration, duration},
                             {c::kName, name},
                             {c::kCorrelation, correlation},
                             {c::kDevice, device},
                             {c::kStream, 7},
                             {c::kGridX, 4},
                             {c::kBlockX, 128}});
}

std::vector<uint64_t> Launch(uint64_t serial, uint32_t correlation) {
  namespace c = columns::external_correlation;
  return Row(
      Kind::kExternalCorrelation,
      {{c::kExternal, static_cast<int64_t>(serial)}, {c::kCorrelation, correlation}, {c::kExternalKind, 5}});
}

class RecordsTest : public ::testing::Test {
 protected:
  RecordsTest() {
    char pattern[] = "/tmp/lockstep-records-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    manifest_.id = "c1";
    manifest_.job = "job";
    manifest_.world_size = 2;
    manifest_.complete = true;
    manifest_.hosts = {{"boot-id", "n0", {}}};
    for (int rank = 0; rank < 2; ++rank) {
      ManifestProcess p;
      p.rank = RankId(rank);
      p.host = 0;
      p.pid = 100 + rank;
      p.window = {HostTime(kT0), HostTime(kT0 + 1'000'000)};
      p.state = "done";
      manifest_.processes.push_back(p);
    }
    writer_ = *RecordsWriter::Create(folder_, manifest_);
  }
  ~RecordsTest() override { fs::remove_all(folder_); }

  void Append(uint32_t process, const std::string& blocks, uint64_t incarnation = 1) {
    const absl::StatusOr<FileEnd> end =
        writer_->Append({process, incarnation}, manifest_.processes[process].rank, blocks);
    ASSERT_TRUE(end.ok()) << end.status();
    ends_[{process, incarnation}] = *end;
  }
  void Close() {
    for (uint32_t p = 0; p < manifest_.processes.size(); ++p)
      manifest_.processes[p].files = writer_->Files(p);
    ASSERT_TRUE(writer_->Close(manifest_).ok());
  }
  Capture Load() {
    auto capture = LoadRecords(folder_);
    EXPECT_TRUE(capture.ok()) << capture.status();
    return capture.ok() ? *std::move(capture) : Capture();
  }
  std::string PathOf(uint32_t process, size_t file = 0) const {
    return folder_ + "/records/" + manifest_.processes[process].files[file].name;
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  static void Write(const std::string& path, std::string_view text) {
    std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  static uint64_t Lost(const RankData& rank, const std::string& kind) {
    uint64_t lost = 0;
    for (const Loss& loss : rank.losses) {
      if (loss.stage == "store" && loss.kind == kind) lost += loss.records;
    }
    return lost;
  }

  std::string folder_;
  Manifest manifest_;
  std::unique_ptr<RecordsWriter> writer_;
  std::map<SegmentKey, FileEnd> ends_;  // of the last appends
};

TEST_F(RecordsTest, RowsComeBackWithTheirNamesAndDetails) {
  Append(0, Strings(1, {{1, "gemm"}, {2, "cudaLaunchKernel"}}) +
                Block(Kind::kKernel, 1, {Kernel(100, 50, 1, 9)}));
  namespace c = columns::api;
  Append(0, Block(Kind::kApi, 1,
                  {Row(Kind::kApi, {{c::kStart, kT0 + 90},
                                    {c::kDuration, 5},
                                    {c::kName, 2},
                                    {c::kCorrelation, 9},
                                    {c::kThread, 4711}})}));
  Close();
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 2u);
  const RankData& rank = capture.ranks[0];
  ASSERT_EQ(rank.activities.size(), 1u);
  EXPECT_EQ(rank.activities[0].start, HostTime(kT0 + 100));
  EXPECT_EQ(rank.activities[0].end, HostTime(kT0 + 150));
  EXPECT_EQ(capture.Text(rank.activities[0].name), "gemm");
  EXPECT_EQ(rank.kernel_details[rank.activities[0].detail].block[0], 128);
  ASSERT_EQ(rank.api_calls.size(), 1u);
  EXPECT_EQ(capture.Text(rank.api_calls[0].name), "cudaLaunchKernel");
  EXPECT_EQ(rank.api_calls[0].thread, ThreadId(4711));
  EXPECT_EQ(capture.hosts[rank.host].name, "n0");
  EXPECT_TRUE(capture.live);
  EXPECT_TRUE(capture.notes.empty()) << capture.notes[0];
}

TEST_F(RecordsTest, FindsANameDefinedAfterItsFirstUse) {
  Append(0, Block(Kind::kKernel, 1, {Kernel(0, 1, 5, 1)}));
  Append(0, Strings(1, {{5, "late"}}));
  Close();
  const Capture capture = Load();
  EXPECT_EQ(capture.Text(capture.ranks[0].activities[0].name), "late");
}

TEST_F(RecordsTest, IgnoresIdsOfAnotherEpochOrSegment) {
  Append(0, Strings(1, {{5, "old"}}) + Block(Kind::kKernel, 2, {Kernel(0, 1, 5, 1)}));
  Append(0, Block(Kind::kKernel, 1, {Kernel(10, 1, 5, 1)}), /*incarnation=*/2);
  Close();
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks[0].activities.size(), 2u);
  for (const DeviceActivity& a : capture.ranks[0].activities) EXPECT_EQ(a.name, kNoName);
  EXPECT_THAT(capture.notes,
              ::testing::Contains(HasSubstr("2 records have no name because its definition was lost")));
}

TEST_F(RecordsTest, JoinsACollectiveToItsKernelByLaunchSerial) {
  for (uint32_t rank = 0; rank < 2; ++rank) {
    namespace m = columns::communicator;
    namespace c = columns::collective;
    Append(rank, Strings(1, {{1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"},
                             {2, "AllReduce"},
                             {3, "ncclFloat32"},
                             {4, "tp"}}) +
                     Block(Kind::kCommunicator, 1,
                           {Row(Kind::kCommunicator, {{m::kComm, 0xABC},
                                                      {m::kName, 4},
                                                      {m::kRank, 1 - rank},
                                                      {m::kRanks, 2},
                                                      {m::kNodes, 1}})}) +
                     Block(Kind::kExternalCorrelation, 1, {Launch(77, 9), Launch(80, 10)}) +
                     Block(Kind::kKernel, 1, {Kernel(100, 50, 1, 9)}) +
                     Block(Kind::kCollective, 1,
                           {Row(Kind::kCollective, {{c::kComm, 0xABC},
                                                    {c::kSequence, 41},
                                                    {c::kLaunch, 77},
                                                    {c::kCount, 1000},
                                                    {c::kFunction, 2},
                                                    {c::kDatatype, 3}}),
                            Row(Kind::kCollective, {{c::kComm, 0xABC},
                                                    {c::kSequence, 42},
                                                    {c::kLaunch, 77},
                                                    {c::kCount, 1},
                                                    {c::kFunction, 2},
                                                    {c::kDatatype, 3}}),
                            Row(Kind::kCollective, {{c::kComm, 0xABC},
                                                    {c::kSequence, 43},
                                                    {c::kLaunch, 78},
                                                    {c::kFunction, 2},
                                                    {c::kDatatype, 3}}),
                            Row(Kind::kCollective, {{c::kComm, 0xABC},
                                                    {c::kSequence, 43},
                                                    {c::kLaunch, 99},
                                                    {c::kFunction, 2},
                                                    {c::kDatatype, 3}})}));
  }
  Close();
  const Capture capture = Load();
  const RankData& rank = capture.ranks[0];
  ASSERT_EQ(rank.collectives.size(), 2u) << "two grouped in one kernel; two name no launch";
  EXPECT_EQ(rank.collectives[0].activity, 0u);
  EXPECT_EQ(rank.collectives[1].activity, 0u);
  EXPECT_EQ(rank.collectives[0].op, CollectiveOp::kAllReduce);
  EXPECT_EQ(rank.collectives[0].sequence, 41);
  EXPECT_EQ(rank.collectives[0].bytes, 4000);
  EXPECT_EQ(rank.collectives[0].source, MatchSource::kNcclSequence);
  EXPECT_TRUE(rank.activities[0].communication);
  const Group& group = capture.groups[rank.collectives[0].group];
  EXPECT_EQ(group.name, "tp");
  EXPECT_EQ(group.size, 2);
  EXPECT_EQ(group.members, (std::vector<RankId>{RankId(1), RankId(0)}))
      << "in the order of their rank in the group";
  EXPECT_THAT(
      capture.notes,
      ::testing::Contains(HasSubstr("2 collectives that NCCL described have no launch in the capture")));
}

TEST_F(RecordsTest, AProcessWithTwoDevicesHasTwoEntriesAndEachCallOnce) {
  namespace c = columns::api;
  Append(0,
         Strings(1, {{1, "k"}}) +
             Block(Kind::kKernel, 1, {Kernel(0, 1, 1, 1, 0), Kernel(5, 1, 1, 2, 1), Kernel(9, 1, 1, 3, 1)}) +
             Block(Kind::kApi, 1,
                   {Row(Kind::kApi, {{c::kStart, kT0}, {c::kCorrelation, 1}}),
                    Row(Kind::kApi, {{c::kStart, kT0}, {c::kCorrelation, 99}})}));
  Close();
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 3u);
  EXPECT_EQ(capture.ranks[0].device, DeviceId(0));
  EXPECT_EQ(capture.ranks[0].activities.size(), 1u);
  EXPECT_EQ(capture.ranks[0].api_calls.size(), 1u);
  EXPECT_EQ(capture.ranks[1].device, DeviceId(1));
  EXPECT_EQ(capture.ranks[1].activities.size(), 2u);
  EXPECT_EQ(capture.ranks[1].api_calls.size(), 1u);
}

TEST_F(RecordsTest, ARangeOpenAtTheWindowsEdgeGetsTheWindowsTime) {
  namespace c = columns::range;
  Append(
      0,
      Strings(1, {{1, "step"}}) +
          Block(
              Kind::kRange, 1,
              {Row(Kind::kRange, {{c::kStart, 0}, {c::kDuration, kT0 + 300}, {c::kName, 1}, {c::kFlags, 1}}),
               Row(Kind::kRange,
                   {{c::kStart, kT0 + 400}, {c::kDuration, -(kT0 + 400)}, {c::kName, 1}, {c::kFlags, 2}})}));
  Close();
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks[0].ranges.size(), 2u);
  EXPECT_EQ(capture.ranks[0].ranges[0].start, HostTime(kT0));
  EXPECT_EQ(capture.ranks[0].ranges[0].end, HostTime(kT0 + 300));
  EXPECT_EQ(capture.ranks[0].ranges[1].end, HostTime(kT0 + 1'000'000));
}

TEST_F(RecordsTest, ARangeWithoutARecordedBeginHasNoLostName) {
  namespace c = columns::range;
  Append(
      0,
      Block(Kind::kRange, 1,
            {Row(Kind::kRange, {{c::kStart, 0}, {c::kDuration, kT0 + 300}, {c::kName, 0}, {c::kFlags, 1}})}));
  Close();
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks[0].ranges.size(), 1u);
  EXPECT_EQ(capture.Text(capture.ranks[0].ranges[0].name), "(began before the capture)");
  EXPECT_THAT(capture.notes, Contains(HasSubstr("1 range began before the capture")));
  EXPECT_THAT(capture.notes, Not(Contains(HasSubstr("lost"))));
}

TEST_F(RecordsTest, RefusesAndCountsImpossibleStamps) {
  Append(0, Block(Kind::kKernel, 1,
                  {Kernel(0, -5, 0, 0), Kernel(0, std::numeric_limits<int64_t>::max(), 0, 0),
                   Kernel(std::numeric_limits<int64_t>::max() - kT0, 1, 0, 0), Kernel(0, 1, 0, 0)}));
  Close();
  const Capture capture = Load();
  EXPECT_EQ(capture.ranks[0].activities.size(), 1u);
  EXPECT_EQ(Lost(capture.ranks[0], "kernel"), 3u);
}

TEST_F(RecordsTest, ReadsATruncatedFileUpToTheDamageAndCountsTheRest) {
  std::string blocks = Strings(1, {{1, "k"}});
  for (int i = 0; i < 4; ++i)
    blocks += Block(Kind::kKernel, 1, {Kernel(10 * i, 1, 1, 0), Kernel(10 * i + 5, 1, 1, 0)});
  Append(0, blocks);
  Close();
  const std::string whole = Read(PathOf(0));
  ASSERT_EQ(whole.size(), blocks.size());
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    Write(PathOf(0), whole.substr(0, cut));
    const Capture capture = Load();
    const RankData& rank = capture.ranks[0];
    ASSERT_EQ(rank.activities.size() + Lost(rank, "kernel"), 8u) << "cut at " << cut;
    ASSERT_FALSE(capture.notes.empty());
  }
}

TEST_F(RecordsTest, AFlippedByteNeverAddsRowsAndCountsLostOnes) {
  std::string blocks = Strings(1, {{1, "k"}});
  for (int i = 0; i < 3; ++i) blocks += Block(Kind::kKernel, 1, {Kernel(10 * i, 1, 1, 0)});
  Append(0, blocks);
  Close();
  const std::string whole = Read(PathOf(0));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    Write(PathOf(0), damaged);
    const Capture capture = Load();
    ASSERT_LE(capture.ranks[0].activities.size(), 3u) << "flipped at " << at;
    ASSERT_GE(capture.ranks[0].activities.size() + Lost(capture.ranks[0], "kernel"), 3u)
        << "flipped at " << at;
  }
}

TEST_F(RecordsTest, ADamagedBlockLosesOnlyItself) {
  Append(0, Strings(1, {{1, "k"}}));
  Append(0, Block(Kind::kKernel, 1, {Kernel(0, 1, 1, 0)}));
  const uint64_t middle = writer_->bytes();
  Append(0, Block(Kind::kKernel, 1, {Kernel(10, 1, 1, 0)}));
  Append(0, Block(Kind::kKernel, 1, {Kernel(20, 1, 1, 0)}));
  Close();
  std::string bytes = Read(PathOf(0));
  bytes[middle + sizeof(columns::BlockHeader)] ^= 0x55;
  Write(PathOf(0), bytes);
  const Capture capture = Load();
  EXPECT_EQ(capture.ranks[0].activities.size(), 2u);
  EXPECT_EQ(Lost(capture.ranks[0], "kernel"), 1u);
}

TEST_F(RecordsTest, ReadsACaptureWithoutAManifestAsIncomplete) {
  Append(1, Strings(1, {{1, "k"}}) + Block(Kind::kKernel, 1, {Kernel(0, 1, 1, 0)}));
  const Capture open = Load();
  ASSERT_EQ(open.ranks.size(), 2u);
  EXPECT_EQ(open.ranks[1].activities.size(), 1u);
  EXPECT_EQ(open.hosts[open.ranks[1].host].name, "n0");
  ASSERT_EQ(open.incomplete.size(), 2u);
  EXPECT_THAT(open.incomplete[0].reason, HasSubstr("the aggregator ended before the capture did"));
  EXPECT_TRUE(open.partial());

  fs::remove(folder_ + "/records/" + kOpenManifestName);
  const Capture bare = Load();
  ASSERT_EQ(bare.ranks.size(), 1u);
  EXPECT_EQ(bare.ranks[0].rank, RankId(1));
  EXPECT_EQ(bare.ranks[0].activities.size(), 1u);
  EXPECT_THAT(bare.notes, ::testing::Contains(HasSubstr("no manifest")));
  ASSERT_EQ(bare.incomplete.size(), 1u);
  EXPECT_THAT(bare.incomplete[0].reason, HasSubstr("no manifest"));
}

TEST_F(RecordsTest, AnIdleRankHasItsDevice) {
  const auto device = [](uint32_t number, int64_t sms) {
    return Row(Kind::kDevice, {{columns::device::kDevice, number}, {columns::device::kMultiprocessors, sms}});
  };
  Append(0,
         Block(Kind::kDevice, 1, {device(0, 108), device(3, 132)}) +
             Block(Kind::kContext, 1,
                   {Row(Kind::kContext, {{columns::context::kContext, 1}, {columns::context::kDevice, 3}})}));
  Close();
  const Capture capture = Load();
  EXPECT_EQ(capture.ranks[0].device, DeviceId(3));
  EXPECT_EQ(capture.ranks[0].properties.sms, 132);
  EXPECT_FALSE(capture.ranks[1].has_properties);
}

TEST_F(RecordsTest, EachEntryOfAProcessWithTwoDevicesHasItsOwnRows) {
  const auto device = [](uint32_t number, int64_t sms) {
    return Row(Kind::kDevice, {{columns::device::kDevice, number}, {columns::device::kMultiprocessors, sms}});
  };
  const auto context = [](uint32_t number, uint32_t on) {
    return Row(Kind::kContext, {{columns::context::kContext, number}, {columns::context::kDevice, on}});
  };
  Append(0,
         Block(Kind::kDevice, 1, {device(0, 108), device(1, 132), device(2, 99)}) +
             Block(Kind::kContext, 1, {context(1, 0), context(2, 1), context(3, 2)}) +
             Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 1, 0), Kernel(5, 1, 0, 2, 1), Kernel(9, 1, 0, 3, 1)}));
  Close();
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 3u);
  EXPECT_EQ(capture.ranks[0].properties.sms, 108);
  EXPECT_EQ(capture.ranks[1].properties.sms, 132);
  EXPECT_EQ(capture.ranks[0].contexts.size(), 1u);
  ASSERT_EQ(capture.ranks[1].contexts.size(), 2u) << "the busiest entry also has the objects of idle devices";
  EXPECT_EQ(capture.ranks[1].contexts[1].device, DeviceId(2));
}

TEST_F(RecordsTest, ReadsFilesBesideAnInvalidManifest) {
  Append(1, Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)}));
  Close();
  Write(folder_ + "/records/" + kManifestName, "{\"schema\": ");
  const Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 1u);
  EXPECT_EQ(capture.ranks[0].rank, RankId(1));
  EXPECT_THAT(capture.notes, ::testing::Contains(HasSubstr("manifest.json cannot be used")));
}

TEST_F(RecordsTest, SpecialFilesAreNamedAndNotOpened) {
  Append(0, Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)}));
  Append(1, Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)}));
  Close();
  const std::string fifo = PathOf(1);
  fs::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Capture capture = Load();
  ASSERT_EQ(capture.ranks.size(), 2u);
  EXPECT_EQ(capture.ranks[0].activities.size(), 1u);
  EXPECT_EQ(Lost(capture.ranks[1], "kernel"), 1u);
  EXPECT_THAT(capture.notes,
              ::testing::Contains(HasSubstr(fifo + " is a FIFO, not a regular file; 1 records")));

  const std::string manifest = folder_ + "/records/" + kManifestName;
  fs::remove(manifest);
  ASSERT_EQ(::mkfifo(manifest.c_str(), 0600), 0);
  capture = Load();
  EXPECT_THAT(capture.notes, ::testing::Contains(HasSubstr("manifest.json cannot be used (")));
}

TEST_F(RecordsTest, ImpossibleClockReadingsAreRefusedAndCounted) {
  namespace c = columns::clock;
  const int64_t far = std::numeric_limits<int64_t>::max();
  const auto reading = [](int64_t realtime, int64_t monotonic, int64_t gap) {
    return Row(Kind::kClock, {{c::kRealtime, realtime}, {c::kMonotonic, monotonic}, {c::kGap, gap}});
  };
  Append(0, Block(Kind::kClock, 1,
                  {reading(kT0, 1, 5), reading(far, 2, 5), reading(kT0, -far, 5), reading(kT0, 3, -5)}));
  Close();
  const Capture capture = Load();
  EXPECT_EQ(capture.ranks[0].clocks.size(), 1u);
  EXPECT_EQ(Lost(capture.ranks[0], "clock"), 3u);
}

TEST_F(RecordsTest, AManifestCannotPointOutsideItsFolder) {
  Write(folder_ + "/secret.lsr", Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)}));
  manifest_.processes[0].files = {{"../secret.lsr", 1, {}}};
  ASSERT_TRUE(writer_->Close(manifest_).ok());
  const Capture capture = Load();
  EXPECT_TRUE(capture.ranks[0].activities.empty());
  EXPECT_THAT(capture.notes, ::testing::Contains(HasSubstr("outside the folder")));
}

TEST_F(RecordsTest, AFolderWithoutRecordsGivesOneSentence) {
  fs::create_directory(folder_ + "/empty");
  const auto capture = LoadRecords(folder_ + "/empty");
  EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(capture.status().message()), HasSubstr("holds no Lockstep records"));
  EXPECT_EQ(LoadRecords(folder_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(RecordsTest, RefusesToStoreBytesThatAreNotBlocks) {
  const auto end =
      writer_->Append({0, 1}, RankId(0), "garbage that is long enough to hold a whole header, and more");
  EXPECT_EQ(end.status().code(), absl::StatusCode::kInvalidArgument);
  std::string block = Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)});
  EXPECT_EQ(writer_->Append({0, 1}, RankId(0), block.substr(0, block.size() - 1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer_->bytes(), 0u);
}

TEST_F(RecordsTest, AnotherProcessContinuesAtTheGivenEnds) {
  const std::string first = Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)});
  Append(0, first);
  Append(1, first);
  const std::vector<KeptRecords> kept = {{{0, 1}, ends_.at({0, 1})}, {{1, 1}, ends_.at({1, 1})}};
  Append(0, first);     // never acknowledged
  Append(0, first, 2);  // in a file that the journal does not name
  ASSERT_TRUE(writer_->Sync().ok());
  auto next = RecordsWriter::Continue(folder_, kept, {});
  ASSERT_TRUE(next.ok()) << next.status();
  writer_ = *std::move(next);
  Append(0, Block(Kind::kKernel, 1, {Kernel(10, 1, 0, 0), Kernel(20, 1, 0, 0)}));
  Append(0, first, 2);
  Close();
  const Capture capture = Load();
  EXPECT_EQ(capture.ranks[0].activities.size(), 1u + 2u + 1u);
  EXPECT_EQ(capture.ranks[1].activities.size(), 1u);
  EXPECT_EQ(manifest_.processes[0].files[0].rows[static_cast<size_t>(Kind::kKernel)], 3u);
}

TEST_F(RecordsTest, DoesNotContinueAFileThatIsTooShortOrDamaged) {
  Append(0, Block(Kind::kKernel, 1, {Kernel(0, 1, 0, 0)}));
  FileEnd end = ends_.at({0, 1});
  ++end.bytes;
  EXPECT_EQ(RecordsWriter::Continue(folder_, {{{0, 1}, end}}, {}).status().code(),
            absl::StatusCode::kDataLoss);
  end.bytes -= 2;
  EXPECT_EQ(RecordsWriter::Continue(folder_, {{{0, 1}, end}}, {}).status().code(),
            absl::StatusCode::kDataLoss)
      << "half a block";
  end.name = "../../elsewhere";
  EXPECT_EQ(RecordsWriter::Continue(folder_, {{{0, 1}, end}}, {}).status().code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace lockstep::capture
