// Tests lockstep-sim-rank with eight processes under mpiexec.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "scenario/generator.h"
#include "sim/engine/dry_run.h"
#include "sim/rank/process_clock.h"

namespace lockstep::sim {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Slurp(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class SimRank : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("lockstep-sim-rank-test-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    // Open MPI requires it if the tests run as root.
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"})
      unsetenv(name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string Program() { return LOCKSTEP_SIM_RANK_PATH; }
  std::string Out(const std::string& name) const { return (folder_ / name).string(); }
  static std::string World(int ranks) {
    return std::string(LOCKSTEP_MPIEXEC) + " --oversubscribe -n " + std::to_string(ranks) + " " + Program();
  }

  // Returns the exit code. output_ receives the printed text.
  int Run(const std::string& command) {
    const int status = system((command + " >" + Out("output") + " 2>&1").c_str());
    output_ = Slurp(Out("output"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // A busy machine makes ranks late, and they report it.
  static std::string WithoutReportsOfLateRanks(const std::string& output) {
    std::istringstream in(output);
    std::string kept;
    for (std::string line; std::getline(in, line);) {
      if (line.find(" ms behind the wall clock; ") == std::string::npos) kept += line + "\n";
    }
    return kept;
  }

  // Waits until the truth files of all ranks, which are written at the start, show that they run. Returns the
  // text of one of them.
  static std::string WaitForTruth(const std::string& folder, int ranks, int rank) {
    const auto file = [&](int of) { return folder + "/truth-" + std::to_string(of) + ".json"; };
    for (int i = 0; i < 1200; ++i) {
      int there = 0;
      for (int of = 0; of < ranks; ++of) there += fs::exists(file(of));
      if (there == ranks) return Slurp(file(rank));
      usleep(50'000);
    }
    ADD_FAILURE() << folder << " lacks truth files after 60 s";
    return "";
  }

  static std::vector<TrueRecord> Stamps(const std::string& folder, uint32_t rank) {
    std::ifstream in(folder + "/" + std::to_string(rank) + ".stamps");
    std::vector<TrueRecord> records;
    TrueRecord r;
    int64_t start = 0, end = 0;
    while (in >> r.step >> r.op >> r.correlation >> start >> end) {
      r.start = VirtualTime(start);
      r.end = VirtualTime(end);
      records.push_back(r);
    }
    return records;
  }

  // Returns the step starts of a truth file, in virtual nanoseconds.
  static std::vector<int64_t> StepStarts(const std::string& truth) {
    const size_t name = truth.find("step_start_virtual_ns"), from = truth.find('[', name),
                 to = truth.find(']', from);
    std::string numbers = truth.substr(from + 1, to - from - 1);
    std::replace(numbers.begin(), numbers.end(), ',', ' ');
    std::istringstream in(numbers);
    return {std::istream_iterator<int64_t>(in), std::istream_iterator<int64_t>()};
  }

  // Returns the lines of a rank's tool file, split into words.
  std::vector<std::vector<std::string>> Seen(uint32_t rank) const {
    std::ifstream in(Out("tool." + std::to_string(rank)));
    std::vector<std::vector<std::string>> lines;
    for (std::string line; std::getline(in, line);) {
      std::istringstream words(line);
      lines.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
    }
    return lines;
  }
  void Inject() const {
    setenv("CUDA_INJECTION64_PATH", LOCKSTEP_TEST_TOOL_PATH, 1);
    setenv("NVTX_INJECTION64_PATH", LOCKSTEP_TEST_TOOL_PATH, 1);
    setenv("NCCL_PROFILER_PLUGIN", LOCKSTEP_TEST_TOOL_PATH, 1);
    setenv("LOCKSTEP_TEST_TOOL_OUT", Out("tool").c_str(), 1);
  }

  fs::path folder_;
  std::string output_;
};

// Child processes that never sleep. The destructor kills them.
class BusyProcesses {
 public:
  explicit BusyProcesses(int n) {
    for (int i = 0; i < n; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        while (true) asm volatile("");
      }
      pids_.push_back(pid);
    }
  }
  ~BusyProcesses() {
    for (pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

TEST_F(SimRank, StampsUnderMpiEqualTheDryRunsWithAndWithoutLoad) {
  const std::string command =
      World(8) + " --steps 8 --seed 5 --fault slow_gpu --fault-rank 3 --fault-size 0.1 --stamps ";
  ASSERT_EQ(Run(command + Out("idle")), 0) << output_;
  {
    const BusyProcesses load(2);
    ASSERT_EQ(Run(command + Out("busy")), 0) << output_;
  }
  const scenario::Scenario s = *scenario::MakeTransformer(scenario::ShapeFor(8));
  ModelSettings settings;
  settings.seed = 5;
  ASSERT_TRUE(
      SizeFault(s, FaultKind::kSlowGpu, 3, 0.1, MeanStep(s, DryRun(s, settings, 24)), &settings.fault));
  const WorldHistory expected = DryRun(s, settings, 8);
  for (uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(Stamps(Out("idle"), rank), expected.ranks[rank].records) << "rank " << rank;
    EXPECT_EQ(Stamps(Out("busy"), rank), expected.ranks[rank].records) << "rank " << rank << " beside a load";
  }
}

TEST_F(SimRank, EveryKindOfCollectiveIsTheSameOverMpi) {
  std::string text = "lockstep-scenario 1\nname k\ngroup comm=9 name=g members=2,0,1\n";
  const char* const kinds[] = {"all_reduce", "all_gather", "broadcast", "reduce",
                               "scatter",    "gather",     "barrier",   "send_receive"};
  for (int rank = 0; rank < 3; ++rank) {
    text += "rank host=a device=0\nstream id=7\nstream id=8\nthread id=0\n";
    for (int i = 0; i < 8; ++i) {
      text += "call t0 d652 gap=" + std::to_string((rank * 7919 + i * 104729) % 50000) +
              " own=10\ncoll s0 n0 g0 " + kinds[i] + " gap=5 own=2000 peer=" + std::to_string(i % 3) +
              "\ncall t0 r131 gap=1 own=1 wait=s0\n";
    }
    // The messages go around a ring in both directions, above and below the buffered size.
    for (const char* bytes : {"10", "9000000"}) {
      const int me = rank == 2 ? 0 : rank + 1;  // rank in the group
      const std::string next = std::to_string((me + 1) % 3), previous = std::to_string((me + 2) % 3);
      text += std::string("call t0 d652 gap=") + std::to_string(rank * 30000) +
              " own=10\ncoll s0 n0 g0 send gap=0 own=50 bytes=" + bytes + " peer=" + next +
              "\ncall t0 d652 gap=9 own=10\ncoll s1 n0 g0 receive gap=0 own=50 bytes=" + bytes +
              " peer=" + previous + "\ncall t0 r165 gap=1 own=1 wait=all\n";
    }
    // The same in one kernel. A small message in each direction follows the large one.
    const int me = rank == 2 ? 0 : rank + 1;
    const std::string next = std::to_string((me + 1) % 3), previous = std::to_string((me + 2) % 3);
    text += "call t0 d652 gap=" + std::to_string(rank * 20000) +
            " own=10\ncoll s0 n0 g0 receive gap=0 own=50 bytes=9000000 peer=" + previous +
            " more=send:" + next + ":9000000,send:" + next + ":10,receive:" + previous +
            ":10\ncall t0 r165 gap=1 own=1 wait=all\n";
  }
  std::ofstream(Out("all.scenario")) << text;
  ASSERT_EQ(Run(World(3) + " --scenario " + Out("all.scenario") + " --steps 20 --stamps " + Out("stamps")), 0)
      << output_;
  const absl::StatusOr<scenario::Scenario> s = scenario::Parse(text, "t");
  ASSERT_TRUE(s.ok()) << s.status();
  const WorldHistory expected = DryRun(*s, {}, 20);
  ASSERT_EQ(expected.stuck, "");
  for (uint32_t rank = 0; rank < 3; ++rank)
    EXPECT_EQ(Stamps(Out("stamps"), rank), expected.ranks[rank].records) << rank;
}

TEST_F(SimRank, AToolIsLoadedAndReceivesTheTruth) {
  Inject();
  ASSERT_EQ(Run(World(8) + " --steps 4 --truth " + Out("truth") + " --stamps " + Out("truth") +
                " --clock-offset-ns 10000000 --clock-drift-ppm 50"),
            0)
      << output_;
  const scenario::Scenario s = *scenario::MakeTransformer(scenario::ShapeFor(8));
  for (uint32_t rank : {0u, 6u}) {
    const std::string truth = Slurp(Out("truth/truth-" + std::to_string(rank) + ".json"));
    ASSERT_NE(truth.find("\"complete\": true"), std::string::npos);
    std::map<std::string, size_t> records;
    std::map<std::string, std::set<std::string>> correlations;
    size_t pushes = 0, inits = 0, colls = 0;
    std::set<std::string> launched;
    for (const auto& line : Seen(rank)) {
      if (line[0] == "record") {
        ++records[line[1]];
        correlations[line[1]].insert(line[1] == "39" ? line[4] : line[2]);
      }
      pushes += line[0] == "push";
      inits += line[0] == "init";
      colls += line[0] == "nccl" && line[1] == "start" && (line[2] == "2" || line[2] == "4");
    }
    size_t kernels = 0, copies = 0, runtime = 0, driver = 0, collectives = 0;
    for (const scenario::Op& op : s.ranks[rank].program) {
      kernels += op.kind == scenario::OpKind::kKernel || op.kind == scenario::OpKind::kCollective;
      copies += op.kind == scenario::OpKind::kCopy;
      runtime += op.kind == scenario::OpKind::kCall && !op.driver;
      driver += op.kind == scenario::OpKind::kCall && op.driver;
      collectives += op.kind == scenario::OpKind::kCollective;
    }
    EXPECT_EQ(records["10"], 4 * kernels);
    EXPECT_EQ(records["1"], 4 * copies);
    EXPECT_EQ(records["5"], 4 * runtime);
    EXPECT_EQ(records["4"], 4 * driver);
    EXPECT_EQ(records["39"], 4 * collectives);
    EXPECT_EQ(colls, 4 * collectives);
    EXPECT_EQ(pushes, 4u);
    EXPECT_EQ(inits, 4u) << "world, tensor, data, pipeline";
    // Every external id belongs to the launch of a communication kernel.
    for (const std::string& c : correlations["39"])
      EXPECT_TRUE(correlations["4"].count(c) == 1 && correlations["10"].count(c) == 1) << c;
    const size_t counts = truth.find("\"counts\"");
    EXPECT_THAT(truth.substr(counts, truth.find("\"written\": {", counts) - counts),
                HasSubstr("\"kernel\": {\"written\": " + std::to_string(4 * kernels) + ", \"dropped\": 0"));
  }
}

TEST_F(SimRank, NcclEventsSurroundTheLaunchInNcclsOrder) {
  Inject();
  ASSERT_EQ(Run(World(2) + " --steps 1"), 0) << output_;
  std::vector<std::string> first;
  for (const auto& line : Seen(0)) {
    if (line[0] == "nccl" && first.size() < 12) first.push_back(line[1] + " " + line[2]);
  }
  EXPECT_EQ(first, (std::vector<std::string>{"start 256", "state 23", "start 512", "stop 512", "state 24",
                                             "start 2048", "stop 2048", "start 1", "start 2", "stop 2",
                                             "stop 1", "stop 256"}));
}

TEST_F(SimRank, EachMessageOfAKernelHasItsNcclEvents) {
  Inject();
  const auto rank = [](const std::string& messages) {
    return "rank host=a device=0\nstream id=7\nthread id=0\ncall t0 d652 gap=10 own=10\ncoll s0 n0 g0 " +
           messages + "\ncall t0 r131 gap=1 own=1 wait=s0\n";
  };
  std::ofstream(Out("exchange.scenario"))
      << "lockstep-scenario 1\nname k\ngroup comm=9 name=g members=1,0\n"
      << rank("send gap=0 own=50 bytes=80 type=ncclFloat64 peer=0 more=receive:0:16,send:0:24")
      << rank("receive gap=0 own=50 bytes=80 type=ncclFloat64 peer=1 more=send:1:16,receive:1:24");
  ASSERT_EQ(Run(World(2) + " --scenario " + Out("exchange.scenario") + " --steps 1"), 0) << output_;
  const auto events = [&](uint32_t of) {
    std::vector<std::string> lines;
    size_t launches = 0;
    for (const auto& line : Seen(of)) {
      launches += line[0] == "record" && line[1] == "10";
      if (line[0] != "nccl") continue;
      lines.push_back(line[1] + " " + line[2]);
      if (line[1] == "start" && line[2] == "4") lines.back() += " " + line[3] + " " + line[4] + " " + line[5];
    }
    EXPECT_EQ(launches, 1u) << "kernels of rank " << of;
    return lines;
  };
  EXPECT_EQ(events(0),
            (std::vector<std::string>{"start 256",         "state 23",   "start 1024",       "stop 1024",
                                      "start 1024",        "stop 1024",  "start 1024",       "stop 1024",
                                      "state 24",          "start 2048", "stop 2048",        "start 1",
                                      "start 4 Send 0 10", "stop 4",     "start 4 Recv 0 2", "stop 4",
                                      "start 4 Send 0 3",  "stop 4",     "stop 1",           "stop 256"}));
  EXPECT_THAT(events(1),
              ::testing::IsSupersetOf({"start 4 Recv 1 10", "start 4 Send 1 2", "start 4 Recv 1 3"}));
}

TEST_F(SimRank, RangesAreStampedInVirtualTimeOnTheProcesssClock) {
  Inject();
  ASSERT_EQ(
      Run(World(2) + " --steps 3 --clock-offset-ns -7000000 --truth " + Out("t") + " --stamps " + Out("t")),
      0)
      << output_;
  const std::string truth = Slurp(Out("t/truth-1.json"));
  const size_t at = truth.find("\"realtime_ns\": ");
  const int64_t epoch = std::stoll(truth.substr(at + 15));
  std::vector<int64_t> pushes;
  for (const auto& line : Seen(1)) {
    if (line[0] == "push") pushes.push_back(std::stoll(line[1]));
  }
  std::vector<int64_t> expected;
  for (const TrueRecord& r : Stamps(Out("t"), 1)) {
    if (r.op == 0) expected.push_back(epoch + r.start.ns() - 7'000'000);
  }
  EXPECT_EQ(pushes, expected);
}

TEST_F(SimRank, BothSidesCountDroppedRecords) {
  Inject();
  ASSERT_EQ(Run(World(2) + " --steps 4 --drop-fraction 0.1 --truth " + Out("t")), 0) << output_;
  const std::string truth = Slurp(Out("t/truth-0.json"));
  int64_t told = 0, seen = 0;
  for (const auto& line : Seen(0)) {
    if (line[0] == "dropped") told = std::stoll(line[1]);
    seen += line[0] == "record";
  }
  int64_t written = 0, dropped = 0;
  for (size_t at = truth.find("{\"written\": "); at != std::string::npos;
       at = truth.find("{\"written\": ", at + 1)) {
    written += std::stoll(truth.substr(at + 12));
    dropped += std::stoll(truth.substr(truth.find("\"dropped\": ", at) + 11));
  }
  EXPECT_EQ(seen, written);
  EXPECT_EQ(told, dropped);
  EXPECT_GT(dropped, 0);
}

TEST_F(SimRank, WritesTheTimesOfItsCalls) {
  ASSERT_EQ(Run(World(2) + " --duration 1s --call-times " + Out("c")), 0) << output_;
  for (const char* file : {"c/0.calls", "c/1.calls"}) {
    std::istringstream in(Slurp(Out(file)));
    int64_t at, calls, median, p99, longest, before = 0, lines = 0;
    for (; in >> at >> calls >> median >> p99 >> longest; before = at, ++lines) {
      EXPECT_GE(at - before, 250'000'000);
      EXPECT_GT(calls, 10);
      EXPECT_GT(median, 0);
      EXPECT_GE(p99, median);
      EXPECT_GE(longest, p99);
    }
    EXPECT_GE(lines, 2) << file;
  }
  EXPECT_EQ(Run(World(2) + " --duration 1s --call-times /dev/null"), 1) << output_;
  EXPECT_THAT(output_, HasSubstr("cannot write call times to /dev/null: Not a directory"));
}

TEST_F(SimRank, ASignalEndsAllRanksCleanlyAtOneStep) {
  const pid_t pid = fork();
  if (pid == 0) {
    execlp(LOCKSTEP_MPIEXEC, "mpiexec", "--oversubscribe", "-n", "4", LOCKSTEP_SIM_RANK_PATH, "--forever",
           "--truth", Out("t").c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const std::string early = WaitForTruth(Out("t"), 4, 2);
  ASSERT_THAT(early, HasSubstr("\"complete\": false"));
  usleep(600'000);  // some steps are over when the signal comes
  const pid_t one_rank = static_cast<pid_t>(std::stol(early.substr(early.find("\"pid\": ") + 7)));
  kill(one_rank, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  std::set<size_t> steps;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string truth = Slurp(Out("t/truth-" + std::to_string(rank) + ".json"));
    EXPECT_THAT(truth, HasSubstr("\"complete\": true"));
    const size_t from = truth.find("step_start_virtual_ns"), to = truth.find(']', from);
    steps.insert(static_cast<size_t>(std::count(truth.begin() + from, truth.begin() + to, ',')));
  }
  EXPECT_EQ(steps.size(), 1u) << "all ranks run the same number of steps";
}

TEST_F(SimRank, AStoppedRankStopsTheOthersAndTheyCatchUp) {
  const pid_t pid = fork();
  if (pid == 0) {
    execlp(LOCKSTEP_MPIEXEC, "mpiexec", "--oversubscribe", "-n", "2", LOCKSTEP_SIM_RANK_PATH, "--steps", "25",
           "--truth", Out("t").c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const std::string early = WaitForTruth(Out("t"), 2, 1);
  ASSERT_THAT(early, HasSubstr("\"complete\": false"));
  const pid_t rank1 = static_cast<pid_t>(std::stol(early.substr(early.find("\"pid\": ") + 7)));
  kill(rank1, SIGSTOP);
  // Without the stop, 25 steps of about 55 ms would be over by then.
  usleep(2'000'000);
  EXPECT_THAT(Slurp(Out("t/truth-0.json")), HasSubstr("\"complete\": false"))
      << "rank 0 must wait for rank 1";
  kill(rank1, SIGCONT);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(Slurp(Out("t/truth-0.json")), HasSubstr("\"complete\": true"));
}

// A real job waits too. A job whose stamps must equal those of the dry run does not.
TEST_F(SimRank, ALateJobWaitsOnAllRanksIfAllowed) {
  const pid_t pid = fork();
  if (pid == 0) {
    execlp(LOCKSTEP_MPIEXEC, "mpiexec", "--oversubscribe", "-n", "2", LOCKSTEP_SIM_RANK_PATH, "--steps", "60",
           "--hold-when-late", "300ms", "--truth", Out("t").c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  const std::string early = WaitForTruth(Out("t"), 2, 1);
  ASSERT_THAT(early, HasSubstr("\"complete\": false"));
  usleep(1'000'000);  // in the middle of its 3.3 s
  const pid_t rank1 = static_cast<pid_t>(std::stol(early.substr(early.find("\"pid\": ") + 7)));
  kill(rank1, SIGSTOP);
  usleep(2'000'000);
  kill(rank1, SIGCONT);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::vector<std::vector<int64_t>> starts;
  for (const char* name : {"t/truth-0.json", "t/truth-1.json"})
    starts.push_back(StepStarts(Slurp(Out(name))));
  ASSERT_EQ(starts[0].size(), 60u);
  ASSERT_EQ(starts[1].size(), 60u);
  const auto gap = [](const std::vector<int64_t>& of, size_t step) { return of[step] - of[step - 1]; };
  size_t longest = 1;
  for (size_t step = 2; step < 60; ++step) {
    if (gap(starts[0], step) > gap(starts[0], longest)) longest = step;
  }
  EXPECT_GT(gap(starts[0], longest), 1'000'000'000);
  EXPECT_EQ(starts[0][longest], starts[1][longest]);
}

TEST_F(SimRank, RunsAloneWithoutALauncher) {
  unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(Run(Program() + " --steps 3 --stamps " + Out("s")), 0) << output_;
  EXPECT_FALSE(Stamps(Out("s"), 0).empty());
}

TEST_F(SimRank, ReportsWrongArgumentsInOneSentence) {
  EXPECT_EQ(Run(Program() + " --fault slow_cpu"), 2);
  EXPECT_THAT(output_, HasSubstr("--fault"));
  EXPECT_EQ(Run(Program() + " --scenario /nonexistent.scenario"), 2);
  EXPECT_THAT(output_, HasSubstr("/nonexistent.scenario"));
  EXPECT_EQ(Run(Program() + " --ranks 8 --write-scenario " + Out("w.scenario")), 0) << output_;
  EXPECT_EQ(Run(World(2) + " --scenario " + Out("w.scenario")), 2);
  EXPECT_THAT(output_, HasSubstr("mpiexec -n 8"));
  EXPECT_EQ(Run(Program() + " --help"), 0);
  EXPECT_THAT(output_, HasSubstr("mpiexec -n 8 lockstep run -- lockstep-sim-rank"));
}

TEST_F(SimRank, ADrawEndsIfNoRankHasWorkForAFault) {
  std::ofstream(Out("idle.scenario")) << "lockstep-scenario 1\nname a\nrank host=a device=0\nthread id=0\n"
                                         "push t0 n0 gap=1000\npop t0 gap=1000\n";
  const std::string command =
      World(1) + " --scenario " + Out("idle.scenario") + " --steps 2 --truth " + Out("t");
  EXPECT_EQ(Run(command + " --fault random"), 2);
  EXPECT_THAT(output_, HasSubstr("no rank has work for any fault; use --fault none"));
  EXPECT_EQ(Run(command + " --fault host_stall"), 2);
  EXPECT_THAT(output_, HasSubstr("rank 0 has no work for --fault host_stall"));
  EXPECT_EQ(Run(command + " --fault random-or-none"), 0) << output_;
  EXPECT_THAT(Slurp(Out("t/truth-0.json")), HasSubstr("\"kind\": \"none\", \"rank\": -1"));
}

TEST_F(SimRank, OnlyTheTruthFilesNameADrawnFault) {
  ASSERT_EQ(Run(World(4) + " --steps 2 --fault random --truth " + Out("t")), 0);
  EXPECT_EQ(WithoutReportsOfLateRanks(output_), "");
  const std::string a = Slurp(Out("t/truth-0.json")), b = Slurp(Out("t/truth-3.json"));
  const auto fault = [](const std::string& t) {
    return t.substr(t.find("\"fault\""), t.find('}', t.find("\"fault\"")) - t.find("\"fault\""));
  };
  EXPECT_EQ(fault(a), fault(b));
  EXPECT_THAT(fault(a), ::testing::Not(HasSubstr("\"none\"")));
}

}  // namespace
}  // namespace lockstep::sim
