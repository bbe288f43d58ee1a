#include "aggregator/site/index.h"

#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "tests/support/schema_check.h"

namespace lockstep::aggregator {
namespace {

const std::string kSource = LOCKSTEP_SOURCE_DIR;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// An index with one row of each kind.
Index Everything() {
  Index index;
  index.program = "lockstep-aggregator 1.2.3";
  index.listen = {"127.0.0.1:7077", "unix:/run/lockstep/aggregator.sock"};
  index.daemons = 2;
  index.unread = 3;
  index.jobs.push_back({"train \"big\" \xff",
                        1000,
                        8,
                        8,
                        {"host-a", "host-b"},
                        "running",
                        JobTime(1'700'000'000'000'000'001)});
  index.jobs.back().step = Nanos::Millis(85);
  index.jobs.back().trend = {Nanos::Millis(73), Nanos::Millis(85)};
  index.jobs.back().slow_ranks = {RankId(3)};
  index.jobs.back().alarm = "slower";
  index.jobs.back().alarm_text = "rank 3 (host-a) takes 12.1 ms longer per step since step 1204";
  index.jobs.back().window = Nanos::Seconds(1);
  index.jobs.back().period = Nanos::Seconds(60);
  index.jobs.push_back({"alone", 0, 0, std::nullopt, {}, "gone", JobTime(1'600'000'000'000'000'000)});
  CaptureRow running;
  running.id = "20260301-130000-0a1b2c";
  running.job = "train";
  running.uid = 1000;
  running.state = "capturing";
  running.text = "8 recording";
  running.records = 12;
  index.captures.push_back(running);
  CaptureRow done = running;
  done.id = "20260301-120000-0a1b2c";
  done.state = "done";
  done.text = "STRAGGLER rank 3 (host-a GPU 3): gpu_clock, sure. Fixing it gains 14.9 ms (13%) per step";
  done.start_unix_ns = 1'700'000'000'000'000'000;
  done.duration = Nanos::Seconds(2);
  done.world_size = done.ranks = 8;
  done.hosts = 2;
  done.steps = 15;
  done.missing_ranks = 0;
  done.lost_records = 7;
  done.bytes = 123456789;
  done.culprit_ranks = {3, 4};
  done.cause = "gpu_clock";
  done.verdict = "sure";
  done.gain_ns_per_step = 14.9e6;
  done.slowdown_ratio = 1.15;
  done.files = {"report.html", "report.json", "report.txt"};
  index.captures.push_back(done);
  CaptureRow failed;
  failed.id = "20260301-110000-0a1b2c";
  failed.state = "failed";
  failed.text = "no rank began to record";
  index.captures.push_back(failed);
  return index;
}

// Compares with the bytes written when the format was defined. On a difference the test writes
// index_v1.json.actual.
TEST(IndexTest, EqualsTheGoldenFile) {
  const std::string path = kSource + "/tests/golden/index/index_v1.json", actual = IndexToJson(Everything());
  if (ReadFile(path) == actual) return;
  std::ofstream("index_v1.json.actual", std::ios::binary) << actual;
  ADD_FAILURE() << "differs from " << path << "; what came out is in ./index_v1.json.actual";
}

TEST(IndexTest, MatchesItsSchema) {
  tests::CheckSchema("index", IndexToJson(Everything()));
  tests::CheckSchema("index", IndexToJson({}));
}

}  // namespace
}  // namespace lockstep::aggregator
