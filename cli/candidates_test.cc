#include "cli/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_split.h"
#include "cli/common/command.h"
#include "views/catalog/views.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<settings::CommandHelp> AllOptions() {
  CLI::App app("About.", "lockstep");
  Chosen chosen;
  AddRun(app, chosen);
  AddTrace(app, chosen);
  AddReport(app, chosen);
  AddExport(app, chosen);
  AddViews(app, chosen);
  AddDiff(app, chosen);
  AddProfile(app, chosen);
  AddCompletion(app, chosen);
  AddComplete(app, chosen);
  AddMan(app, chosen);
  return settings::OptionTable(app);
}

// The program's columns, with two captures and a job of which the test knows.
CandidateSources SourcesForTest() {
  CandidateSources sources = ProgramSources();
  sources.captures = [](const std::string&) {
    return std::vector<Candidate>{{"lockstep-a", ""}, {"lockstep-b", ""}};
  };
  sources.jobs = [](const ValueOfOption& option) {
    return std::vector<Candidate>{{"job-of-" + option("--daemon"), ""}};
  };
  return sources;
}

Candidates Complete(const std::vector<std::string>& words) {
  return CandidatesFor(AllOptions(), words, SourcesForTest());
}

std::vector<std::string> Words(const std::vector<std::string>& words) {
  std::vector<std::string> texts;
  for (const Candidate& candidate : Complete(words).found) texts.push_back(candidate.text);
  return texts;
}

TEST(Candidates, AreCommandsThenOptionsAndTheirValues) {
  EXPECT_THAT(Words({"tr"}), ElementsAre("trace"));
  EXPECT_THAT(Words({"compl"}), ElementsAre("completion")) << "complete is hidden";
  EXPECT_THAT(Words({"trace", "--start-on-s"}), ElementsAre("--start-on-step"));
  EXPECT_THAT(Words({"trace", "--via", ""}), ElementsAre("auto", "cupti", "kineto"));
  EXPECT_THAT(Words({"trace", "--via=k"}), ElementsAre("--via=kineto"));
  EXPECT_THAT(Words({"trace", "--via", "=", "k"}), ElementsAre("--via=kineto")) << "as bash splits it";
  EXPECT_THAT(Words({"report", "x", "--format", ""}), ElementsAre("text", "json", "html"));
  EXPECT_THAT(Words({"export", "x", "--format", "p"}), ElementsAre("perfetto", "parquet"));
  EXPECT_THAT(Words({"diff", "--by", ""}), ElementsAre("kernel", "operator", "collective", "step"));
  EXPECT_THAT(Words({"memory", "x", "--table", "c"}), ElementsAre("curve"));
  EXPECT_THAT(Words({"overview", "x", "--method", "t"}), ElementsAre("tb"));
  EXPECT_THAT(Words({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Words({"man", "di"}), ElementsAre("distributed", "diff"));
  EXPECT_THAT(Words({"nonsense", ""}), IsEmpty());
}

TEST(Candidates, CompleteTheLastItemOfAList) {
  EXPECT_THAT(Words({"trace", "--formats", "kineto,"}),
              ElementsAre("kineto,perfetto", "kineto,nsys-sqlite", "kineto,scenario", "kineto,otf2",
                          "kineto,csv", "kineto,parquet", "kineto,none"))
      << "without the item that is there";
  EXPECT_THAT(Words({"trace", "--activities", "kernel,nccl-p"}), ElementsAre("kernel,nccl-proxy"));
  EXPECT_THAT(Words({"ops", "x", "--group-by", "rank,s"}), ElementsAre("rank,shape", "rank,stack"));
  EXPECT_THAT(Words({"kernels", "-c", "name,reg"}), ElementsAre("name,registers"));
}

TEST(Candidates, AreTheColumnsOfTheChosenTable) {
  EXPECT_THAT(Words({"ops", "x", "--sort-by", "self_device_f"}), ElementsAre("self_device_fraction"));
  EXPECT_THAT(Words({"ops", "x", "--table", "sequences", "--sort-by", ""}),
              AllOf(Contains("pieces"), Not(Contains("self_device_ns"))));
  EXPECT_THAT(Words({"ops", "x", "--table=sequences", "--where", "pi"}), ElementsAre("pieces="));
  EXPECT_THAT(Words({"diff", "--sort-by", "diff"}), ElementsAre("difference_ns"));
  EXPECT_THAT(Words({"profile", "--sort-by", "slow"}), ElementsAre("slowest_rank"));
}

TEST(Candidates, HaveTheColumnsOfEveryViewWithTheirMeaning) {
  for (const views::View& view : views::Views()) {
    std::vector<views::SubTable> tables(view.tables.begin(), view.tables.end());
    if (tables.empty()) tables.push_back({.name = "", .about = "", .columns = view.columns});
    for (const views::SubTable& table : tables) {
      const std::string name(table.name), command(view.name);
      const std::vector<std::string> shown = absl::StrSplit(std::string(table.columns), ',');
      EXPECT_THAT(Words({command, "x", "--table", name, "-c", ""}), IsSupersetOf(shown)) << command << name;
    }
    for (const Candidate& column : Complete({std::string(view.name), "-c", ""}).found)
      EXPECT_FALSE(column.about.empty()) << column.text;
  }
}

TEST(Candidates, AreCapturesElseFiles) {
  EXPECT_THAT(Words({"report", ""}), ElementsAre("lockstep-a", "lockstep-b"));
  EXPECT_EQ(Complete({"report", ""}).more, Candidates::More::kNothing);
  EXPECT_THAT(Words({"diff", "lockstep-a", "--by", "step", "lockstep-b"}), ElementsAre("lockstep-b"));
  EXPECT_EQ(Complete({"report", "tr"}).more, Candidates::More::kFiles);
  EXPECT_EQ(Complete({"report", "x", "-o", ""}).more, Candidates::More::kFiles);
  EXPECT_EQ(Complete({"trace", "--token-file", ""}).more, Candidates::More::kFiles);
}

TEST(Candidates, AreTheJobsOfTheNamedDaemon) {
  EXPECT_THAT(Words({"trace", "--daemon", "d.sock", "--job", ""}), ElementsAre("job-of-d.sock"));
  EXPECT_THAT(Words({"trace", "--ranks", ""}), IsEmpty());
  EXPECT_EQ(Complete({"trace", "--ranks", ""}).more, Candidates::More::kNothing) << "a number is not a file";
}

TEST(Candidates, LeaveTheUsersCommandToTheShell) {
  EXPECT_THAT(Words({"run", "--mode", "n"}), ElementsAre("nccl"));
  EXPECT_EQ(Complete({"run", "--", ""}).more, Candidates::More::kPrograms);
  EXPECT_EQ(Complete({"run", "--", "python", "--via"}).more, Candidates::More::kFiles);
  EXPECT_THAT(Complete({"run", "--", "python", "--via", ""}).found, IsEmpty());
}

TEST(Candidates, AreLinesWithTheirMeaning) {
  EXPECT_EQ(CandidateLines({{{"a", "first\nsecond"}, {"b", ""}}, Candidates::More::kNothing}),
            "a\tfirst\nb\n");
  EXPECT_EQ(CandidateLines({{}, Candidates::More::kFiles}), ":files\n");
  EXPECT_EQ(CandidateLines({{}, Candidates::More::kPrograms}), ":programs\n");
}

}  // namespace
}  // namespace lockstep::cli
