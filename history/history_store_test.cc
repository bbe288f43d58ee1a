#include "history/history_store.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "history/history_fixture.h"
#include "history/row_values.h"

namespace lockstep::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> Ids(const std::vector<CaptureHead>& heads) {
  std::vector<std::string> ids;
  for (const CaptureHead& head : heads) ids.push_back(head.id);
  return ids;
}

class HistoryStoreTest : public HistoryTest {};

TEST_F(HistoryStoreTest, ReadsBackEveryColumn) {
  HistoryStore store = Store();
  const CaptureSummary made = MakeCapture("c1", "llama", 1);
  ASSERT_EQ(*store.Add(made), Added::kNew);
  const auto read = store.Capture("c1");
  ASSERT_TRUE(read.ok()) << read.status();
  const std::vector<TableRows> wanted = RowsOf(made), got = RowsOf(*read);
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_FALSE(wanted[i].rows.empty()) << "no rows of " << wanted[i].table;
    EXPECT_EQ(wanted[i].rows, got[i].rows) << wanted[i].table;
  }
}

TEST_F(HistoryStoreTest, KeepsHostileTextAsText) {
  HistoryStore store = Store();
  CaptureSummary made = MakeCapture("c'); DELETE FROM captures; --", "100%_\"'\\", 1);
  made.head.verdict = "$1 \xE2\x80\xA6 %s";
  ASSERT_TRUE(store.Add(made).ok());
  const auto read = store.Capture(made.head.id);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->head.verdict, made.head.verdict);
  EXPECT_EQ(read->labels, made.labels);
  EXPECT_TRUE(*store.HasJob(made.head.job));
  EXPECT_FALSE(*store.HasJob("100%_x"));
}

TEST_F(HistoryStoreTest, ACaptureThatIsThereIsReplaced) {
  HistoryStore store = Store();
  ASSERT_EQ(*store.Add(MakeCapture("c1", "llama", 1)), Added::kNew);
  CaptureSummary again = MakeCapture("c1", "mixtral", 1);
  again.steps.pop_back();
  again.findings.clear();
  again.labels = {{"commit", "def"}};
  ASSERT_EQ(*store.Add(again), Added::kReplaced);
  const auto read = store.Capture("c1");
  EXPECT_EQ(read->head.job, "mixtral");
  EXPECT_EQ(read->steps.size(), 1u);
  EXPECT_THAT(read->findings, IsEmpty());
  EXPECT_EQ(read->labels, again.labels);
  EXPECT_EQ(store.Captures({})->size(), 1u);
}

TEST_F(HistoryStoreTest, AddsMoreRowsThanOneStatementHolds) {
  HistoryStore store = Store();
  CaptureSummary made = MakeCapture("c1", "llama", 1);
  for (int i = 0; i < 1234; ++i) made.steps.push_back({.step = i, .duration = Nanos(i)});
  ASSERT_TRUE(store.Add(made).ok());
  const auto read = store.Capture("c1");
  ASSERT_EQ(read->steps.size(), 1236u);
  EXPECT_EQ(read->steps.back().duration, Nanos(1233));
}

TEST_F(HistoryStoreTest, FiltersCapturesInTheOrderOfTheirTime) {
  HistoryStore store = Store();
  for (const auto& [id, job, day] : std::vector<std::tuple<std::string, std::string, int64_t>>{
           {"z", "llama", 1}, {"y", "llama", 3}, {"x", "mixtral", 2}, {"w", "llama", 2}}) {
    ASSERT_TRUE(store.Add(MakeCapture(id, job, day)).ok());
  }
  EXPECT_THAT(Ids(*store.Captures({})), ElementsAre("z", "w", "x", "y"));
  EXPECT_THAT(Ids(*store.Captures({.job = "llama"})), ElementsAre("z", "w", "y"));
  EXPECT_THAT(Ids(*store.Captures({.job = "llama", .since = Day(2)})), ElementsAre("w", "y"));
  EXPECT_THAT(Ids(*store.Captures({.since = Day(2), .before = Day(3)})), ElementsAre("w", "x"));
}

TEST_F(HistoryStoreTest, ContextsHaveLabelsHostsAndFindings) {
  HistoryStore store = Store();
  ASSERT_TRUE(store.Add(MakeCapture("c1", "llama", 1)).ok());
  ASSERT_TRUE(store.Add(MakeCapture("c2", "mixtral", 1)).ok());
  const auto contexts = store.Contexts({.job = "llama"});
  ASSERT_TRUE(contexts.ok()) << contexts.status();
  ASSERT_EQ(contexts->size(), 1u);
  const CaptureContext& context = contexts->front();
  EXPECT_EQ(context.labels, MakeCapture("", "", 1).labels);
  EXPECT_THAT(context.hosts, ElementsAre("a", "b"));
  EXPECT_THAT(context.devices, ElementsAre("H100"));
  ASSERT_EQ(context.findings.size(), 2u);
  ASSERT_EQ(context.findings[0].ranks.size(), 1u);
  EXPECT_EQ(context.findings[0].ranks[0].host, "b");
}

TEST_F(HistoryStoreTest, FindsIdsByTheirBeginning) {
  HistoryStore store = Store();
  for (const char* id : {"2026-a", "2026-b", "2026-b2", "x_y", "xay"})
    ASSERT_TRUE(store.Add(MakeCapture(id, "llama", 1)).ok());
  EXPECT_EQ(*store.FindId("2026-a"), "2026-a");
  EXPECT_EQ(*store.FindId("2026-b"), "2026-b") << "a whole id wins";
  EXPECT_EQ(*store.FindId("x_"), "x_y") << "no pattern characters";
  EXPECT_EQ(store.FindId("2026").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(store.FindId("2026").status().message()), HasSubstr("2026-a, 2026-b, 2026-b2"));
  EXPECT_EQ(store.FindId("nothing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.FindId("").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(HistoryStoreTest, OutdatedCapturesAreRemovedWithAllTheirRows) {
  HistoryStore store = Store();
  for (int64_t day = 1; day <= 5; ++day) {
    ASSERT_TRUE(store.Add(MakeCapture("l" + std::to_string(day), "llama", day)).ok());
    ASSERT_TRUE(store.Add(MakeCapture("m" + std::to_string(day), "mixtral", day)).ok());
  }
  EXPECT_THAT(Ids(*store.Outdated({.before = Day(2)})), ElementsAre("l1", "m1"));
  EXPECT_THAT(Ids(*store.Outdated({.keep_newest = 4, .job = "llama"})), ElementsAre("l1"));
  EXPECT_THAT(Ids(*store.Outdated({.keep_newest = 0, .job = "none"})), IsEmpty());
  const auto outdated = store.Outdated({.before = Day(2), .keep_newest = 3});
  EXPECT_THAT(Ids(*outdated), ElementsAre("l1", "m1", "l2", "m2"));
  ASSERT_TRUE(store.Remove(*outdated).ok());
  EXPECT_THAT(Ids(*store.Captures({.job = "llama"})), ElementsAre("l3", "l4", "l5"));
  const std::unique_ptr<Database> database = Opened();
  for (const HistoryTable& table : HistoryTables()) {
    const auto left =
        database->Run(absl::StrCat("SELECT 1 FROM ", table.name, " WHERE capture IN ('l1', 'm2')"), {});
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_THAT(*left, IsEmpty()) << table.name;
  }
}

TEST_F(HistoryStoreTest, RowsOfATableCanBeReadByTime) {
  HistoryStore store = Store();
  for (int64_t day = 1; day <= 3; ++day)
    ASSERT_TRUE(store.Add(MakeCapture("c" + std::to_string(day), "llama", day)).ok());
  for (const HistoryTable& table : HistoryTables()) {
    const auto rows = store.Rows(table, Day(2), Day(3));
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_FALSE(rows->empty()) << table.name;
    for (const Row& row : *rows) {
      EXPECT_EQ(row.size(), table.columns.size());
      EXPECT_EQ(TextIn(row, 0), "c2");
    }
  }
}

// Each thread has its own connection, as programs have.
TEST_F(HistoryStoreTest, WritersAtTheSameTimeWaitForEachOther) {
  constexpr int kWriters = 6, kCaptures = 5;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([this, writer] {
      HistoryStore store = Store();  // the first ones create the tables at the same time
      for (int i = 0; i < kCaptures; ++i) {
        const auto added = store.Add(MakeCapture(absl::StrCat(writer, "-", i), "llama", i));
        EXPECT_TRUE(added.ok()) << added.status();
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(Store(Purpose::kRead).Captures({})->size(), static_cast<size_t>(kWriters * kCaptures));
}

TEST_F(HistoryStoreTest, AReaderCannotWrite) {
  ASSERT_TRUE(Store().Add(MakeCapture("c1", "llama", 1)).ok());
  HistoryStore reader = Store(Purpose::kRead);
  EXPECT_FALSE(reader.Add(MakeCapture("c2", "llama", 1)).ok());
  EXPECT_EQ(reader.Captures({})->size(), 1u);
}

}  // namespace
}  // namespace lockstep::history
