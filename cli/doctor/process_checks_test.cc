#include "cli/doctor/process_checks.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

constexpr char kClient[] = "/opt/lockstep/lib/liblockstep_client.so";
constexpr char kSocket[] = "/srv/ls/client.sock";

MATCHER_P2(Says, verdict, text, "") {
  return arg.verdict == verdict && testing::Value(arg.text, HasSubstr(text));
}

// A fake /proc with one process, 70, without problems. Each test removes something.
class ProcessChecks : public testing::Test {
 protected:
  ProcessChecks() {
    char name[] = "/tmp/lk-process-XXXXXX";
    root_ = ::mkdtemp(name);
    Write("comm", "python\n");
    Write("status", "Name:\tpython\nTracerPid:\t0\nNSpid:\t70\n");
    Map({"/usr/lib/libcuda.so.580.65.06", "/opt/cuda/libcudart.so.13.0.96", "/opt/cuda/libcupti.so.2025.3.1",
         "/opt/nccl/libnccl.so.2.28.9", kClient});
    environment_ = {{"CUDA_INJECTION64_PATH", kClient}, {"LOCKSTEP_SOCKET", kSocket}};
    Put(kSocket);
    Put(kClient);
  }
  ~ProcessChecks() override { fs::remove_all(root_); }

  fs::path Folder() const { return root_ / "proc/70"; }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((Folder() / name).parent_path());
    std::ofstream(Folder() / name, std::ios::binary) << text;
  }
  void Put(const std::string& path) { Write("root" + path, ""); }
  void Map(const std::vector<std::string>& files) {
    std::string maps = "7f00-7f10 rw-p 00000000 00:00 0\n7f10-7f20 rw-p 00000000 00:00 0 [stack]\n";
    // A file is mapped in several pieces.
    for (const std::string& file : files) {
      for (int i = 0; i < 2; ++i) maps += "7f20-7f30 r-xp 00000000 08:01 3                 " + file + "\n";
    }
    Write("maps", maps);
  }
  ProcessView View() {
    std::string text;
    for (const auto& [name, value] : environment_) text += name + "=" + value + '\0';
    Write("environ", text);
    auto view = ViewProcess(root_, 70);
    EXPECT_TRUE(view.ok()) << view.status();
    return *view;
  }

  fs::path root_;
  std::map<std::string, std::string> environment_;
};

TEST_F(ProcessChecks, AHealthyProcessHasNoNotes) {
  const ProcessView view = View();
  EXPECT_EQ(view.name, "python");
  EXPECT_EQ(view.uid, ::getuid());
  EXPECT_THAT(DescribeProcess(view), Says(Verdict::kWorks, "70 (python) of user "));
  EXPECT_THAT(CheckClient(view),
              Says(Verdict::kWorks, std::string("loaded from ") + kClient + ", by CUDA_INJECTION64_PATH"));
  EXPECT_THAT(CheckCudaLibraries(view), ElementsAre(Says(Verdict::kWorks, "libcuda.so.580.65.06"),
                                                    Says(Verdict::kWorks, "libcudart.so.13.0.96"),
                                                    Says(Verdict::kWorks, "libcupti.so.2025.3.1"),
                                                    Says(Verdict::kWorks, "libnccl.so.2.28.9")));
  EXPECT_THAT(CheckSocket(view), Says(Verdict::kWorks, kSocket));
  EXPECT_THAT(CheckOtherTools(view), IsEmpty());
  EXPECT_THAT(CheckItsGpu(view), IsEmpty());
  EXPECT_THAT(CheckNamespaces(view), IsEmpty());
}

TEST_F(ProcessChecks, MissingAndForeignProcessesAreErrors) {
  EXPECT_EQ(ViewProcess(root_, 71).status().code(), absl::StatusCode::kNotFound);
  fs::remove(Folder() / "environ");
  const auto hidden = ViewProcess(root_, 70);
  EXPECT_EQ(hidden.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(hidden.status().message()), HasSubstr("environ"));
}

TEST_F(ProcessChecks, ShowsThePtraceScopeAsHarmless) {
  EXPECT_THAT(DescribeProcess(View()).text, testing::Not(HasSubstr("ptrace")));
  fs::create_directories(root_ / "proc/sys/kernel/yama");
  std::ofstream(root_ / "proc/sys/kernel/yama/ptrace_scope") << "2\n";
  EXPECT_THAT(DescribeProcess(View()), Says(Verdict::kWorks, "ptrace scope 2 does not matter"));
}

TEST_F(ProcessChecks, ExplainsAClientThatIsNotLoaded) {
  Map({"/usr/lib/libcuda.so.1"});
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kBroken, "check that its user can read it"));
  fs::remove(root_ / ("proc/70/root" + std::string(kClient)));
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kBroken, "is not visible to it: mount"));
  environment_["CUDA_INJECTION64_PATH"] = "/opt/other/libtool.so";
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kBroken, "another tool's"));
  environment_.erase("CUDA_INJECTION64_PATH");
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kBroken, "directly before the program"));
}

TEST_F(ProcessChecks, BeforeCudaIsUsedTheClientIsExpected) {
  Map({"/usr/lib/libc.so.6"});
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kWorks, "loads with CUDA"));
  environment_.clear();
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kNote, "CUDA will not load the client"));
}

TEST_F(ProcessChecks, NamesTwoClientsAndTwoCuptis) {
  Map({kClient, "/home/u/lib/liblockstep_client.so", "/opt/a/libcupti.so.12", "/opt/b/libcupti.so.13"});
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kBroken, "two installations"));
  EXPECT_THAT(CheckCudaLibraries(View()),
              ElementsAre(Says(Verdict::kNote, "/opt/a/libcupti.so.12 and /opt/b/libcupti.so.13")));
}

TEST_F(ProcessChecks, NamesOtherToolsInTheProcess) {
  Map({kClient, "/opt/nvidia/nsight-systems/target-linux-x64/libToolsInjection64.so",
       "/usr/lib/libcuda.so.1"});
  environment_["NSYS_PROFILING_SESSION_ID"] = "1";
  environment_["NV_TPS_LAUNCH_TOKEN"] = "x";
  environment_["CUDA_INJECTION64_PATH"] =
      "/opt/nvidia/nsight-systems/target-linux-x64/libToolsInjection64.so";
  Write("status", "TracerPid:\t99\n");
  EXPECT_THAT(CheckOtherTools(View()),
              ElementsAre(Says(Verdict::kBroken, "Nsight Systems: is in the process"),
                          Says(Verdict::kNote, "Nsight Compute: started"),
                          Says(Verdict::kNote, "starts with NCCL's first communicator"),
                          Says(Verdict::kNote, "process 99 traces it")));
}

TEST_F(ProcessChecks, NamesASharedOrPartitionedGpu) {
  environment_["CUDA_VISIBLE_DEVICES"] = "MIG-1c0e";
  environment_["CUDA_MPS_PIPE_DIRECTORY"] = "/tmp/mps";
  EXPECT_THAT(CheckItsGpu(View()),
              ElementsAre(Says(Verdict::kNote, "MIG-1c0e"), Says(Verdict::kNote, "/tmp/mps")));
}

TEST_F(ProcessChecks, NamesASeparatePidNamespace) {
  Write("status", "NSpid:\t70\t1\n");
  EXPECT_THAT(CheckNamespaces(View()), ElementsAre(Says(Verdict::kNote, "its pid there is 1")));
}

TEST_F(ProcessChecks, TheSocketMustExistInATrustedFolder) {
  fs::permissions(Folder() / "root/srv/ls", fs::perms::group_write, fs::perm_options::add);
  EXPECT_THAT(CheckSocket(View()), Says(Verdict::kBroken, "writable for group"));
  fs::permissions(Folder() / "root/srv/ls", fs::perms::group_write, fs::perm_options::remove);
  Write("uid_map", "0 3000000000 1\n");
  EXPECT_THAT(CheckSocket(View()), Says(Verdict::kBroken, "does not exist in its user namespace"));
  fs::remove_all(Folder() / "root/srv");
  EXPECT_THAT(CheckSocket(View()),
              Says(Verdict::kBroken, "LOCKSTEP_SOCKET is /srv/ls/client.sock, which is not visible to it"));
  environment_.clear();
  EXPECT_THAT(CheckSocket(View()),
              Says(Verdict::kBroken, "no socket exists at /run/lockstep/client.sock, /tmp/lockstep-"));
}

TEST_F(ProcessChecks, ControlCharactersNeverReachTheTerminal) {
  environment_["CUDA_INJECTION64_PATH"] = "/opt/\x1b[31m.so";
  Map({"/usr/lib/libcuda.so.1"});
  EXPECT_THAT(CheckClient(View()), Says(Verdict::kBroken, "/opt/?[31m.so"));
}

}  // namespace
}  // namespace lockstep::cli
