// Tests the analysis in real child processes of lockstep-aggregator.
#include "aggregator/reports/child_analyst.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "aggregator/reports/local_analyst.h"
#include "aggregator/reports/stored_capture_fixture.h"
#include "aggregator/server.h"
#include "base/files/read_files.h"
#include "base/read_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

std::vector<std::string> Job() {
  std::vector<std::string> batches;
  for (uint32_t rank = 0; rank < kRanks; ++rank) batches.push_back(Batch(rank));
  return batches;
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// The children of this process that analyse that capture.
std::vector<pid_t> ChildrenOf(const std::string& id) {
  std::vector<pid_t> out;
  for (const fs::directory_entry& entry : FolderEntries("/proc")) {
    const std::string name = entry.path().filename().string();
    const std::string words = FileText(entry.path().string() + "/cmdline").value_or("");
    if (words.find(std::string("\0analysis-child\0", 16) + id) != std::string::npos)
      out.push_back(static_cast<pid_t>(std::atoi(name.c_str())));
  }
  return out;
}

class ChildAnalystTest : public ::testing::Test {
 protected:
  StoredCapture Store(const std::string& id, uid_t owner, const std::vector<std::string>& batches) const {
    StoreCapture(folder_.path() + "/" + id, batches);
    return {folder_.path() + "/" + id, owner};
  }
  ChildAnalyst& analyst() {
    if (!analyst_) analyst_.emplace(options_);
    return *analyst_;
  }
  // The names in the capture's folder.
  static std::vector<std::string> Files(const StoredCapture& capture) {
    std::vector<std::string> out;
    for (const fs::directory_entry& entry : FolderEntries(capture.folder))
      out.push_back(entry.path().filename().string());
    return out;
  }

  TestFolder folder_;
  ChildAnalystOptions options_ = {LOCKSTEP_AGGREGATOR_PROGRAM, kProgramVersion, {}, &LogNothing};
  std::optional<ChildAnalyst> analyst_;
};

TEST_F(ChildAnalystTest, WritesTheSameBytesAsThisProcess) {
  const StoredCapture in_child = Store("child", 1, Job());
  fs::create_directory(folder_.path() + "/here");
  fs::copy(in_child.folder, folder_.path() + "/here/child", fs::copy_options::recursive);
  const StoredCapture in_this = {folder_.path() + "/here/child", 1};
  const absl::StatusOr<ReportFacts> facts = analyst().Report(in_child, WritesPage::kYes);
  ASSERT_TRUE(facts.ok()) << facts.status();
  const absl::StatusOr<ReportFacts> expected = LocalAnalyst().Report(in_this, WritesPage::kYes);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* name : {"/report.json", "/report.txt", "/report.html"}) {
    const std::optional<std::string> bytes = FileText(in_child.folder + name);
    ASSERT_TRUE(bytes.has_value()) << name;
    EXPECT_TRUE(bytes == FileText(in_this.folder + name)) << name;
  }
  EXPECT_EQ(facts->step_ns, expected->step_ns);
  EXPECT_EQ(facts->stragglers, expected->stragglers);
  EXPECT_EQ(facts->incomplete.size(), expected->incomplete.size());
  EXPECT_THAT(Files(in_child), UnorderedElementsAre("records", "report.json", "report.txt", "report.html"));
}

TEST_F(ChildAnalystTest, SamplesLikeThisProcess) {
  const StoredCapture capture = Store("sample", 1, Job());
  const absl::StatusOr<Summary> sample = analyst().Sample(capture);
  ASSERT_TRUE(sample.ok()) << sample.status();
  const absl::StatusOr<Summary> expected = LocalAnalyst().Sample(capture);
  EXPECT_EQ(sample->sample.SerializeAsString(), expected->sample.SerializeAsString());
  EXPECT_EQ(sample->steps.whole, expected->steps.whole);
  EXPECT_EQ(sample->steps.length_ns, expected->steps.length_ns);
}

TEST_F(ChildAnalystTest, RefusesTooManyRowsByName) {
  options_.limits.rows = 1'000'000;
  const StoredCapture bomb = Store("bomb", 1, {Batch(0), RowBomb(100)});
  const MonoTime begun = ReadMonotonic();
  const absl::Status refused = analyst().Report(bomb, WritesPage::kYes).status();
  EXPECT_LT((ReadMonotonic() - begun).seconds(), 5);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(refused),
              AllOf(HasSubstr("the analysis of capture bomb failed: the capture has "),
                    HasSubstr("6553600 of them of rank 1"), HasSubstr("(--analysis-rows)")));
  EXPECT_THAT(Files(bomb), UnorderedElementsAre("records"));
}

TEST_F(ChildAnalystTest, ABombWithinTheRowsEndsAtTheMemoryLimit) {
  options_.limits.memory_bytes = 256 << 20;
  const StoredCapture bomb = Store("bomb", 1, {RowBomb(100)});
  const StoredCapture healthy = Store("healthy", 2, Job());
  auto refused = std::async(std::launch::async, [&] { return analyst().Report(bomb, WritesPage::kNo); });
  EXPECT_TRUE(analyst().Report(healthy, WritesPage::kYes).ok());
  EXPECT_EQ(Message(refused.get().status()),
            "the analysis of capture bomb needed more than 256 MiB of memory (--analysis-memory)");
  rusage children = {};
  ::getrusage(RUSAGE_CHILDREN, &children);
  EXPECT_LT(children.ru_maxrss, 400 << 10) << "KiB";
}

TEST_F(ChildAnalystTest, TheTimeIsLimited) {
  options_.limits.time = Nanos::Millis(300);
  const StoredCapture bomb = Store("bomb", 1, {RowBomb(60)});
  const absl::Status late = analyst().Report(bomb, WritesPage::kNo).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Message(late), "the analysis of capture bomb needed more than 0.3 s (--analysis-time)");
  EXPECT_THAT(ChildrenOf("bomb"), IsEmpty());
}

TEST_F(ChildAnalystTest, AKilledChildFailsOnlyItsCapture) {
  const StoredCapture killed = Store("killed", 1, {RowBomb(60)});
  const StoredCapture healthy = Store("healthy", 2, Job());
  auto failed = std::async(std::launch::async, [&] { return analyst().Report(killed, WritesPage::kNo); });
  std::vector<pid_t> children;
  while (children.empty()) children = ChildrenOf("killed");
  ASSERT_EQ(children.size(), 1u);
  ::kill(children[0], SIGKILL);
  EXPECT_THAT(Message(failed.get().status()), HasSubstr("the analysis of capture killed was killed"));
  EXPECT_THAT(Files(killed), UnorderedElementsAre("records"));
  EXPECT_TRUE(analyst().Report(healthy, WritesPage::kNo).ok());
}

TEST_F(ChildAnalystTest, ShutdownEndsTheChildren) {
  const StoredCapture long_one = Store("long", 1, {RowBomb(60)});
  auto failed = std::async(std::launch::async, [&] { return analyst().Report(long_one, WritesPage::kNo); });
  while (ChildrenOf("long").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  analyst().Shutdown();
  EXPECT_EQ(failed.get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(analyst().Sample(long_one).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ChildAnalystTest, RefusesAChildOfAnotherVersion) {
  options_.version = "lockstep-aggregator 0.0.1";
  const absl::Status refused = analyst().Report(Store("c", 1, Job()), WritesPage::kNo).status();
  EXPECT_THAT(Message(refused), HasSubstr("restart lockstep-aggregator"));
}

TEST_F(ChildAnalystTest, NamesAProgramThatCannotStart) {
  options_.program = "/no/such/program";
  const absl::Status failed = analyst().Report(Store("c", 1, Job()), WritesPage::kNo).status();
  EXPECT_THAT(Message(failed), HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace lockstep::aggregator
