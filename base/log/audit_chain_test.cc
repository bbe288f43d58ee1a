#include "base/log/audit_chain.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"
#include "base/log/audit_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class AuditChainTest : public ::testing::Test {
 protected:
  AuditChainTest() {
    char pattern[] = "/tmp/lockstep-chain-XXXXXX";
    folder_ = mkdtemp(pattern);
    path_ = folder_ + "/audit";
  }
  ~AuditChainTest() override { std::filesystem::remove_all(folder_); }

  // Writes lines in a run of a program.
  void Run(uint64_t session, int lines) {
    AuditLog log({.program = "p", .session = session, .user_name = {}}, *LineFile::Open(path_), clock_);
    for (int i = 0; i < lines; ++i)
      log.Note("stop", {"kernel", 1, ""}, "ok", {{"capture", "\",\"prev\":\"x"}});
  }
  std::vector<std::string> Lines() const { return absl::StrSplit(*FileText(path_), '\n', absl::SkipEmpty()); }
  static std::vector<AuditFault> Faults(const std::vector<std::string>& lines) {
    return AuditChain().Add(absl::StrJoin(lines, "\n") + "\n");
  }

  std::string folder_, path_;
  SystemClock clock_;
};

TEST_F(AuditChainTest, ALogOfProgramsHasNoFault) {
  Run(1, 3);
  Run(2, 2);
  AuditChain chain;
  EXPECT_TRUE(chain.Add(*FileText(path_)).empty());
  EXPECT_EQ(chain.lines(), 5u);
  EXPECT_EQ(chain.runs(), 2u);
  EXPECT_EQ(chain.head().size(), 64u);
}

TEST_F(AuditChainTest, EveryChangeButOneAtTheEndIsAFault) {
  Run(1, 3);
  Run(2, 3);
  const std::vector<std::string> good = Lines();
  ASSERT_EQ(good.size(), 6u);
  for (size_t i = 0; i + 1 < good.size(); ++i) {
    std::vector<std::string> altered = good;
    altered[i].replace(altered[i].find("stop"), 4, "spot");
    EXPECT_EQ(Faults(altered).size(), 1u) << "line " << i << " altered";
    std::vector<std::string> removed = good;
    removed.erase(removed.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_EQ(Faults(removed).size(), i == 0 ? 0u : 1u) << "line " << i << " removed";
    std::vector<std::string> swapped = good;
    std::swap(swapped[i], swapped[i + 1]);
    EXPECT_FALSE(Faults(swapped).empty()) << "lines " << i << " and the next swapped";
    std::vector<std::string> doubled = good;
    doubled.insert(doubled.begin() + static_cast<ptrdiff_t>(i), good[i]);
    EXPECT_FALSE(Faults(doubled).empty()) << "line " << i << " twice";
  }
  EXPECT_THAT(Faults({good[0], good[2]})[0].text, HasSubstr("the line before it was changed or removed"));
}

TEST_F(AuditChainTest, AnInsertedLineIsAFault) {
  Run(1, 2);
  std::vector<std::string> lines = Lines();
  lines.insert(lines.begin() + 1, "{\"v\":1,\"id\":\"01-9\",\"what\":\"stop\"}");
  const std::vector<AuditFault> faults = Faults(lines);
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].line, 2u);
  EXPECT_THAT(faults[0].text, HasSubstr("no place in the chain"));
}

TEST_F(AuditChainTest, TheHeadShowsARemovedEnd) {
  Run(1, 3);
  AuditChain whole;
  ASSERT_TRUE(whole.Add(*FileText(path_)).empty());
  std::vector<std::string> lines = Lines();
  lines.pop_back();
  AuditChain cut;
  EXPECT_TRUE(cut.Add(absl::StrJoin(lines, "\n")).empty());
  EXPECT_FALSE(cut.Has(whole.head()));
  EXPECT_TRUE(whole.Has(cut.head()));
}

TEST_F(AuditChainTest, ContinuesInARotatedFile) {
  AuditChain chain;
  {
    AuditLog log({.program = "p", .session = 7, .user_name = {}}, *LineFile::Open(path_), clock_);
    log.Note("stop", {}, "ok", {});
    std::filesystem::rename(path_, path_ + ".1");
    log.Note("stop", {}, "ok", {});
  }
  EXPECT_TRUE(chain.Add(*FileText(path_ + ".1")).empty());
  EXPECT_TRUE(chain.Add(*FileText(path_)).empty());
  EXPECT_EQ(chain.lines(), 2u);
  EXPECT_TRUE(AuditChain().Add(*FileText(path_)).empty());  // the first file that is given may begin anywhere
}

TEST_F(AuditChainTest, CountsLinesThatAFullDiskCutOff) {
  Run(1, 1);
  std::ofstream(path_, std::ios::app) << "{\"v\":1,\"ti\n";
  Run(2, 1);
  AuditChain chain;
  // The second run began after the torn line.
  EXPECT_TRUE(chain.Add(*FileText(path_)).empty());
  EXPECT_EQ(chain.torn(), 1u);
}

}  // namespace
}  // namespace lockstep
