#include "base/metrics/page.h"

#include <cmath>
#include <limits>
#include <string>

#include "base/metrics/process_stats.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/columns/schema.h"
#include "wire/losses/loss_table.h"

namespace lockstep::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Page, MatchesTheExpositionFormat) {
  Page page;
  page.Counter("lockstep_x_total", "Xs.")
      .Count(7, {{"stage", "ring"}, {"kind", "kernel"}})
      .Count(8, {{"stage", "spool"}});
  page.Gauge("lockstep_age_seconds", "Age.").Seconds(Nanos::Millis(1500));
  page.Gauge("lockstep_nothing", "Listed without samples.");
  EXPECT_EQ(page.text(),
            "# HELP lockstep_x_total Xs.\n# TYPE lockstep_x_total counter\n"
            "lockstep_x_total{stage=\"ring\",kind=\"kernel\"} 7\nlockstep_x_total{stage=\"spool\"} 8\n"
            "# HELP lockstep_age_seconds Age.\n# TYPE lockstep_age_seconds gauge\nlockstep_age_seconds 1.5\n"
            "# HELP lockstep_nothing Listed without samples.\n# TYPE lockstep_nothing gauge\n");
}

TEST(Page, EscapesLineBreaksAndQuotes) {
  Page page;
  page.Gauge("g", "a\\b\n\"c\"").Count(1, {{"l", "a\\b\n\"c\""}});
  EXPECT_EQ(page.text(), "# HELP g a\\\\b\\n\"c\"\n# TYPE g gauge\ng{l=\"a\\\\b\\n\\\"c\\\"\"} 1\n");
}

TEST(Page, InvalidUtf8InLabelsKeepsThePageValid) {
  const auto value = [](std::string_view label) {
    Page page;
    page.Gauge("g", "").Count(1, {{"l", label}});
    const size_t from = page.text().rfind("{l=\"") + 4;
    return page.text().substr(from, page.text().rfind('"') - from);
  };
  EXPECT_EQ(value("Zürich 東京 😀"), "Zürich 東京 😀");
  EXPECT_EQ(value("a\xFF"
                  "b\xC3-\x80z"),
            "a?b?-?z");
  EXPECT_EQ(value("\xC0\xAF \xED\xA0\x80 \xF4\x90\x80\x80 \xE6\x9D"), "?? ??? ???? ??")
      << "too long, surrogate, too far, cut off";
}

TEST(Page, SecondsAreExact) {
  const auto text = [](Nanos t) {
    Page page;
    page.Gauge("g", "").Seconds(t);
    return page.text().substr(page.text().rfind(' ') + 1);
  };
  EXPECT_EQ(text(Nanos()), "0\n");
  EXPECT_EQ(text(Nanos(1)), "0.000000001\n");
  EXPECT_EQ(text(Nanos(-1'500'000'000)), "-1.5\n");
  EXPECT_EQ(text(Nanos(1'790'000'000'123'456'789)), "1790000000.123456789\n");
  EXPECT_EQ(text(Nanos(std::numeric_limits<int64_t>::min())), "-9223372036.854775808\n");
}

TEST(Page, NumbersKeepTheirDigits) {
  Page page;
  page.Gauge("g", "")
      .Number(0.1)
      .Number(1.1503)
      .Number(std::nan(""))
      .Number(-INFINITY)
      .Count(std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(page.text(), HasSubstr("g 0.1\ng 1.1503\ng NaN\ng -Inf\ng 18446744073709551615\n"));
}

TEST(Page, HistogramBucketsAreCumulative) {
  DurationHistogram histogram;
  for (const int ms : {50, 100, 101, 2000, 700'000}) histogram.Observe(Nanos::Millis(ms));
  Page page;
  page.Histogram("h_seconds", "H.", histogram);
  EXPECT_THAT(
      page.text(),
      HasSubstr("# TYPE h_seconds histogram\nh_seconds_bucket{le=\"0.1\"} 2\nh_seconds_bucket{le=\"0.3\"} 3\n"
                "h_seconds_bucket{le=\"1\"} 3\nh_seconds_bucket{le=\"3\"} 4\n"));
  EXPECT_THAT(page.text(), HasSubstr("h_seconds_bucket{le=\"600\"} 4\nh_seconds_bucket{le=\"+Inf\"} "
                                     "5\nh_seconds_sum 702.251\nh_seconds_count 5\n"));
}

TEST(LossTable, ShowsAllKnownStagesAndKindsOnly) {
  losses::LossTable losses({"ring", "spool", "other"});
  losses.Add("ring", static_cast<uint32_t>(columns::Kind::kKernel), 3);
  losses.Add("ring", static_cast<uint32_t>(columns::Kind::kKernel), 4);
  losses.Add("spool", 4'000'000'000u, 5);
  losses.Add("made up\n", 0, 6);
  Page page;
  losses.Write(page.Counter("lost_total", ""));
  EXPECT_THAT(page.text(), HasSubstr("{stage=\"ring\",kind=\"kernel\"} 7\n"));
  EXPECT_THAT(page.text(), HasSubstr("{stage=\"spool\",kind=\"unknown\"} 5\n"));
  EXPECT_THAT(page.text(), HasSubstr("{stage=\"other\",kind=\"unknown\"} 6\n"));
  EXPECT_THAT(page.text(), HasSubstr("{stage=\"spool\",kind=\"memcpy\"} 0\n"));
  EXPECT_THAT(page.text(), Not(HasSubstr("made")));
}

TEST(ProcessStats, DescribeThisProcess) {
  Page page;
  AddProcessStats("/proc", page);
  for (const char* family : {"cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes",
                             "start_time_seconds", "open_fds", "max_fds"}) {
    EXPECT_THAT(page.text(), HasSubstr(std::string("\nprocess_") + family + " ")) << page.text();
  }
  Page none;
  AddProcessStats("/nonexistent", none);
  EXPECT_THAT(none.text(), Not(HasSubstr("\nprocess_cpu")));
  EXPECT_THAT(none.text(), HasSubstr("# TYPE process_cpu_seconds_total counter\n"));
}

}  // namespace
}  // namespace lockstep::metrics
