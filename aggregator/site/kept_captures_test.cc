#include "aggregator/site/kept_captures.h"

#include <unistd.h>

#include "aggregator/site/site_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::aggregator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kKeptId[] = "20260301-120000-0a1b2c";
constexpr char kLater[] = "20260301-130000-0a1b2c";

class KeptCapturesTest : public ::testing::Test {
 protected:
  CapturesFolder folder_;
  Nanos now_;
  // Uses a clock that advances by a millisecond with every reading.
  KeptCaptures kept_{folder_.path(), [this] { return MonoTime((now_ += Nanos::Millis(1)).ns()); }};

  const CaptureRow& Look(const std::string& id) {
    kept_.Refresh({}, Nanos::Seconds(1));
    return kept_.rows().at(id);
  }
  std::string Text(const std::string& id, std::string_view file) {
    const Fd fd = kept_.Open(id, file);
    char text[4096] = "";
    return fd.ok() && ::read(fd.get(), text, sizeof(text) - 1) >= 0 ? text : "not open";
  }
};

TEST_F(KeptCapturesTest, ReadsACaptureFromItsReportAndManifest) {
  folder_.Add(kKeptId);
  const CaptureRow& row = Look(kKeptId);
  EXPECT_EQ(row.state, "done");
  EXPECT_EQ(row.job, "llama-7b");
  EXPECT_EQ(row.uid, 1000u);
  EXPECT_THAT(row.text, StartsWith("STRAGGLER rank 1 (host-a"));
  EXPECT_THAT(row.culprit_ranks, ElementsAre(1));
  EXPECT_EQ(row.cause, "gpu_clock");
  EXPECT_EQ(row.gain_ns_per_step, 9.5e6);
  EXPECT_EQ(row.slowdown_ratio, 1.1);
  EXPECT_EQ(row.duration, Nanos::Seconds(2));
  EXPECT_EQ(row.ranks, 2u);
  EXPECT_EQ(row.records, 1000u);
  EXPECT_EQ(row.lost_records, 25u);
  EXPECT_GT(*row.bytes, 1000u);
  EXPECT_THAT(row.files, ElementsAre("report.html", "report.json", "report.txt"));
  EXPECT_EQ(Text(kKeptId, "report.html"), std::string("<!doctype html>the report of ") + kKeptId);
}

TEST_F(KeptCapturesTest, ReportsIncompleteCaptures) {
  capture::Manifest m = CapturesFolder::SomeManifest(kKeptId);
  m.complete = false;
  folder_.Add(kKeptId);
  folder_.AddManifest(m);
  EXPECT_EQ(Look(kKeptId).state, "partial");

  constexpr char kStepped[] = "20260301-120001-0a1b2c";
  folder_.AddManifest(CapturesFolder::SomeManifest(kStepped));
  folder_.Write(std::string(kStepped) + "/report.json",
                R"({"capture": {"incomplete": [{"rank": 1, "reason": "its host's clock was set back"}]}})");
  EXPECT_EQ(Look(kStepped).state, "partial") << "only the records show it";

  m.id = kLater;
  m.t0 = m.t1 = JobTime();
  m.processes[1].state = "failed";
  m.processes[1].text = "CUPTI is held by nsys";
  folder_.AddManifest(m);
  const CaptureRow& failed = Look(kLater);
  EXPECT_EQ(failed.state, "failed");
  EXPECT_EQ(failed.text, "rank 1 failed: CUPTI is held by nsys");
  EXPECT_EQ(failed.start_unix_ns, std::nullopt);
  EXPECT_THAT(failed.files, IsEmpty());
}

TEST_F(KeptCapturesTest, NamesTheReasonWhyNoReportWasMade) {
  capture::Manifest m = CapturesFolder::SomeManifest(kKeptId);
  m.processes[1].state = "gone";
  m.processes[1].text = "it ended";
  folder_.AddManifest(m);
  folder_.Write(std::string(kKeptId) + "/" + kNoReportFile,
                "the analysis needed more than 2 GiB of memory\n");
  EXPECT_EQ(Look(kKeptId).state, "failed");
  EXPECT_EQ(Look(kKeptId).text,
            "no report was made here, because the analysis needed more than 2 GiB of memory: lockstep report "
            "20260301-120000-0a1b2c makes it from the records");
}

TEST_F(KeptCapturesTest, ReportsDamagedFilesInARow) {
  folder_.Write(std::string(kKeptId) + "/records/manifest.json", "{\"schema\": \"lockstep.records/1\", ");
  folder_.Write(std::string(kKeptId) + "/report.json", "{\"capture\": [}");
  EXPECT_EQ(Look(kKeptId).state, "failed");
  EXPECT_THAT(Look(kKeptId).text, HasSubstr("records/manifest.json cannot be used"));
  EXPECT_EQ(Look(kKeptId).uid, std::nullopt);

  // A report whose members have unexpected types.
  folder_.Write(
      std::string(kLater) + "/report.json",
      R"({"verdict": 7, "capture": {"job": [], "losses": [3, {"records": -4}], "steps": -1, "duration_ns": "x"},
                    "stragglers": [{"ranks": ["a", 2], "cause": null, "gain_ns_per_step": "much"}], "slowdown": []})");
  folder_.AddManifest(CapturesFolder::SomeManifest(kLater));
  const CaptureRow& row = Look(kLater);
  EXPECT_EQ(row.state, "done");
  EXPECT_EQ(row.text, "");
  EXPECT_EQ(row.lost_records, 0u);
  EXPECT_EQ(row.steps, std::nullopt);
  EXPECT_EQ(row.gain_ns_per_step, std::nullopt);
  EXPECT_THAT(row.culprit_ranks, ElementsAre(2)) << "what is no number is no rank";
}

TEST_F(KeptCapturesTest, ReadsARunningCaptureWhenItHasEnded) {
  folder_.Add(kKeptId);
  kept_.Refresh({kKeptId}, Nanos::Seconds(1));
  EXPECT_THAT(kept_.rows(), IsEmpty());
  EXPECT_EQ(Text(kKeptId, "report.html"), "not open");
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_EQ(kept_.rows().size(), 1u);
  std::filesystem::remove_all(folder_.path() + "/" + kKeptId);
  EXPECT_EQ(Text(kKeptId, "report.html"), "not open");
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_THAT(kept_.rows(), IsEmpty());
}

TEST_F(KeptCapturesTest, ReadsInSlicesNewestFirst) {
  for (int i = 0; i < 10; ++i) folder_.Add("20260301-12000" + std::to_string(i) + "-0a1b2c");
  kept_.Refresh({}, Nanos::Millis(3));
  const size_t at_first = kept_.rows().size();
  EXPECT_GT(at_first, 0u);
  EXPECT_LT(at_first, 10u);
  EXPECT_EQ(kept_.unread(), 10 - at_first);
  EXPECT_EQ(kept_.rows().count("20260301-120009-0a1b2c"), 1u);
  kept_.Refresh({}, Nanos());
  EXPECT_EQ(kept_.rows().size(), at_first + 1) << "one at least";
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_EQ(kept_.unread(), 0u);
}

TEST_F(KeptCapturesTest, ListsOnlyFoldersAndServesOnlyFiles) {
  folder_.Add(kKeptId);
  folder_.Write(".hidden/report.json", "{}");
  folder_.Write("a_file", "x");
  std::filesystem::create_directory_symlink(kKeptId, folder_.path() + "/a_link");
  std::filesystem::remove(folder_.path() + "/" + kKeptId + "/report.html");
  std::filesystem::create_symlink("/etc/passwd", folder_.path() + "/" + kKeptId + "/report.html");
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_EQ(kept_.rows().size(), 1u);
  EXPECT_EQ(Text(kKeptId, "report.html"), "not open");
  for (const char* file : {"", "records", "../a_file", "records/manifest.json", "manifest.json"})
    EXPECT_EQ(Text(kKeptId, file), "not open") << file;
  for (const char* id : {"", ".", "..", ".hidden", "a_file", "a_link"})
    EXPECT_EQ(Text(id, "report.json"), "not open") << id;
}

}  // namespace
}  // namespace lockstep::aggregator
