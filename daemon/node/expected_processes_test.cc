#include "daemon/node/expected_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/node/own_access.h"
#include "daemon/node/temp_folder_fake.h"

namespace lockstep::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSocket[] = "/run/lockstep/client.sock";
constexpr char kClient[] = "/opt/lockstep/lib/liblockstep_client.so";

// A fake /proc of a machine that has been up for 1000 s.
class ExpectedProcessesTest : public testing::Test {
 protected:
  ExpectedProcessesTest() { Write(proc_ + "/uptime", "1000.00 1900.00\n"); }

  struct Process {
    int parent = 1;
    int age_s = 60;
    bool cuda = true;
    bool client_loaded = false;
    bool sees_socket = true;
    bool sees_client = true;
    std::string injection = kClient;
    std::string socket = kSocket;
    std::string name = "python";
    std::string others = "HOME=/root;OMPI_COMM_WORLD_RANK=3";
  };

  void Add(int pid, const Process& p) {
    const std::string folder = proc_ + "/" + std::to_string(pid);
    std::string stat = std::to_string(pid) + " (py thon) S " + std::to_string(p.parent);
    for (int field = 5; field < 22; ++field) stat += " 0";
    stat += " " + std::to_string((1000 - p.age_s) * 100) + " 0 0\n";
    Write(folder + "/stat", stat);
    Write(folder + "/comm", p.name + "\n");
    std::string environment = p.others + ";";
    if (!p.socket.empty()) environment += "LOCKSTEP_SOCKET=" + p.socket + ";";
    if (!p.injection.empty()) environment += "CUDA_INJECTION64_PATH=" + p.injection + ";";
    std::replace(environment.begin(), environment.end(), ';', '\0');
    Write(folder + "/environ", environment);
    std::string maps = "7f00-7f10 r-xp 00000000 08:01 1 /usr/lib/libc.so.6\n";
    if (p.cuda) maps += "7f10-7f20 r-xp 00000000 08:01 2 /usr/lib/x86_64-linux-gnu/libcuda.so.580.1\n";
    if (p.client_loaded) maps += std::string("7f20-7f30 r-xp 00000000 08:01 3 ") + kClient + "\n";
    Write(folder + "/maps", maps);
    fs::create_directories(folder + "/fd");
    if (p.sees_socket) Write(folder + "/root" + kSocket, "");
    if (p.sees_client) Write(folder + "/root" + kClient, "");
  }

  // A process whose launcher dropped the environment.
  static Process Dropped(int parent) {
    return {.parent = parent, .injection = "", .socket = "", .others = "PATH=/bin"};
  }

  ExpectedProcesses Expected() const {
    return ExpectedProcesses(
        {.socket = kSocket, .uptime = proc_ + "/uptime"}, access_,
        {.registered = [this](int32_t pid) { return registered_.count(pid) > 0; },
         .by_profiler = [this](int32_t pid) { return by_profiler_.count(pid) > 0; },
         .reported = [this](int32_t pid) { return refused_.count(pid) > 0; },
         .probed = [this](const ProcessId& process) { return probes_.count(process.pid) > 0; }});
  }

  std::vector<std::string> Find(std::set<int32_t> registered = {}, uid_t uid = getuid()) {
    registered_ = std::move(registered);
    return Expected().Unreached(uid);
  }

  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  std::set<int32_t> registered_, by_profiler_, refused_, probes_;
  TempFolder folder_;
  const std::string proc_ = folder_.path() + "/proc", dev_ = folder_.path() + "/dev";
  const OwnAccess access_{{proc_, dev_}};
};

TEST_F(ExpectedProcessesTest, NamesRankPidAndTheMissingLibrary) {
  Add(70, {.sees_client = false});
  EXPECT_THAT(Find(), ElementsAre(testing::AllOf(HasSubstr("rank 3 (pid 70, python)"),
                                                 HasSubstr("has not registered with this daemon"),
                                                 HasSubstr(std::string(kClient) + " is not visible to it"))));
}

TEST_F(ExpectedProcessesTest, DistinguishesTheReasons) {
  Add(70, {.client_loaded = true, .sees_socket = false});
  Add(71, {.injection = ""});
  Add(72, {.injection = "/opt/other/libtool.so"});
  Add(73, {.client_loaded = true});
  Add(74, {});
  EXPECT_THAT(
      Find(),
      ElementsAre(HasSubstr("mount its folder into the container"),
                  HasSubstr("CUDA_INJECTION64_PATH is not in its environment"),
                  HasSubstr("CUDA_INJECTION64_PATH is /opt/other/libtool.so: another tool has set it"),
                  HasSubstr("hostPID"), HasSubstr("CUDA has not loaded")));
}

TEST_F(ExpectedProcessesTest, SkipsRegisteredYoungAndOtherUsersProcessesAndThoseWithoutCuda) {
  Add(70, {});
  Add(71, {.age_s = 3});
  Add(72, {.cuda = false});
  Add(73, {.socket = "/tmp/other/client.sock"});
  Write(proc_ + "/73/root/tmp/other/client.sock", "");
  Add(74, {});
  refused_ = {74};
  EXPECT_THAT(Find({70}), IsEmpty());
  EXPECT_THAT(Find({}, getuid() + 1), getuid() + 1 == 0 ? testing::SizeIs(1) : testing::SizeIs(0));
}

TEST_F(ExpectedProcessesTest, SkipsLoaderWorkersOfARegisteredRank) {
  Add(70, {});
  Add(71, {.parent = 70});
  Add(72, {.parent = 71});
  EXPECT_THAT(Find({70}), IsEmpty());
  EXPECT_EQ(Find().size(), 3u);
}

TEST_F(ExpectedProcessesTest, CudaIsUpOnlyWithTheControlDeviceOpenIfItExists) {
  Write(dev_ + "/nvidiactl", "");
  Add(70, {});
  Add(71, {});
  fs::create_symlink(dev_ + "/nvidiactl", proc_ + "/71/fd/9");
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("pid 71")));
}

TEST_F(ExpectedProcessesTest, NamesTheLauncherThatDroppedTheEnvironmentAndTheRemedy) {
  Add(70, {.cuda = false, .name = "mpiexec"});
  Add(71, {.parent = 70, .cuda = false, .injection = "", .socket = "", .name = "sh", .others = "PATH=/bin"});
  Add(72, Dropped(71));
  Add(73, Dropped(1));
  EXPECT_THAT(Find(),
              ElementsAre(testing::AllOf(HasSubstr("pid 72, python uses a GPU"),
                                         HasSubstr("a launcher below mpiexec (pid 70)"),
                                         HasSubstr("put `lockstep run --` directly before the program"))));
}

TEST_F(ExpectedProcessesTest, NamesAProbingProcessThatDroppedTheEnvironment) {
  Add(70, Dropped(1));
  EXPECT_THAT(Find(), IsEmpty());
  EXPECT_FALSE(Expected().AnyAlive(getuid()));
  probes_ = {70};
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("the command of `lockstep run` has dropped")));
  EXPECT_TRUE(Expected().AnyAlive(getuid())) << "the daemon stays alive to report it";
  Add(70, {.socket = "/tmp/other/client.sock"});
  EXPECT_FALSE(Expected().AnyAlive(getuid())) << "it probed this daemon, but has the address of another";
}

TEST_F(ExpectedProcessesTest, NamesARankWithoutAddressUnlessItsProfilerCapturesIt) {
  Process rank = Dropped(1);
  rank.others = "SLURM_PROCID=5";
  Add(70, rank);
  EXPECT_THAT(Find(), ElementsAre(testing::AllOf(HasSubstr("rank 5 (pid 70, python)"),
                                                 HasSubstr("it has no daemon's address"))));
  by_profiler_ = {70};
  EXPECT_THAT(Find(), IsEmpty());
}

TEST_F(ExpectedProcessesTest, IdentifiesTheSocketByInodeAtAnyMountPoint) {
  Write(folder_.path() + "/real.sock", "");
  const std::string ours = folder_.path() + "/real.sock";
  Add(70, {.injection = "", .socket = "/mnt/ls/client.sock"});
  fs::create_directories(proc_ + "/70/root/mnt/ls");
  fs::create_hard_link(ours, proc_ + "/70/root/mnt/ls/client.sock");
  Add(71, {.injection = "", .socket = ours});
  Write(proc_ + "/71/root" + ours, "");
  struct stat file = {};
  ASSERT_EQ(stat(ours.c_str(), &file), 0);
  const auto socket_file = [&] { return std::optional(std::pair(file.st_dev, file.st_ino)); };
  const ExpectedProcesses processes({.socket = ours, .socket_file = socket_file, .uptime = proc_ + "/uptime"},
                                    access_,
                                    {.registered = [](int32_t) { return false; },
                                     .by_profiler = [](int32_t) { return false; },
                                     .reported = [](int32_t) { return false; },
                                     .probed = [](const ProcessId&) { return false; }});
  EXPECT_THAT(processes.Unreached(getuid()), ElementsAre(HasSubstr("pid 70")))
      << "71 has a socket of another daemon under the same path";
}

TEST_F(ExpectedProcessesTest, ResolvesLinksInTheProcessesRoot) {
  Write(folder_.path() + "/real.sock", "");
  const std::string ours = folder_.path() + "/real.sock";
  Add(70, {.client_loaded = true, .sees_socket = false, .socket = "/link.sock"});
  fs::create_symlink(ours, proc_ + "/70/root/link.sock");
  probes_ = {70};
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("/link.sock is not visible to it")));
}

TEST_F(ExpectedProcessesTest, ReportsASocketFolderOfAnUnmappedUser) {
  Add(70, {.client_loaded = true});
  Write(proc_ + "/70/uid_map", "         0 3000000000          1\n");
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("does not exist in the container's user namespace")));
  Write(proc_ + "/70/uid_map", "         0          0 4294967295\n");
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("hostPID")));
}

TEST_F(ExpectedProcessesTest, APreloadedClientBesideAnotherToolStartsWithNccl) {
  Add(70, {.client_loaded = true, .injection = "/opt/other/libtool.so"});
  EXPECT_THAT(Find(), ElementsAre(HasSubstr("starts with NCCL's first communicator")));
}

TEST_F(ExpectedProcessesTest, AnyAliveIsTrueWhileAnExpectedProcessLives) {
  EXPECT_FALSE(Expected().AnyAlive(getuid()));
  Add(70, {.socket = "/tmp/other/client.sock"});
  Add(71, {.name = "lockstepd"});
  Add(72, {.name = "lockstep-aggreg"});
  EXPECT_FALSE(Expected().AnyAlive(getuid()));
  Add(73, {.age_s = 1, .cuda = false, .name = "bash"});
  EXPECT_TRUE(Expected().AnyAlive(getuid()));
}

TEST_F(ExpectedProcessesTest, SurvivesEndingProcessesAndInvalidText) {
  Add(70, {.injection = "/opt/\xff\x1b[31mred"});
  fs::create_directories(proc_ + "/71");
  Write(proc_ + "/72/environ", std::string("LOCKSTEP_SOCKET=") + kSocket);
  const auto found = Find();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0], HasSubstr("/opt/??[31mred"));
}

}  // namespace
}  // namespace lockstep::daemon
