// Tests `lockstep run` from a shell: the command's process, its environment, and the daemon beside it.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "cli/common/program_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

using RunTest = ProgramTest;

TEST_F(RunTest, ExecutesTheCommandInItsProcess) {
  EXPECT_EQ(Run("lockstep run -- sh -c 'exit 42'").code, 42);
  EXPECT_EQ(Run("lockstep run -- no-such-command").code, 127);
  EXPECT_EQ(Run("lockstep run -- /etc/passwd").code, 126);
  const Result pids =
      Run("\"" LOCKSTEP_PROGRAM "\" run -- sh -c 'echo $$' > a & echo $! > b; wait; cmp a b && echo same");
  EXPECT_EQ(pids.out, "same\n") << "same pid";
  EXPECT_EQ(Run("lockstep run -- sh -c 'echo \"$@\"' x --help -- y").out, "--help -- y\n")
      << "its arguments are not ours";
  EXPECT_EQ(Run("lockstep run -- sh -c 'kill -PIPE $$'").code, 128 + SIGPIPE)
      << "its signals are as they were";
  EXPECT_EQ(Run("lockstep run").code, 2);
  EXPECT_EQ(Run("lockstep run sh -c true").code, 2);
}

TEST_F(RunTest, SetsVariablesAndKeepsExistingOnes) {
  const Result plain = Run("lockstep run -- env");
  EXPECT_EQ(plain.code, 0);
  for (const char* name : {"CUDA_INJECTION64_PATH=", "NVTX_INJECTION64_PATH=", "NCCL_PROFILER_PLUGIN="}) {
    EXPECT_THAT(plain.out, HasSubstr(std::string("\n") + name));
  }
  EXPECT_THAT(plain.out, Not(HasSubstr("KINETO"))) << "it makes each import of PyTorch initialise CUDA";
  EXPECT_THAT(plain.out, HasSubstr("LOCKSTEP_SOCKET=" + Socket()));
  const Result torch = Run("lockstep run --mode kineto -- env");
  EXPECT_THAT(torch.out, HasSubstr("\nKINETO_USE_DAEMON=1\n"));
  EXPECT_THAT(torch.out, HasSubstr("\nCUDA_INJECTION64_PATH="));
  EXPECT_THAT(torch.out, HasSubstr("\nKINETO_IPC_SOCKET_DIR=" + folder_ + "/kineto\n"));
  EXPECT_THAT(Run("KINETO_USE_DAEMON=1 lockstep run -- env").out, Not(HasSubstr("KINETO_IPC_SOCKET_DIR")))
      << "who has set that may mean dynolog";
  EXPECT_THAT(plain.out, Not(HasSubstr("LD_PRELOAD")));
  EXPECT_THAT(plain.err, HasSubstr("lockstep: set CUDA_INJECTION64_PATH"));
  EXPECT_THAT(Run("OMPI_COMM_WORLD_RANK=0 lockstep run -- true").err, HasSubstr("lockstep: set CUDA_INJ"));
  EXPECT_EQ(Run("OMPI_COMM_WORLD_RANK=3 lockstep run -- true").err, "") << "rank 0 reports for the job";
  EXPECT_EQ(Run("SLURM_PROCID=3 lockstep run -- true").err, "");
  EXPECT_EQ(std::count(plain.err.begin(), plain.err.end(), '\n'), 1) << plain.err;
  const Result taken = Run("CUDA_INJECTION64_PATH=/opt/other.so lockstep run -- env");
  EXPECT_THAT(taken.out, HasSubstr("CUDA_INJECTION64_PATH=/opt/other.so"));
  EXPECT_THAT(taken.err,
              HasSubstr("CUDA_INJECTION64_PATH is already set (/opt/other.so) and unchanged: GPU kernels"));
  const Result chained =
      Run("NVTX_INJECTION64_PATH=/opt/tool.so NCCL_PROFILER_PLUGIN=inspector lockstep run -- env");
  EXPECT_THAT(chained.out, HasSubstr("\nLOCKSTEP_NVTX_CHAIN=/opt/tool.so"));
  EXPECT_THAT(chained.out, HasSubstr("\nLOCKSTEP_NCCL_CHAIN=inspector"));
  EXPECT_THAT(chained.out, Not(HasSubstr("NVTX_INJECTION64_PATH=/opt/tool.so")));
  EXPECT_THAT(chained.out, Not(HasSubstr("NCCL_PROFILER_PLUGIN=inspector")));
  EXPECT_THAT(chained.err, HasSubstr("NVTX_INJECTION64_PATH was /opt/tool.so"));
  const Result refused = Run("NCCL_PROFILER_PLUGIN=none lockstep run -- env");
  EXPECT_THAT(refused.out, HasSubstr("NCCL_PROFILER_PLUGIN=none"));
  EXPECT_THAT(refused.out, Not(HasSubstr("LOCKSTEP_NCCL_CHAIN")));
  EXPECT_THAT(Run("lockstep run --preload -- env").out, HasSubstr("LD_PRELOAD=/"));
  const Result beside = Run("CUDA_INJECTION64_PATH=/opt/other.so lockstep run --preload -- env");
  EXPECT_THAT(beside.out, HasSubstr("CUDA_INJECTION64_PATH=/opt/other.so"));
  EXPECT_THAT(beside.err, HasSubstr("before NCCL's first communicator"));
  const Result kineto = Run("KINETO_USE_DAEMON=0 lockstep run -- env");
  EXPECT_THAT(kineto.out, HasSubstr("KINETO_USE_DAEMON=0"));
  EXPECT_THAT(kineto.err, HasSubstr("KINETO_USE_DAEMON is already set (0) and unchanged"));
  const Result nccl = Run("lockstep run --mode nccl -- env");
  EXPECT_THAT(nccl.out, Not(HasSubstr("CUDA_INJECTION64_PATH")));
  EXPECT_THAT(nccl.out, HasSubstr("NCCL_PROFILER_PLUGIN"));
}

TEST_F(RunTest, ReplacesTheClientOfAnotherInstallation) {
  // The environment of an outer `lockstep run`, in a container that has only the inner one's files.
  const Result r =
      Run("export CUDA_INJECTION64_PATH=/host/lib/liblockstep_client.so "
          "NVTX_INJECTION64_PATH=/host/lib/liblockstep_client.so "
          "NCCL_PROFILER_PLUGIN=/host/lib/liblockstep_client.so LD_PRELOAD=/host/lib/liblockstep_client.so; "
          "lockstep run --preload -- env");
  EXPECT_THAT(r.out, Not(HasSubstr("/host/lib")));
  EXPECT_THAT(r.out, Not(HasSubstr("_CHAIN=")));
  EXPECT_THAT(r.out, HasSubstr("CUDA_INJECTION64_PATH=/"));
}

TEST_F(RunTest, EightConcurrentRunsStartOneDaemonThatHoldsNoPipe) {
  const auto began = std::chrono::steady_clock::now();
  // `cat` ends when the last process closes the pipe.
  const Result r = Run("for i in 1 2 3 4 5 6 7 8; do lockstep run -- echo rank & done | cat; wait");
  EXPECT_EQ(r.out, "rank\nrank\nrank\nrank\nrank\nrank\nrank\nrank\n");
  EXPECT_EQ(Daemons().size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8))
      << "not held until the daemon ended";
  const Result status = Run("lockstep status --format json");
  EXPECT_EQ(status.code, 0) << status.err;
  EXPECT_THAT(status.out, HasSubstr("\"ranks\": []"));
}

TEST_F(RunTest, TheCommandRunsWithoutAPlaceForADaemon) {
  const Result r = Run("chmod 777 .; lockstep run -- echo ran; chmod 700 .");
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "ran\n");
  EXPECT_THAT(r.err, HasSubstr("the command runs without Lockstep"));
  EXPECT_TRUE(Daemons().empty());
}

TEST_F(RunTest, TheLaunchersAggregatorIsPassedOnAndEndsWithTheCommand) {
  const Result r = Run("lockstep run --with-aggregator -- sh -c 'lockstep() { \"" LOCKSTEP_PROGRAM
                       "\" \"$@\"; }; env; for i in $(seq 100); do lockstep status | grep \"^node \" && "
                       "break; sleep 0.1; done'");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("LOCKSTEP_AGGREGATOR="));
  EXPECT_THAT(r.out, HasSubstr("LOCKSTEP_TOKEN_FILE=" + folder_ + "/state/lockstep/launchers/"));
  EXPECT_THAT(r.err, HasSubstr("aggregator at "));
  // `lockstep status` inside the command used the aggregator from the environment.
  EXPECT_THAT(r.out, HasSubstr("node "));
  const auto left = [this] {
    int n = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string line = Read(entry.path() / "cmdline");
      n += line.find("lockstep-aggregator") != std::string::npos && line.find(folder_) != std::string::npos;
    }
    return n;
  };
  for (int i = 0; i < 250 && left() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(left(), 0);
}

}  // namespace
}  // namespace lockstep::cli
