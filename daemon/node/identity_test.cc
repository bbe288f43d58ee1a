#include "daemon/node/identity.h"

#include <filesystem>

#include "base/log/clean_text.h"
#include "daemon/node/own_access.h"
#include "gtest/gtest.h"

namespace lockstep::daemon {
namespace {

constexpr ProcessId kSelf{100, 7000};
constexpr ProcessId kLauncher{50, 6000};

struct Case {
  const char* name;
  const char* variables;
  const char* job;
  const char* job_source;
  int32_t rank;
  int32_t world_size;
  int32_t local_rank;
  const char* rank_source;
};

const Case kCases[] = {
    {"nothing set: a job of one process", "", "pid-100-7000", "process", 0, 1, 0, "single"},
    {"our own variables win over all",
     "LOCKSTEP_JOB=mine\nLOCKSTEP_RANK=3\nLOCKSTEP_WORLD_SIZE=4\nRANK=9\nLOCAL_RANK=1\nWORLD_SIZE=16\nSLURM_"
     "JOB_ID=5\n",
     "mine", "LOCKSTEP", 3, 4, -1, "LOCKSTEP"},
    {"our own rank without a world size", "LOCKSTEP_RANK=3\n", "pid-50-6000", "launcher", 3, 0, -1,
     "LOCKSTEP"},
    {"torchrun", "RANK=9\nLOCAL_RANK=1\nWORLD_SIZE=16\nTORCHELASTIC_RUN_ID=exp7\n", "exp7", "torchrun", 9, 16,
     1, "torchrun"},
    {"torchrun's default run id names no job",
     "RANK=1\nLOCAL_RANK=1\nWORLD_SIZE=2\nTORCHELASTIC_RUN_ID=none\n", "pid-50-6000", "launcher", 1, 2, 1,
     "torchrun"},
    {"RANK without LOCAL_RANK is not torchrun's", "RANK=9\nWORLD_SIZE=16\n", "pid-100-7000", "process", 0, 1,
     0, "single"},
    {"torchrun under srun: Slurm names the job, torchrun the rank",
     "SLURM_JOB_ID=77\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_NTASKS=2\nSLURM_STEP_NUM_TASKS=2\nSLURM_"
     "LOCALID=0\nRANK=9\n"
     "LOCAL_RANK=1\nWORLD_SIZE=16\nTORCHELASTIC_RUN_ID=none\n",
     "77.0", "Slurm", 9, 16, 1, "torchrun"},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK=2\nOMPI_COMM_WORLD_SIZE=8\nOMPI_COMM_WORLD_LOCAL_RANK=2\nPMIX_RANK=2\nPMIX_"
     "NAMESPACE=19712\n",
     "19712", "PMIx", 2, 8, 2, "OMPI"},
    {"PMIx alone", "PMIX_RANK=5\nPMIX_NAMESPACE=prterun-n1-33@1\n", "prterun-n1-33@1", "PMIx", 5, 0, -1,
     "PMIx"},
    {"srun with PMIx",
     "SLURM_JOB_ID=7\nSLURM_STEP_ID=2\nSLURM_PROCID=5\nSLURM_STEP_NUM_TASKS=8\nSLURM_LOCALID=1\nPMIX_RANK=5\n"
     "PMIX_NAMESPACE=slurm.pmix.7.2\n",
     "7.2", "Slurm", 5, 8, 1, "PMIx"},
    {"srun", "SLURM_JOB_ID=1234\nSLURM_STEP_ID=3\nSLURM_PROCID=6\nSLURM_NTASKS=8\nSLURM_LOCALID=2\n",
     "1234.3", "Slurm", 6, 8, 2, "Slurm"},
    {"a step of fewer tasks than the job",
     "SLURM_JOB_ID=1234\nSLURM_STEP_ID=3\nSLURM_PROCID=1\nSLURM_NTASKS=8\nSLURM_STEP_NUM_TASKS=2\n", "1234.3",
     "Slurm", 1, 2, -1, "Slurm"},
    {"a Slurm array task is a job of its own",
     "SLURM_JOB_ID=1240\nSLURM_ARRAY_JOB_ID=1234\nSLURM_ARRAY_TASK_ID=6\nSLURM_STEP_ID=0\nSLURM_PROCID="
     "0\nSLURM_NTASKS=1\n",
     "1234_6.0", "Slurm", 0, 1, -1, "Slurm"},
    // The variables that Slurm 22.05 sets in the second component, whose own number is 3.
    {"a heterogeneous step is one job by its first component",
     "SLURM_JOB_ID=2\nSLURM_STEP_ID=0\nSLURM_PROCID=4\nSLURM_NTASKS=5\nSLURM_STEP_NUM_TASKS=5\nSLURM_LOCALID="
     "2\n",
     "2.0", "Slurm", 4, 5, 2, "Slurm"},
    {"the only task of the last node, where the first has seven",
     "SLURM_JOB_ID=8\nSLURM_STEP_ID=0\nSLURM_PROCID=7\nSLURM_NTASKS=8\nSLURM_STEP_NUM_TASKS=8\nSLURM_LOCALID="
     "0\nPMIX_RANK=7\n",
     "8.0", "Slurm", 7, 8, 0, "PMIx"},
    {"a batch script is no task of a step", "SLURM_JOB_ID=1234\nSLURM_PROCID=0\nSLURM_NTASKS=8\n", "1234",
     "Slurm", 0, 1, 0, "single"},
    {"nor is an interactive step",
     "SLURM_JOB_ID=1234\nSLURM_STEP_ID=4294967290\nSLURM_PROCID=0\nSLURM_NTASKS=8\n", "1234", "Slurm", 0, 1,
     0, "single"},
    {"mpirun inside a Slurm allocation",
     "SLURM_JOB_ID=9\nOMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nPMIX_NAMESPACE=4\n", "9", "Slurm", 1, 2,
     -1, "OMPI"},
    {"MPICH and Intel MPI", "PMI_RANK=3\nPMI_SIZE=4\nMPI_LOCALRANKID=1\n", "pid-50-6000", "launcher", 3, 4, 1,
     "PMI"},
    {"PBS with MPICH", "PBS_JOBID=88.head\nPMI_RANK=3\nPMI_SIZE=4\n", "88.head", "PBS", 3, 4, -1, "PMI"},
    {"Cray PALS under PBS", "PBS_JOBID=88.head\nPALS_RANKID=3\nPALS_LOCAL_RANKID=1\n", "88.head", "PBS", 3, 0,
     1, "PALS"},
    {"LSF with jsrun",
     "LSB_JOBID=12\nLSB_JOBINDEX=0\nJSM_NAMESPACE_RANK=5\nJSM_NAMESPACE_SIZE=6\nJSM_NAMESPACE_LOCAL_RANK=5\n",
     "12", "LSF", 5, 6, 5, "JSM"},
    {"an LSF array element", "LSB_JOBID=12\nLSB_JOBINDEX=4\n", "12[4]", "LSF", 0, 1, 0, "single"},
    {"Flux", "FLUX_JOB_ID=f2Abc\nFLUX_TASK_RANK=1\nFLUX_JOB_SIZE=4\nFLUX_TASK_LOCAL_ID=1\n", "f2Abc", "Flux",
     1, 4, 1, "Flux"},
    {"PALS with PMI's variables", "PALS_APID=7\nPALS_RANKID=3\nPMI_RANK=3\nPMI_SIZE=4\nPMI_LOCAL_RANK=1\n",
     "7", "PALS", 3, 4, 1, "PMI"},
    {"PMIx under Flux knows the world",
     "FLUX_JOB_ID=f2\nFLUX_TASK_LOCAL_ID=1\nFLUX_JOB_SIZE=4\nPMIX_RANK=3\nPMIX_NAMESPACE=f2\n", "f2", "PMIx",
     3, 4, 1, "PMIx"},
    {"MVAPICH2", "MV2_COMM_WORLD_RANK=3\nMV2_COMM_WORLD_SIZE=4\nMV2_COMM_WORLD_LOCAL_RANK=1\n", "pid-50-6000",
     "launcher", 3, 4, 1, "MVAPICH"},
    {"aprun tells no world", "ALPS_APP_PE=3\nPBS_JOBID=88.head\n", "88.head", "PBS", 3, 0, -1, "ALPS"},
    {"Horovod", "HOROVOD_RANK=3\nHOROVOD_SIZE=4\nHOROVOD_LOCAL_RANK=1\n", "pid-50-6000", "launcher", 3, 4, 1,
     "Horovod"},
    {"what the contract names goes before what it does not",
     "HOROVOD_RANK=1\nHOROVOD_SIZE=2\nMV2_COMM_WORLD_RANK=0\nFLUX_TASK_RANK=3\n", "pid-50-6000", "launcher",
     3, 0, -1, "Flux"},
    {"a rendezvous on several nodes names the job",
     "RANK=9\nLOCAL_RANK=1\nWORLD_SIZE=16\nMASTER_ADDR=n1\nMASTER_PORT=29400\n", "n1:29400", "MASTER_ADDR", 9,
     16, 1, "torchrun"},
    {"after the schedulers",
     "RANK=9\nLOCAL_RANK=1\nWORLD_SIZE=16\nMASTER_ADDR=n1\nMASTER_PORT=29400\nPBS_JOBID=88\n", "88", "PBS", 9,
     16, 1, "torchrun"},
    {"a loopback address does not",
     "RANK=1\nLOCAL_RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=29400\n", "pid-50-6000",
     "launcher", 1, 2, 1, "torchrun"},
    {"nor does MASTER_ADDR in another launcher's job",
     "PMI_RANK=1\nPMI_SIZE=2\nMASTER_ADDR=n1\nMASTER_PORT=29400\n", "pid-50-6000", "launcher", 1, 2, -1,
     "PMI"},
    {"lockstep run --with-aggregator names what no launcher has",
     "PMI_RANK=1\nPMI_SIZE=2\nLOCKSTEP_LAUNCH=launch-n1:7-8\n", "launch-n1:7-8", "lockstep run", 1, 2, -1,
     "PMI"},
    {"but not a process that is no rank", "LOCKSTEP_LAUNCH=launch-n1:7-8\n", "pid-100-7000", "process", 0, 1,
     0, "single"},
    {"a rank outside its world is passed over",
     "OMPI_COMM_WORLD_RANK=8\nOMPI_COMM_WORLD_SIZE=8\nPMI_RANK=1\nPMI_SIZE=2\n", "pid-50-6000", "launcher", 1,
     2, -1, "PMI"},
    {"numbers that are none are passed over",
     "LOCKSTEP_RANK=-1\nOMPI_COMM_WORLD_RANK=two\nPMI_RANK=99999999999\n", "pid-100-7000", "process", 0, 1, 0,
     "single"},
    {"empty values count as unset", "LOCKSTEP_JOB=\nSLURM_JOB_ID=\nPMIX_NAMESPACE=ns\n", "ns", "PMIx", 0, 1,
     0, "single"},
    {"lines that are no assignments are passed over", "=x\nnonsense\n\nLOCKSTEP_JOB=a=b", "a=b", "LOCKSTEP",
     0, 1, 0, "single"},
    {"the first of two assignments counts", "LOCKSTEP_JOB=one\nLOCKSTEP_JOB=two\n", "one", "LOCKSTEP", 0, 1,
     0, "single"},
};

TEST(Identity, IsFoundInEveryLaunchersVariables) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Identity got = Identify({c.variables, kSelf, kLauncher});
    EXPECT_EQ(got.job, c.job);
    EXPECT_EQ(got.job_source, c.job_source);
    EXPECT_EQ(got.rank, c.rank);
    EXPECT_EQ(got.world_size, c.world_size);
    EXPECT_EQ(got.local_rank, c.local_rank);
    EXPECT_EQ(got.rank_source, c.rank_source);
  }
}

TEST(Identity, KeepsSlurmsJobNumberOfAnArrayTask) {
  EXPECT_EQ(
      Identify({"SLURM_JOB_ID=1240\nSLURM_ARRAY_JOB_ID=1234\nSLURM_ARRAY_TASK_ID=6\n", kSelf, kLauncher})
          .scheduler_job,
      "1240");
  EXPECT_EQ(Identify({"LOCKSTEP_JOB=mine\nSLURM_JOB_ID=1240\n", kSelf, kLauncher}).scheduler_job, "")
      << "Slurm did not name the job";
}

TEST(Identity, NamesBothTheSchedulersAndTheLaunchersJob) {
  const auto scheduler_job = [](const char* variables) {
    return Identify({variables, kSelf, kLauncher}).scheduler_job;
  };
  EXPECT_EQ(scheduler_job("PMIX_NAMESPACE=4\nPMIX_RANK=0\nPBS_JOBID=88.head\n"), "88.head");
  EXPECT_EQ(scheduler_job("PMIX_NAMESPACE=4\nPMIX_RANK=0\nLSB_JOBID=12\nLSB_JOBINDEX=3\n"), "12[3]");
  EXPECT_EQ(scheduler_job("LOCKSTEP_JOB=mine\nFLUX_JOB_ID=f2\n"), "f2");
  EXPECT_EQ(scheduler_job("PMIX_NAMESPACE=4\nPMIX_RANK=0\n"), "");
  EXPECT_EQ(scheduler_job("SLURM_JOB_ID=7\nLOCKSTEP_JOB=mine\nPBS_JOBID=88\n"), "")
      << "Slurm did not name the job, and is there";
}

TEST(Identity, FallsBackToTheProcessWithoutALauncher) {
  EXPECT_EQ(Identify({"LOCKSTEP_RANK=1\n", kSelf, {1, 3}}).job, "pid-100-7000");
}

TEST(Identity, ContainsOnlyValidUtf8WithoutControlCharacters) {
  EXPECT_EQ(Identify({"LOCKSTEP_JOB=a\x1b[2Jb\xff\n", kSelf, kLauncher}).job, "a?[2Jb?");
  EXPECT_EQ(Identify({"LOCKSTEP_JOB=" + std::string(5000, 'x') + "\n", kSelf, kLauncher}).job.size(), 128u);
}

TEST(CleanText, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(CleanText("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80", 100), "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80");
  EXPECT_EQ(CleanText("\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82", 100), "??|???|????|??");
  EXPECT_EQ(CleanText("a\xc3\xbc", 2), "a");
  EXPECT_EQ(CleanText("\x1b[31m\x7f\xc2\x9b|\xc2\xa0"), "?[31m??|\xc2\xa0") << "C0, C1, and a blank";
  EXPECT_EQ(CleanText("\xe2\x80\xae|\xe2\x81\xa7|\xe2\x80\xa8|\xd8\x9c|\xe2\x80\xa6"), "?|?|?|?|\xe2\x80\xa6")
      << "override, isolate, separator, mark, and an ellipsis";
  EXPECT_EQ(CleanText("a\nb\tc"), "a?b?c");
  EXPECT_EQ(CleanLines("a\nb\tc\r\x1b"), "a\nb\tc??");
  EXPECT_EQ(CleanText(std::string_view("a\0b", 3), 10), "a?b");
}

TEST(CleanText, ReadsFieldsWithoutATerminator) {
  const char full[4] = {'a', 'b', 'c', 'd'};
  const char cut[4] = {'a', '\0', 'c', 'd'};
  EXPECT_EQ(FieldText(full), "abcd");
  EXPECT_EQ(FieldText(cut), "a");
}

TEST(ProcStat, AcceptsBracketsInTheProgramsName) {
  std::string line = "4711 (a) R (b) S 42";
  for (int field = 5; field <= 21; ++field) line += " 0";
  line += " 987654 0 0";
  const auto info = ParseProcStat(line);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->id, (ProcessId{4711, 987654}));
  EXPECT_EQ(info->parent_pid, 42);
  for (const char* bad : {"", "4711", "4711 (x", "4711 (x) S", "x (y) S 1 2 3"})
    EXPECT_FALSE(ParseProcStat(bad).has_value());
}

TEST(ProcStat, FindsThisProcess) {
  const auto info = FindProcess(OwnAccess(), getpid());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->id.pid, getpid());
  EXPECT_EQ(info->parent_pid, getppid());
  EXPECT_GT(info->id.start_ticks, 0u);
  EXPECT_FALSE(FindProcess(OwnAccess(), 0).has_value());
}

// Regression: the exception once escaped from the event loop and ended the daemon.
TEST(ProcStat, DoesNotFindAProcessThatEndsDuringTheRead) {
  char folder[] = "/tmp/lk-proc-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  std::filesystem::create_directories(std::string(folder) + "/70/stat");  // can be opened but not read
  EXPECT_FALSE(FindProcess(OwnAccess({folder, ""}), 70).has_value());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::daemon
