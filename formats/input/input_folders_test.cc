// Folders of folders: one per rank, as launchers and other tools lay them out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_text.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InputFoldersTest : public InputFilesTest {
 protected:
  std::string WriteTrace(const std::string& name) const {
    return Write(name, Document({KernelRow("1", "1"), KernelRow("3", "1")}));
  }
  static std::vector<int> Ranks(const std::vector<std::string>& paths, std::vector<std::string>* notes) {
    const auto capture = ReadInput(paths, {});
    EXPECT_TRUE(capture.ok()) << capture.status();
    std::vector<int> ranks;
    if (!capture.ok()) return ranks;
    for (const capture::RankData& r : capture->ranks) ranks.push_back(r.rank.value());
    if (notes != nullptr) *notes = capture->notes;
    return ranks;
  }
  std::vector<int> Ranks(std::vector<std::string>* notes = nullptr) const {
    return Ranks({folder_.string()}, notes);
  }
  std::string Sentence() const {
    const auto capture = ReadInput(std::vector<std::string>{folder_.string()}, {});
    EXPECT_FALSE(capture.ok());
    return std::string(capture.status().message());
  }
};

TEST_F(InputFoldersTest, AFolderPerRankGivesTheRank) {
  for (const char* rank : {"0", "1", "10"}) WriteTrace(std::string("rank_") + rank + "/trace.json");
  std::vector<std::string> notes;
  EXPECT_THAT(Ranks(&notes), ElementsAre(0, 1, 10));
  EXPECT_THAT(notes, IsEmpty());
  const auto capture = ReadInput(std::vector<std::string>{folder_.string() + "/"}, {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->id, folder_.filename().string());
}

TEST_F(InputFoldersTest, FilesNamedInFoldersOfRanksHaveTheirRanks) {
  const std::string a = WriteTrace("run_rank7/rank_3/trace.json");
  const std::string b = WriteTrace("run_rank7/rank_12/trace.json");
  EXPECT_THAT(Ranks({a, b}, nullptr), ElementsAre(3, 12));
}

TEST_F(InputFoldersTest, TracesUnderAFolderOfTracesAreFound) {
  WriteTrace("capture_traces/rank_2/n1_77.1700000000000.pt.trace.json");
  WriteTrace("capture_traces/rank_3/n1_78.1700000000001.pt.trace.json");
  Write("settings.json", "{\"batch\": 8}");
  WriteTrace(".cache/rank_9/trace.json");
  std::vector<std::string> notes;
  EXPECT_THAT(Ranks(&notes), ElementsAre(2, 3));
  EXPECT_THAT(notes, ElementsAre(HasSubstr("settings.json is JSON but not a trace")));
}

TEST_F(InputFoldersTest, SpecialFilesAreNamedAndNotOpened) {
  const std::string fifo = (folder_ / "rank_1.json.gz").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((folder_ / "nvprof.csv").c_str(), 0600), 0);
  EXPECT_THAT(Sentence(), HasSubstr("rank_1.json.gz is a FIFO, not a regular file"));
  const auto named = ReadInput(std::vector<std::string>{fifo}, {});
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.status().message(),
            fifo + " is a FIFO, not a regular file; give a file, or /dev/stdin for a pipe");
  fs::create_symlink("nowhere", folder_ / "rank_2.json");
  WriteTrace("rank_0.json");
  std::vector<std::string> notes;
  EXPECT_THAT(Ranks(&notes), ElementsAre(0));
  EXPECT_THAT(notes,
              ElementsAre(HasSubstr("rank_1.json.gz is a FIFO, not a regular file (left out)"),
                          HasSubstr("rank_2.json is a link to a file that does not exist (left out)")));
}

TEST_F(InputFoldersTest, LinksAreFollowedOnce) {
  WriteTrace("job/rank_0/trace.json");
  WriteTrace("elsewhere/trace.json");
  fs::create_directory_symlink(folder_ / "job", folder_ / "job" / "rank_0" / "up");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "job" / "rank_1");
  EXPECT_THAT(Ranks({(folder_ / "job").string()}, nullptr), ElementsAre(0, 1));
}

TEST_F(InputFoldersTest, AFolderWithTracesOfItsOwnIsNotSearchedThrough) {
  WriteTrace("rank0.json");
  WriteTrace("old/rank1.json");
  std::vector<std::string> notes;
  EXPECT_THAT(Ranks(&notes), ElementsAre(0));
  EXPECT_THAT(notes, Contains(AllOf(HasSubstr("the 1 traces in folders inside"), HasSubstr("left out"))));
}

TEST_F(InputFoldersTest, SaysHowDeepItSearches) {
  WriteTrace("1/2/3/4/5/rank0.json");
  EXPECT_THAT(Ranks(), ElementsAre(0));
  fs::remove_all(folder_ / "1");
  WriteTrace("1/2/3/4/5/6/rank0.json");
  EXPECT_THAT(Sentence(), AllOf(HasSubstr("more than 5 levels"), EndsWith("1/2/3/4/5/6")));
}

TEST_F(InputFoldersTest, NamesACaptureInsideInsteadOfReadingIt) {
  fs::create_directories(folder_ / "capture" / "records");
  EXPECT_THAT(Sentence(),
              EndsWith("it holds the capture " + (folder_ / "capture").string() + ": give that folder"));
  WriteTrace("rank_0/trace.json");
  std::vector<std::string> notes;
  EXPECT_THAT(Ranks(&notes), ElementsAre(0));
  EXPECT_THAT(notes, Contains(HasSubstr("capture is a capture (left out)")));
}

}  // namespace
}  // namespace lockstep::formats
