#include "cli/top/top_json.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "cli/top/top_fixture.h"
#include "gtest/gtest.h"
#include "tests/support/schema_check.h"

namespace lockstep::cli {
namespace {

TEST(TopJson, WritesEveryKindOfLine) {
  TopModel model;
  std::string made;
  v1::WatchEvent unknown = SampleOf(1, Health::kHealthy);
  v1::Sample& sample = *unknown.mutable_sample();
  sample.clear_step_ns();
  sample.clear_last_step();
  sample.clear_clock_bound_ns();
  sample.mutable_ranks(0)->clear_lost_ns_per_step();
  v1::WatchEvent ended;
  ended.mutable_ended()->set_samples(2);
  for (const v1::WatchEvent& event :
       {PaceOf(2), unknown, NoticeOfHang(), PauseOf(kFirstBegin + 9 * kSecond), NoticeOfRank5(),
        SampleOf(2, Health::kRank5Slow), v1::WatchEvent(), ended}) {
    model.Add(event);
    made += TopToJson(model, event);
  }
  const std::string path = absl::StrCat(LOCKSTEP_GOLDEN_DIR, "/top/top_v1.jsonl");
  const std::string golden = FileText(path).value_or("");
  if (golden != made) std::ofstream(path + ".actual", std::ios::binary) << made;
  EXPECT_EQ(golden, made) << path;
  EXPECT_EQ(std::count(made.begin(), made.end(), '\n'), 4)
      << "none for the pace, the notices, and an event of a newer aggregator";
  tests::CheckSchema("top", made, /*lines=*/true);
}

}  // namespace
}  // namespace lockstep::cli
