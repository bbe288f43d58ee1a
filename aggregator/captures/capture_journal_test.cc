// Tests the journal's file. Its golden file is tests/golden/journal/journal_v1.bin; LOCKSTEP_UPDATE_GOLDEN=1
// writes it again after a change of the format.
#include "aggregator/captures/capture_journal.h"

#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kGolden[] = LOCKSTEP_GOLDEN_DIR "/journal/journal_v1.bin";

class CaptureJournalTest : public ::testing::Test {
 protected:
  CaptureJournalTest() {
    char pattern[] = "/tmp/lockstep-journal-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    fs::create_directory(folder_ + "/records");
  }
  ~CaptureJournalTest() override { fs::remove_all(folder_); }

  static v1::JournalBegin Begin() {
    Selection selection;
    selection.job = "job";
    selection.uid = 1000;
    selection.world_size = 3;
    v1::Rank rank;
    rank.set_rank(0);
    rank.mutable_process()->set_pid(4711);
    rank.mutable_process()->set_start_ticks(7);
    selection.ranks = {{{"node", 9}, "n0", rank}};
    selection.missing_ranks = {1, 2};
    v1::TraceRequest request;
    request.set_job("job");
    request.set_duration_ns(2'000'000'000);
    return MakeJournalBegin("20260301-120000-abcdef", selection, request, JobTime(1'700'000'000'000'000'000));
  }
  static v1::Batch Batch(uint64_t sequence) {
    v1::Batch batch;
    batch.set_sequence(sequence);
    batch.mutable_process()->set_pid(4711);
    batch.set_incarnation(3);
    batch.set_rows(10);
    batch.set_blocks("bytes that the journal does not keep");
    return batch;
  }
  // Adds one entry of each kind.
  static void AddAll(CaptureJournal& journal) {
    const DaemonKey daemon{"node", 9};
    v1::JournalStart start;
    start.mutable_start()->set_t0_ns(100);
    start.mutable_start()->set_t1_ns(200);
    start.set_requested_ns(100);
    start.add_ranks()->set_armed(true);
    v1::Gap gap;
    gap.set_first_sequence(2);
    gap.set_last_sequence(3);
    gap.set_definitions("names");
    v1::TraceFile piece;
    piece.set_sequence(4);
    piece.set_data("12345");
    v1::CaptureEnd end;
    end.set_sequence(5);
    v1::ClockSamples clock;
    clock.add_samples()->set_t1_ns(11);
    EXPECT_TRUE(journal.AddStart(start).ok());
    EXPECT_TRUE(journal.AddBatch(daemon, Batch(1), {"r00000.p00000.0.lsr", 512}).ok());
    EXPECT_TRUE(journal.AddGap(daemon, gap, capture::FileEnd()).ok());
    EXPECT_TRUE(journal.AddPiece(daemon, piece, absl::OkStatus()).ok());
    EXPECT_TRUE(journal.AddEnd(daemon, end).ok());
    EXPECT_TRUE(journal.AddHole("node", 6).ok());
    EXPECT_TRUE(journal.AddClock("node", clock).ok());
    EXPECT_TRUE(journal.AddFailure("the disk is full").ok());
    EXPECT_TRUE(journal.Sync().ok());
  }
  void MakeRecords(size_t bytes) {
    std::ofstream(folder_ + "/records/r00000.p00000.0.lsr") << std::string(bytes, 'x');
  }
  std::string Path() const { return folder_ + "/journal"; }
  std::string Bytes() const {
    std::ifstream file(Path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
};

TEST_F(CaptureJournalTest, ReadsTheGoldenFile) {
  MakeRecords(512);
  AddAll(**CaptureJournal::Create(folder_, {Begin(), {}}));
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) {
    fs::create_directories(fs::path(kGolden).parent_path());
    fs::copy_file(Path(), kGolden, fs::copy_options::overwrite_existing);
  }
  const std::string written = Bytes();
  fs::copy_file(kGolden, Path(), fs::copy_options::overwrite_existing);
  EXPECT_EQ(written, Bytes());
  const auto content = CaptureJournal::Read(folder_);
  ASSERT_TRUE(content.ok()) << content.status();
  const Selection selection = JournaledSelection(content->begin);
  EXPECT_EQ(selection.uid, 1000u);
  EXPECT_EQ(selection.ranks.at(0).daemon.session, 9u);
  EXPECT_EQ(selection.missing_ranks.size(), 2u);
  ASSERT_EQ(content->entries.size(), 8u);
  EXPECT_EQ(content->entries[0].start().start().t1_ns(), 200);
  EXPECT_EQ(content->entries[1].stored().file_bytes(), 512u);
  EXPECT_EQ(content->entries[1].stored().message().batch().blocks(), "");
  EXPECT_EQ(content->entries[2].stored().message().gap().definitions(), "names") << "no file has them";
  EXPECT_EQ(content->entries[3].stored().piece_bytes(), 5u);
  const uint64_t expected[] = {1, 3, 4, 5};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(JournaledSequence(content->entries[i + 1].stored().message()), expected[i]);
  EXPECT_EQ(content->entries[4].stored().file(), "") << "nothing of the entry before";
  EXPECT_EQ(content->entries[7].failure().text(), "the disk is full");
}

// Every prefix of the file is what a killed aggregator may leave.
TEST_F(CaptureJournalTest, ReadsTheWholeEntriesOfATornFile) {
  MakeRecords(512);
  AddAll(**CaptureJournal::Create(folder_, {Begin(), {}}));
  const std::string whole = Bytes();
  size_t most = 0;
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    std::ofstream(Path(), std::ios::binary | std::ios::trunc) << whole.substr(0, bytes);
    const auto content = CaptureJournal::Read(folder_);
    if (!content.ok()) continue;
    EXPECT_GE(content->entries.size(), most);
    most = content->entries.size();
  }
  EXPECT_EQ(most, 8u);
  std::ofstream(Path(), std::ios::binary | std::ios::app) << std::string(4096, '\0');
  EXPECT_EQ(CaptureJournal::Read(folder_)->entries.size(), 8u) << "bytes that never reached the disk";
}

TEST_F(CaptureJournalTest, LeavesOutWhatIsNotOnDisk) {
  MakeRecords(511);
  AddAll(**CaptureJournal::Create(folder_, {Begin(), {}}));
  const auto content = CaptureJournal::Read(folder_);
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(content->entries.size(), 4u) << "start, hole, clock, failure";
}

TEST_F(CaptureJournalTest, RefusesAnotherFormat) {
  const auto journal = CaptureJournal::Create(folder_, {Begin(), {}});
  std::string bytes = Bytes();
  // The field `format` is the first of the message, and the first two bytes are lengths and a tag.
  const size_t at = bytes.find(std::string("\x08\x01", 2));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = 2;
  std::ofstream(Path(), std::ios::binary | std::ios::trunc) << bytes;
  const absl::Status read = CaptureJournal::Read(folder_).status();
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(read.message()), HasSubstr("has format 2, and this release reads format 1"));
}

TEST_F(CaptureJournalTest, AnEntryThatDoesNotFitLeavesTheOthers) {
  const auto journal = CaptureJournal::Create(folder_, {Begin(), {}});
  ASSERT_TRUE((*journal)->AddHole("node", 1).ok());
  rlimit before = {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{Bytes().size() + 3, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &full);
  const absl::Status failed = (*journal)->AddHole("node", 2);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("cannot write"));
  ASSERT_TRUE((*journal)->AddHole("node", 3).ok());
  const auto content = CaptureJournal::Read(folder_);
  ASSERT_EQ(content->entries.size(), 2u);
  EXPECT_EQ(content->entries[1].hole().batches(), 3u);
}

TEST_F(CaptureJournalTest, NoneKeepsNothing) {
  const auto none = CaptureJournal::None();
  EXPECT_TRUE(none->AddHole("node", 1).ok());
  EXPECT_TRUE(none->Sync().ok());
  EXPECT_FALSE(CaptureJournal::Exists(folder_));
}

}  // namespace
}  // namespace lockstep::aggregator
