// Captures and databases for the tests of this folder.
#ifndef LOCKSTEP_HISTORY_HISTORY_FIXTURE_H_
#define LOCKSTEP_HISTORY_HISTORY_FIXTURE_H_

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "gtest/gtest.h"
#include "history/database/open_database.h"
#include "history/history_store.h"
#include "history/model.h"

namespace lockstep::history {

// A clock that stands still.
class FixedClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return MonoTime(1); }
  HostTime Realtime() const override { return HostTime(1'700'000'000'000'000'000); }
};

inline JobTime Day(int64_t day) { return JobTime(1'700'000'000'000'000'000) + Nanos::Seconds(86400) * day; }

// A capture of two ranks, with two steps of 20 ms and a straggler on host b.
inline CaptureSummary MakeCapture(const std::string& id, const std::string& job, int64_t day,
                                  double step_ns = 20e6) {
  CaptureSummary made;
  made.head = {.id = id,
               .job = job,
               .job_id = "4711",
               .source = "live",
               .captured = Day(day),
               .added = HostTime(Day(day + 1).ns()),
               .duration = Nanos::Seconds(2),
               .world_size = 2,
               .hosts = 2,
               .steps = 2,
               .partial = true,
               .lost_records = 3,
               .step_ns = step_ns,
               .lost_ns_per_step = 1.5e6,
               .exposed_ns_per_step = 0.25e6,
               .idle_fraction = 0.125,
               .gain_ns_per_step = 1e6,
               .verdict = "STRAGGLER 'rank 1'"};
  made.labels = {{"commit", "abc"}, {"queue", "x'; DROP TABLE captures; --"}};
  made.ranks = {
      {.rank = RankId(0), .host = "a", .device_name = "H100", .compute = Nanos(5)},
      {.rank = RankId(1), .host = "b", .device = 1, .device_uuid = "GPU-1", .gain_ns_per_step = 1e6}};
  made.steps = {{.step = 7,
                 .duration = Nanos(20'000'000),
                 .wait_ns = 0.5,
                 .costliest_rank = RankId(1),
                 .costliest_lost = Nanos(9)},
                {.step = 8, .duration = Nanos(20'000'001), .load_balance = 0.75}};
  made.findings = {{.list = kStragglers,
                    .kind = "rank",
                    .cause = "gpu_clock",
                    .lost_ns_per_step = 1.5e6,
                    .gain_ns_per_step = 1e6,
                    .verdict = "sure",
                    .confidence = 1.0,
                    .since_step = 7,
                    .action = "read clocks",
                    .ranks = {{.rank = RankId(1), .host = "b"}}},
                   {.list = kSharedLosses, .kind = "input", .lost_ns_per_step = 2e6}};
  return made;
}

// A database that is empty. It is an SQLite file, or the server of LOCKSTEP_TEST_DATABASE, which
// tests/e2e/history_test.py starts.
class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() {
    char pattern[] = "/tmp/lk-history-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    const char* server = std::getenv("LOCKSTEP_TEST_DATABASE");
    place_ = server == nullptr ? folder_ + "/history.db" : server;
    on_server_ = server != nullptr;
    if (!on_server_) return;
    auto database = OpenDatabase(place_, Purpose::kWrite);
    EXPECT_TRUE(database.ok()) << database.status();
    if (!database.ok()) return;
    EXPECT_TRUE((*database)->Run("DROP SCHEMA IF EXISTS lockstep CASCADE", {}).ok());
  }
  ~HistoryTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Database> Opened(Purpose purpose = Purpose::kWrite) const {
    auto database = OpenDatabase(place_, purpose);
    EXPECT_TRUE(database.ok()) << database.status();
    return database.ok() ? *std::move(database) : nullptr;
  }
  HistoryStore Store(Purpose purpose = Purpose::kWrite) const {
    return *HistoryStore::Open(Opened(purpose), purpose, FixedClock());
  }

  std::string folder_, place_;
  bool on_server_ = false;
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_HISTORY_FIXTURE_H_
