#include "aggregator/site/kept_captures.h"

#include <unistd.h>

#include "aggregator/site/site_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::site {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kId[] = "20260301-120000-0a1b2c";
constexpr char kLater[] = "20260301-130000-0a1b2c";

class KeptCapturesTest : public ::testing::Test {
 protected:
  CapturesFolder folder_;
  Nanos now_;
  // By a clock on which every look takes a millisecond.
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

TEST_F(KeptCapturesTest, ACaptureIsWhatItsReportAndItsManifestSay) {
  folder_.Add(kId);
  const CaptureRow& row = Look(kId);
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
  EXPECT_EQ(Text(kId, "report.html"), std::string("<!doctype html>the report of ") + kId);
}

TEST_F(KeptCapturesTest, WhatIsNotWholeSaysSo) {
  store::Manifest m = CapturesFolder::SomeManifest(kId);
  m.complete = false;
  folder_.Add(kId);
  folder_.AddManifest(m);
  EXPECT_EQ(Look(kId).state, "partial");

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

TEST_F(KeptCapturesTest, DamagedFilesAreARowThatSaysSo) {
  folder_.Write(std::string(kId) + "/records/manifest.json", "{\"schema\": \"lockstep.records/1\", ");
  folder_.Write(std::string(kId) + "/report.json", "{\"capture\": [}");
  EXPECT_EQ(Look(kId).state, "failed");
  EXPECT_THAT(Look(kId).text, HasSubstr("records/manifest.json cannot be used"));
  EXPECT_EQ(Look(kId).uid, std::nullopt);

  // A report whose members are of other types than ours.
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

TEST_F(KeptCapturesTest, OneThatRunsIsLeftAloneAndReadWhenItHasEnded) {
  folder_.Add(kId);
  kept_.Refresh({kId}, Nanos::Seconds(1));
  EXPECT_THAT(kept_.rows(), IsEmpty());
  EXPECT_EQ(Text(kId, "report.html"), "not open");
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_EQ(kept_.rows().size(), 1u);
  std::filesystem::remove_all(folder_.path() + "/" + kId);
  EXPECT_EQ(Text(kId, "report.html"), "not open");
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_THAT(kept_.rows(), IsEmpty());
}

TEST_F(KeptCapturesTest, ReadingTakesItsTimeNewestFirst) {
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

TEST_F(KeptCapturesTest, OnlyFoldersAreCapturesAndOnlyFilesAreServed) {
  folder_.Add(kId);
  folder_.Write(".hidden/report.json", "{}");
  folder_.Write("a_file", "x");
  std::filesystem::create_directory_symlink(kId, folder_.path() + "/a_link");
  std::filesystem::remove(folder_.path() + "/" + kId + "/report.html");
  std::filesystem::create_symlink("/etc/passwd", folder_.path() + "/" + kId + "/report.html");
  kept_.Refresh({}, Nanos::Seconds(1));
  EXPECT_EQ(kept_.rows().size(), 1u);
  EXPECT_EQ(Text(kId, "report.html"), "not open");
  for (const char* file : {"", "records", "../a_file", "records/manifest.json", "manifest.json"})
    EXPECT_EQ(Text(kId, file), "not open") << file;
  for (const char* id : {"", ".", "..", ".hidden", "a_file", "a_link"})
    EXPECT_EQ(Text(id, "report.json"), "not open") << id;
}

}  // namespace
}  // namespace lockstep::site
