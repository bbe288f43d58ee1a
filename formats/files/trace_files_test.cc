#include "formats/files/trace_files.h"

#include <gtest/gtest.h>

#include <optional>

namespace lockstep::formats {
namespace {

TEST(TraceFiles, SortsNamesInNaturalOrder) {
  EXPECT_TRUE(NaturallyBefore("worker2", "worker10"));
  EXPECT_TRUE(NaturallyBefore("worker02", "worker3"));
  EXPECT_TRUE(NaturallyBefore("a", "b1"));
  EXPECT_TRUE(NaturallyBefore("a1", "a1b"));
  EXPECT_FALSE(NaturallyBefore("a10", "a9"));
  EXPECT_NE(NaturallyBefore("a01", "a1"), NaturallyBefore("a1", "a01"));
  EXPECT_FALSE(NaturallyBefore("x", "x"));
}

TEST(TraceFiles, NamesGiveRankAndNode) {
  EXPECT_EQ(RankInFileName("/rank9/rank-3.json"), RankId(3));
  EXPECT_EQ(RankInFileName("trace_8_rank_1.json"), RankId(1));
  EXPECT_EQ(RankInFileName("worker12.x.pt.trace.json.gz"), RankId(12));
  EXPECT_EQ(RankInFileName("worker0_rank4.json"), RankId(4));
  EXPECT_EQ(RankInFileName("ranked.json"), std::nullopt);
  EXPECT_EQ(RankInFileName("worker_4.json"), std::nullopt);
  EXPECT_EQ(RankInFileName("rank99999999999.json"), std::nullopt);
  EXPECT_EQ(NodeInFileName("x/node3_12.1790000000000.pt.trace.json.gz"), "node3");
  EXPECT_EQ(NodeInFileName("worker0_step_12.1694128201545.pt.trace.json.gz"), "");
  EXPECT_EQ(NodeInFileName("node3.12.pt.trace.json"), "");
  EXPECT_EQ(NodeInFileName("node3_12.json"), "");
}

TEST(TraceFiles, TheNameOfTheFileComesBeforeThatOfItsFolder) {
  EXPECT_EQ(RankOf({"d/rank_1/rank_2.json", false, "/rank_1/rank_2.json"}), RankId(2));
  EXPECT_EQ(RankOf({"d/rank_1/host/t.json", false, "/rank_1/host/t.json"}), RankId(1));
  EXPECT_EQ(RankOf({"rank_1/t.json", false, "/t.json"}), std::nullopt);
}

TEST(TraceFiles, TheHandlersNamesGiveTheWorker) {
  EXPECT_EQ(WorkerInFileName("x/n1_70.1700000000000.pt.trace.json.gz"), "n1_70");
  EXPECT_EQ(WorkerInFileName("x/my.host_70.17.pt.trace.json"), "my.host_70");
  EXPECT_EQ(WorkerInFileName("x/trace.pt.trace.json"), "trace.pt.trace.json");
  EXPECT_EQ(WorkerInFileName("a.json"), "a.json");
}

}  // namespace
}  // namespace lockstep::formats
