// Files of profilers that lockstep cannot read lead to an error with the command that makes a readable file.
#include "formats/common/foreign_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/input/input_files_fixture.h"
#include "formats/input/read_input.h"
#include "formats/kineto/kineto_text.h"
#include "formats/nsys/nsys_text.h"

namespace lockstep::formats {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ForeignFilesTest : public InputFilesTest {
 protected:
  static std::string Sentence(const std::string& path) {
    const auto capture = ReadInput(std::vector<std::string>{path}, {});
    EXPECT_FALSE(capture.ok());
    EXPECT_EQ(capture.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(capture.status().message());
  }
  std::string Trace() const {
    return Write("rank0.json",
                 Document({KernelRow("1", "1")}, R"("distributedInfo": {"rank": 0, "world_size": 1}, )"));
  }
  // The tables and columns of nvprof --export-profile that matter here.
  std::string NvprofDatabase(const std::string& name) const {
    return Write(name, SqliteImage("CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value "
                                   "TEXT); CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER "
                                   "PRIMARY KEY AUTOINCREMENT, start INT, end INT, name INT);"));
  }
  std::string NvprofTrace(const std::string& name) const {
    return Write(
        name,
        "==1== Profiling result:\n\"Start\",\"Duration\",\"Device\",\"Name\"\nms,ms,,\n1.0,2.0,\"V100 "
        "(0)\",\"gemm\"\n");
  }
  const std::string report_bytes_ = std::string("\x01\x02\x03report", 9);
};

TEST_F(ForeignFilesTest, AReportOfNsightSystemsNamesItsExport) {
  const std::string path = Write("job.nsys-rep", report_bytes_);
  const std::string sqlite = (folder_ / "job.sqlite").string();
  EXPECT_THAT(Sentence(path),
              AllOf(StartsWith(path + " is a report of Nsight Systems"),
                    EndsWith("nsys export --type sqlite --include-blobs=true -o " + sqlite + " " + path)));
  EXPECT_THAT(Sentence(Write("old.qdrep", report_bytes_)), HasSubstr("old.sqlite"));
  EXPECT_THAT(Sentence(Write("my job.nsys-rep", report_bytes_)), EndsWith("my job.nsys-rep'"));
}

TEST_F(ForeignFilesTest, AnUnfinishedRecordingNamesTheImporter) {
  const std::string path = Write("job.qdstrm", report_bytes_);
  EXPECT_THAT(Sentence(path), AllOf(HasSubstr("QdstrmImporter -i " + path + " && nsys export"),
                                    EndsWith((folder_ / "job.nsys-rep").string())));
}

TEST_F(ForeignFilesTest, AFileThatCannotBeConvertedIsToBeRecordedAgain) {
  const std::string compute = std::string("NVR\0", 4) + report_bytes_;
  EXPECT_THAT(Sentence(Write("renamed.json", compute)),
              HasSubstr("renamed.json is a report of Nsight Compute"));
  EXPECT_THAT(Sentence(Write("k.ncu-rep", "")), HasSubstr("Nsight Compute"));
  EXPECT_THAT(Sentence(Write("a.nvvp", "session")), HasSubstr("Visual Profiler"));
}

TEST_F(ForeignFilesTest, OutputOfNvprofNamesTheCommandThatPrintsATrace) {
  const std::string summary = "==1== Profiling result:\n\"Type\",\"Time(%)\",\"Time\",\"Calls\"\n%,us,,\n";
  EXPECT_THAT(
      Sentence(Write("log.txt", summary)),
      AllOf(HasSubstr("log.txt is output of nvprof without kernels"), HasSubstr("--print-gpu-trace")));
  EXPECT_THAT(Sentence(Write("bare.txt", "\"Start\",\"Duration\",\"Grid X\"\n")),
              HasSubstr("bare.txt line 1"));
  for (const char* name : {"a.nvvp", "a.nvprof", "a.sqlite"}) {
    const std::string path = NvprofDatabase(name);
    EXPECT_THAT(Sentence(path), AllOf(HasSubstr("nvprof --import-profile " + path + " --print-gpu-trace"),
                                      EndsWith((folder_ / "a.csv").string())));
  }
}

TEST_F(ForeignFilesTest, ATraceOfNvprofIsReadAlone) {
  const std::string trace = NvprofTrace("gpu.csv");
  const auto capture = ReadInput(std::vector<std::string>{folder_.string()}, {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  ASSERT_EQ(capture->ranks.size(), 1u);
  EXPECT_EQ(capture->ranks[0].activities.size(), 1u);
  NvprofTrace("gpu2.csv");
  EXPECT_THAT(Sentence(folder_.string()),
              HasSubstr("gpu.csv is output of nvprof, of one process; give it alone"));
  const auto both = ReadInput(std::vector<std::string>{trace, Trace()}, {});
  ASSERT_FALSE(both.ok());
  EXPECT_THAT(std::string(both.status().message()), HasSubstr("give it alone"));
}

TEST_F(ForeignFilesTest, BesideReadableTracesTheyAreLeftOutWithANote) {
  Trace();
  Write("job.nsys-rep", report_bytes_);
  Write("gpu.csv", "==4711== Profiling result:\n");
  Write("table.csv", "step,loss\n1,0.5\n");
  const auto capture = ReadInput(std::vector<std::string>{folder_.string()}, {});
  ASSERT_TRUE(capture.ok()) << capture.status();
  EXPECT_EQ(capture->ranks.size(), 1u);
  EXPECT_THAT(capture->notes, Contains(AllOf(HasSubstr("job.nsys-rep"), EndsWith("(left out)"))));
  EXPECT_THAT(capture->notes, Contains(HasSubstr("gpu.csv is output of nvprof")));
  EXPECT_THAT(capture->notes, Not(Contains(HasSubstr("table.csv"))));
}

TEST_F(ForeignFilesTest, AloneInAFolderTheFirstIsTheError) {
  Write("rank0.nsys-rep", report_bytes_);
  Write("rank1.nsys-rep", report_bytes_);
  Write("settings.json", "{}");
  EXPECT_THAT(Sentence(folder_.string()), AllOf(HasSubstr("rank0.nsys-rep"), HasSubstr("nsys export")));
  std::filesystem::remove(folder_ / "settings.json");
  EXPECT_THAT(Sentence(folder_.string()), EndsWith("(and likewise for 1 more)"));
}

TEST_F(ForeignFilesTest, NamedBesideATraceItIsAnError) {
  const std::string trace = Trace();
  const std::string report = Write("job.nsys-rep", report_bytes_);
  const auto capture = ReadInput(std::vector<std::string>{trace, report}, {});
  ASSERT_FALSE(capture.ok());
  EXPECT_THAT(std::string(capture.status().message()), StartsWith(report));
}

TEST_F(ForeignFilesTest, AReportBesideItsExportIsNotMentioned) {
  Write("rank0.nsys-rep", report_bytes_);
  Write("rank0.sqlite.gz", "");
  EXPECT_THAT(Sentence(folder_.string()), Not(HasSubstr("nsys export")));
}

}  // namespace
}  // namespace lockstep::formats
