#include "formats/ras/ras.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace lockstep::formats {
namespace {

using analysis::RasCommunicator;
using analysis::RasGroup;
using analysis::RasProcess;
using analysis::RasState;
using Status = analysis::RasMember::Status;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTextHead[] =
    "NCCL version 2.27.7 compiled with CUDA 12.9\n"
    "CUDA runtime version 12090, driver version 12090\n\n"
    "Job summary\n===========\n\n"
    "  Nodes  Processes         GPUs  Processes     GPUs\n"
    "(total)   per node  per process    (total)  (total)\n"
    "      1          8            1          8        8\n"
    "\nCommunicators... (0.00s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         1         8         8         8   RUNNING  MISMATCH\n"
    "  100         2         2         4         4         8   RUNNING      OK\n";

RasState Text(const std::string& errors, const std::string& warnings) {
  const absl::StatusOr<RasState> state = ParseRasText(
      absl::StrCat(kTextHead, "\nErrors\n======\n\n", errors, "Warnings\n========\n\n", warnings));
  EXPECT_TRUE(state.ok()) << state.status();
  return state.ok() ? *state : RasState();
}

std::vector<int32_t> MembersOf(const RasGroup& group) { return group.members; }

TEST(RasText, OfAHealthyJobListsNothing) {
  const RasState state = Text("", "");
  EXPECT_EQ(state.nccl_version, "2.27.7");
  EXPECT_FALSE(state.is_complete);
  EXPECT_THAT(state.communicators, IsEmpty());
}

TEST(RasText, HasALateRank) {
  const RasState state =
      Text("",
           "#0-0 (27a079b828ff1a75) MISMATCH\n"
           "  Communicator ranks have different AllReduce operation counts\n"
           "  7 ranks have launched up to operation 42\n"
           "  Rank 3 has launched up to operation 41 -- GPU 3 managed by process 103 on node 10.0.0.1\n");
  ASSERT_EQ(state.communicators.size(), 1u);
  const RasCommunicator& found = state.communicators[0];
  EXPECT_EQ(found.hash, 0x27a079b828ff1a75u);
  EXPECT_EQ(found.size, 8);
  ASSERT_EQ(found.operations.size(), 1u);
  EXPECT_EQ(found.operations[0].function, "AllReduce");
  ASSERT_EQ(found.operations[0].groups.size(), 2u);
  const RasGroup &late = found.operations[0].groups[0], &others = found.operations[0].groups[1];
  EXPECT_EQ(late.count, 41u);
  EXPECT_THAT(MembersOf(late), ElementsAre(3));
  EXPECT_EQ(others.count, 42u);
  EXPECT_EQ(others.size, 7u);
  EXPECT_THAT(MembersOf(others), ElementsAre(0, 1, 2, 4, 5, 6, 7));
  EXPECT_EQ(found.members.at(3).process, (RasProcess{"10.0.0.1", 103}));
}

TEST(RasText, ListsTheRanksOfAGroup) {
  const RasState state =
      Text("",
           "#0-0 (ab) MISMATCH\n"
           "  Communicator ranks have different Broadcast operation counts\n"
           "  6 ranks have launched up to operation 1\n"
           "  2 ranks have not launched any operations\n"
           "  Rank 4 -- GPU 0 (NVML 4) managed by process 104 on node 10.0.0.1\n"
           "  Rank 2 -- [process information not found]\n"
           "  Communicator ranks have different AllReduce operation counts\n"
           "  7 ranks have launched up to operation 9\n"
           "  Rank 0 has not launched any operations -- GPU 0 managed by process 100 on node 10.0.0.1\n");
  ASSERT_EQ(state.communicators.size(), 1u);
  const auto& operations = state.communicators[0].operations;
  ASSERT_EQ(operations.size(), 2u);
  EXPECT_EQ(operations[0].groups[0].count, 0u);
  EXPECT_THAT(MembersOf(operations[0].groups[0]), ElementsAre(2, 4));
  EXPECT_THAT(MembersOf(operations[0].groups[1]), ElementsAre(0, 1, 3, 5, 6, 7));
  EXPECT_THAT(MembersOf(operations[1].groups[0]), ElementsAre(0));
  EXPECT_EQ(state.communicators[0].members.at(2).process, RasProcess());
  EXPECT_EQ(state.communicators[0].members.at(4).process.pid, 104);
}

// Several groups without members leave open who is in which.
TEST(RasText, DoesNotGuessMembers) {
  const RasState state = Text("",
                              "#0-0 (ab) MISMATCH\n"
                              "  Communicator ranks have different AllReduce operation counts\n"
                              "  4 ranks have launched up to operation 2\n"
                              "  4 ranks have launched up to operation 1\n");
  const auto& groups = state.communicators.at(0).operations.at(0).groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(MembersOf(groups[0]), IsEmpty());
  EXPECT_EQ(groups[0].size, 4u);
  EXPECT_THAT(MembersOf(groups[1]), IsEmpty());
}

TEST(RasText, CountsAllCollectivesTogetherBefore226) {
  const RasState state = Text(
      "INCOMPLETE\n"
      "  Missing communicator data from 1 job process\n"
      "  Process 102 on node 10.0.0.1 managing GPU 2\n\n"
      "#0-0 (ab) INCOMPLETE\n"
      "  Missing communicator data from 2 ranks\n"
      "  The missing ranks: 2,5\n\n",
      "TIMEOUT\n"
      "  Encountered 2 communication timeouts while gathering communicator data\n\n"
      "#0-0 (ab) MISMATCH\n"
      "  Communicator ranks have different collective operation counts\n"
      "  5 ranks have launched up to operation 6650\n"
      "  Rank 7 has launched up to operation 6649 -- GPU 7 managed by process 107 on node 10.0.0.1\n");
  ASSERT_EQ(state.communicators.size(), 1u);
  const RasCommunicator& found = state.communicators[0];
  EXPECT_EQ(found.members.at(2).status, Status::kUnresponsive);
  EXPECT_EQ(found.members.at(5).status, Status::kUnresponsive);
  EXPECT_EQ(found.operations.at(0).function, "");
  EXPECT_THAT(MembersOf(found.operations[0].groups.at(1)), ElementsAre(0, 1, 3, 4, 6));
  EXPECT_THAT(state.silent, ElementsAre(RasProcess{"10.0.0.1", 102}));
}

TEST(RasText, HasDeadProcesses) {
  const RasState state = Text(
      "DEAD\n"
      "  1 job process is considered dead (unreachable via the RAS network)\n"
      "  Process 102 on node 10.0.0.1 managing GPU 2\n\n"
      "#0-0 (ab) INCOMPLETE\n"
      "  Missing communicator data from 1 rank\n"
      "  Rank 2 -- GPU 2 managed by process 102 on node 10.0.0.1\n\n",
      "");
  EXPECT_THAT(state.dead, ElementsAre(RasProcess{"10.0.0.1", 102}));
  EXPECT_THAT(state.silent, IsEmpty());
  EXPECT_EQ(state.communicators.at(0).members.at(2).status, Status::kDead);
}

TEST(RasText, HasTheStatus) {
  const RasState state =
      Text("",
           "#0-0 (ab) MISMATCH\n"
           "  Communicator ranks have different status\n"
           "  5 ranks have status RUNNING\n"
           "  2 ranks have status FINALIZE\n"
           "  Rank 4 -- GPU 4 managed by process 104 on node 10.0.0.1\n"
           "  Rank 5 -- GPU 5 managed by process 105 on node 10.0.0.1\n"
           "  Rank 6 has status NOCOMM -- GPU 6 managed by process 106 on node 10.0.0.1\n");
  const RasCommunicator& found = state.communicators.at(0);
  EXPECT_EQ(found.members.at(4).status, Status::kFinalizing);
  EXPECT_EQ(found.members.at(5).status, Status::kFinalizing);
  EXPECT_EQ(found.members.at(6).status, Status::kNotInIt);
}

TEST(RasText, ThatIsCutOrForeignIsAnError) {
  EXPECT_THAT(std::string(ParseRasText("").status().message()), HasSubstr("not RAS's"));
  EXPECT_THAT(std::string(ParseRasText("SSH-2.0\n").status().message()), HasSubstr("not RAS's"));
  EXPECT_THAT(std::string(ParseRasText(kTextHead).status().message()), HasSubstr("ends early"));
}

TEST(RasText, IsCleaned) {
  const absl::StatusOr<RasState> state = ParseRasText("NCCL version \x1b[31m2.27 x\nWarnings\n");
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->nccl_version, "?[31m2.27");
}

constexpr char kJson[] = R"({"nccl_version": "2.28.9", "communicators": [{"hash": "0xab", "size": 3,
  "ranks": [
    {"rank": 0, "host": "10.0.0.1", "pid": 100, "status": {"init_state": 0, "async_error": 0},
     "collective_counts": {"Broadcast": 1, "AllReduce": 42}},
    {"rank": 1, "host": "10.0.0.1", "pid": 101, "status": {"init_state": 7},
     "collective_counts": {"Broadcast": 1, "AllReduce": 41}}],
  "missing_ranks": [
    {"rank": 2, "host": "10.0.0.2", "pid": 102, "status": {"unresponsive": true, "considered_dead": false}}]}],
  "ras": {"timeouts_count": 0}})";

absl::StatusOr<RasState> Json(const std::string& from = "", const std::string& to = "") {
  return ParseRasJson(from.empty() ? std::string(kJson) : absl::StrReplaceAll(kJson, {{from, to}}));
}

TEST(RasJson, ListsAllMembers) {
  const absl::StatusOr<RasState> state = Json();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->is_complete);
  EXPECT_EQ(state->nccl_version, "2.28.9");
  ASSERT_EQ(state->communicators.size(), 1u);
  const RasCommunicator& found = state->communicators[0];
  EXPECT_EQ(found.hash, 0xabu);
  EXPECT_EQ(found.size, 3);
  EXPECT_EQ(found.members.at(0).status, Status::kRunning);
  EXPECT_EQ(found.members.at(1).status, Status::kStarting);
  EXPECT_EQ(found.members.at(2).status, Status::kUnresponsive);
  EXPECT_EQ(found.members.at(2).process, (RasProcess{"10.0.0.2", 102}));
  ASSERT_EQ(found.operations.size(), 2u);
  EXPECT_EQ(found.operations[0].groups.size(), 1u);
  ASSERT_EQ(found.operations[1].groups.size(), 2u);
  EXPECT_EQ(found.operations[1].groups[0].count, 41u);
  EXPECT_THAT(MembersOf(found.operations[1].groups[0]), ElementsAre(1));
}

TEST(RasJson, HasTheStatus) {
  const auto status = [](const char* to) {
    const absl::StatusOr<RasState> state = Json("{\"init_state\": 7}", to);
    return state.ok() ? state->communicators[0].members.at(1).status : Status::kUnknown;
  };
  EXPECT_EQ(status("{\"init_state\": 3}"), Status::kFailed);
  EXPECT_EQ(status("{\"init_state\": 0, \"async_error\": 6}"), Status::kFailed);
  EXPECT_EQ(status("{\"init_state\": 0, \"async_error\": 7}"), Status::kRunning);
  EXPECT_EQ(status("{\"init_state\": 0, \"destroy_flag\": true}"), Status::kFinalizing);
  EXPECT_EQ(status("{\"init_state\": 0, \"finalize_called\": true}"), Status::kFinalizing);
  EXPECT_EQ(status("{\"init_state\": 0, \"abort_flag\": true}"), Status::kAborted);
  const absl::StatusOr<RasState> dead = Json("\"considered_dead\": false", "\"considered_dead\": true");
  EXPECT_EQ(dead->communicators[0].members.at(2).status, Status::kDead);
  const absl::StatusOr<RasState> left = Json("\"unresponsive\": true", "\"unresponsive\": false");
  EXPECT_EQ(left->communicators[0].members.at(2).status, Status::kNotInIt);
}

TEST(RasJson, ThatIsWrongIsAnError) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"2.28.9\"", "1"},
           {"\"communicators\"", "\"x\""},
           {"\"0xab\"", "\"xyz\""},
           {"\"size\": 3", "\"size\": 0"},
           {"\"size\": 3", "\"size\": 3000000000"},
           {"\"size\": 3", "\"size\": 2"},
           {"\"rank\": 1", "\"rank\": -1"},
           {"\"rank\": 1", "\"rank\": 3"},
           {"\"ranks\"", "\"x\""},
           {"41}", "-1}"},
           {"41}", "\"41\"}"},
           {"\"collective_counts\": {\"Broadcast\": 1, \"AllReduce\": 41}", "\"x\": 1"},
           {"]", ""}}) {
    EXPECT_EQ(Json(from, to).status().code(), absl::StatusCode::kInvalidArgument) << from << " → " << to;
  }
  EXPECT_FALSE(ParseRasJson("").ok());
  EXPECT_FALSE(ParseRasJson("[]").ok());
}

TEST(RasJson, WithTooManyDifferentCountsIsRefused) {
  std::string ranks;
  for (int i = 0; i < 300; ++i)
    absl::StrAppend(&ranks, i == 0 ? "" : ",", "{\"rank\":", i, ",\"collective_counts\":{\"AllReduce\":", i,
                    "}}");
  EXPECT_FALSE(
      ParseRasJson(absl::StrCat(R"({"nccl_version":"2.28.9","communicators":[{"hash":"0x1","size":300,)",
                                "\"ranks\":[", ranks, "]}]}"))
          .ok());
}

}  // namespace
}  // namespace lockstep::formats
