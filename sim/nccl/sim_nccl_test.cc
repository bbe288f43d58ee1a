// Tests the simulated libnccl under a program: its results, and the events for the profiler plugin and the
// NVTX tool. Each run is a separate process, because both are loaded once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Start {
  uint64_t type = 0;
  std::string handle, parent, function, comm;
  long thread = 0;
  uint64_t count = 0, sequence = 0;
};

class SimNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/sim-nccl-XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    folder_ = path;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Run(const std::string& devices, const std::string& what, const std::string& environment) {
    const std::string command = "env " + environment + " LOCKSTEP_TEST_PLUGIN_OUT=" + folder_ + "/events " +
                                "LOCKSTEP_TEST_NVTX_OUT=" + folder_ +
                                "/ranges timeout 60 " LOCKSTEP_NCCL_CALLS " " + devices + " " + what + " > " +
                                folder_ + "/out 2>&1";
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << Text("out");
    EXPECT_EQ(Text("out"), "fine\n");
    Parse();
  }
  static std::string Plugin(const std::string& mask, const std::string& nccl = "22809") {
    return "NCCL_PROFILER_PLUGIN=" LOCKSTEP_TEST_PLUGIN " LOCKSTEP_TEST_PLUGIN_MASK=" + mask +
           " SIMGPU_NCCL_VERSION=" + nccl;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void Parse() {
    std::istringstream text(Text("events"));
    for (std::string line; std::getline(text, line);) {
      lines_.push_back(line);
      std::istringstream words(line);
      std::string word;
      words >> word;
      if (word == "init") {
        words >> version_;
      } else if (word == "start") {
        Start s;
        words >> s.type >> s.handle >> s.parent >> s.thread >> s.function >> s.count >> s.sequence >> s.comm;
        starts_.push_back(s);
        order_ += Letter(s.type);
        types_[s.handle] = s.type;
      } else if (word == "stop") {
        std::string handle;
        words >> handle;
        ++stops_;
        if (types_[handle] == 2048) order_ += 'l';
        if (types_[handle] == 256) order_ += 'a';
      } else if (word == "state") {
        std::string handle, state;
        words >> handle >> state;
        if (state == "23") order_ += '(';
        if (state == "24") order_ += ')';
      }
    }
  }
  // A: group API, c: collective API, p: transfer API, L: launch, G: group, C: collective, P: transfer, K:
  // channel, O: proxy operation, S: proxy step.
  static char Letter(uint64_t type) {
    static const std::map<uint64_t, char> letters = {{256, 'A'}, {512, 'c'}, {1024, 'p'}, {2048, 'L'},
                                                     {1, 'G'},   {2, 'C'},   {4, 'P'},    {64, 'K'},
                                                     {8, 'O'},   {16, 'S'}};
    const auto it = letters.find(type);
    return it == letters.end() ? '?' : it->second;
  }
  std::vector<Start> Of(uint64_t type) const {
    std::vector<Start> found;
    for (const Start& s : starts_) {
      if (s.type == type) found.push_back(s);
    }
    return found;
  }

  std::string folder_;
  int version_ = 0;
  std::vector<std::string> lines_;
  std::vector<Start> starts_;
  std::map<std::string, uint64_t> types_;
  std::string order_;
  size_t stops_ = 0;
};

TEST_F(SimNccl, ResultsAreRightOnFourDevices) { Run("4", "all", ""); }
TEST_F(SimNccl, SplitsAreRanked) { Run("5", "split", ""); }
TEST_F(SimNccl, GraphsReplayCollectives) { Run("3", "graph", ""); }

TEST_F(SimNccl, EventsComeInTheOrderOfNccl228) {
  Run("2", "all", Plugin("3847"));  // all events except channels and proxies
  EXPECT_EQ(version_, 5);
  // One group holds the calls of two devices: A(cc). Then each device has a launch and its operation.
  EXPECT_EQ(order_.substr(0, 15), "A(cc)LlGCLlGCaA");
  const auto collectives = Of(2);
  ASSERT_EQ(collectives.size(), 16u);
  std::map<std::string, std::set<uint64_t>> sequences;
  for (const Start& c : collectives) {
    sequences[c.function].insert(c.sequence);
    EXPECT_EQ(types_[c.parent], 512u) << "the call is the parent";
  }
  EXPECT_EQ(sequences["AllReduce"], (std::set<uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(sequences["Broadcast"], (std::set<uint64_t>{0}));
  EXPECT_EQ(Of(4).size(), 4u);
  for (const Start& c : collectives) {
    // NCCL counts these two in bytes.
    const bool in_bytes = c.function == "AllGather" || c.function == "Broadcast";
    EXPECT_EQ(c.count, in_bytes ? 4000u : 1000u) << c.function;
  }
  std::set<long> threads;
  for (const Start& s : starts_) threads.insert(s.thread);
  EXPECT_EQ(threads.size(), 1u) << "all from the thread that calls";
  EXPECT_EQ(stops_, starts_.size());
}

TEST_F(SimNccl, ChannelsAreReportedByTheProgressThread) {
  Run("2", "all", Plugin("64"));
  const auto channels = Of(64);
  ASSERT_EQ(channels.size(), 20u);
  std::set<long> threads, callers;
  for (const Start& c : channels) threads.insert(c.thread);
  for (const Start& c : Of(256)) callers.insert(c.thread);
  EXPECT_EQ(threads.size(), 2u) << "one of each communicator";
  EXPECT_EQ(callers.size(), 1u) << "asking for channels asks for what is above them";
  EXPECT_EQ(threads.count(*callers.begin()), 0u);
  EXPECT_EQ(stops_, starts_.size());
}

TEST_F(SimNccl, OperationsOfGraphsAreReportedByTheHostCallbackThread) {
  Run("2", "graph", Plugin("2"));
  const auto collectives = Of(2), calls = Of(512);
  EXPECT_EQ(calls.size(), 2u) << "captured once on each device";
  ASSERT_EQ(collectives.size(), 6u) << "and launched three times";
  for (const Start& c : collectives) EXPECT_NE(c.thread, calls[0].thread);
}

TEST_F(SimNccl, AMaskOfZeroMeansNoCalls) {
  Run("2", "all", Plugin("0"));
  EXPECT_EQ(lines_.size(), 2u) << "init alone";
}

TEST_F(SimNccl, EachReleaseUsesItsPluginVersion) {
  struct Row {
    const char* nccl;
    int version;
    bool names;  // whether functions are texts and not numbers
  };
  for (const Row& row : {Row{"22304", 1, false}, Row{"22403", 2, true}, Row{"22605", 3, true},
                         Row{"22705", 4, true}, Row{"22809", 5, true}, Row{"23001", 6, true}}) {
    lines_.clear();
    starts_.clear();
    types_.clear();
    stops_ = 0;
    std::filesystem::remove(folder_ + "/events");
    Run("2", "all", Plugin("4095", row.nccl));
    EXPECT_EQ(version_, row.version);
    const auto collectives = Of(2), transfers = Of(4);
    ASSERT_EQ(collectives.size(), 16u) << row.nccl;
    ASSERT_EQ(transfers.size(), 4u) << row.nccl;
    EXPECT_EQ(collectives[0].function, row.names ? "AllReduce" : "4");
    EXPECT_EQ(transfers[0].function, row.names ? "Send" : "6");
    EXPECT_EQ(collectives[0].count, 1000u);
    EXPECT_EQ(collectives[15].comm != "0", row.version < 4)
        << "events of old versions name their communicator";
    EXPECT_EQ(Of(256).empty(), row.version < 5) << row.nccl;
    EXPECT_EQ(Of(64).empty(), row.version < 3) << row.nccl;
    EXPECT_EQ(types_[collectives[0].parent], row.version < 5 ? 1u : 512u);
    EXPECT_EQ(stops_, starts_.size()) << row.nccl;
  }
}

TEST_F(SimNccl, RunsWithoutAPluginAndWithAnInvalidName) {
  Run("2", "all", "NCCL_PROFILER_PLUGIN=none");
  Run("2", "all", "NCCL_PROFILER_PLUGIN=there-is-no-such-plugin");
  EXPECT_TRUE(lines_.empty());
}

// The real libnccl 2.28.9 registers and pushes the same ranges.
TEST_F(SimNccl, RangesCarryNcclsPayloads) {
  Run("2", "all", "NVTX_INJECTION64_PATH=" LOCKSTEP_TEST_NVTX_TOOL);
  const std::string ranges = Text("ranges");
  for (const char* expected :
       {"domain NCCL\n", "enum 16777236 Sum Product Max Min Avg\n",
        "schema 16777221 24 | NCCL communicator ID 18 0 | Message size [bytes] 22 8 | Reduction operation "
        "16777236 16\n",
        "schema 16777222 24 | NCCL communicator ID 18 0 | Message size [bytes] 22 8 | Root 5 16\n",
        "schema 16777224 24 | NCCL communicator ID 18 0 | Message size [bytes] 22 8 | Root 5 16 | Reduction "
        "operation 16777236 20\n",
        "schema 16777220 16 | NCCL communicator ID 18 0 | Message size [bytes] 22 8\n",
        "schema 16777225 24 | NCCL communicator ID 18 0 | Message size [bytes] 22 8 | Peer rank 5 16\n",
        "push ncclGroupStart\npop\n",
        "push ncclAllReduce 16777221 24: a0 0f 00 00 00 00 00 00 02 00 00 00 00 00 00 00\npop\n"}) {
    EXPECT_NE(ranges.find(expected), std::string::npos) << expected << "\n" << ranges;
  }
}

TEST_F(SimNccl, RangesCanBeDisabled) {
  Run("2", "all", "NCCL_NVTX_DISABLE=1 NVTX_INJECTION64_PATH=" LOCKSTEP_TEST_NVTX_TOOL);
  EXPECT_EQ(Text("ranges"), "");
}

}  // namespace
