"""Tests how Lockstep finds a process's job and rank. Two real processes per launcher run under `lockstep run`
with the launcher's variables. The launchers themselves are simulated. The variables of Open MPI, MPICH and Slurm
were observed. The others are the names that public job scripts and frameworks read."""
import os
import pathlib
import signal
import sys
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from sandbox import Sandbox  # noqa: E402
from waiting import wait_until  # noqa: E402
from nodes import ranks_of  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
TORCHRUN = SUPPORT / "fake_torchrun.py"


def both(**variables):
    """Returns the variables of both ranks. {r} in a value becomes the rank."""
    return [{name: str(value).replace("{r}", str(rank)) for name, value in variables.items()} for rank in range(2)]


OPEN_MPI = dict(OMPI_COMM_WORLD_RANK="{r}", OMPI_COMM_WORLD_SIZE=2, OMPI_COMM_WORLD_LOCAL_RANK="{r}", OMPI_COMM_WORLD_LOCAL_SIZE=2,
                PMIX_NAMESPACE=3735552, PMIX_RANK="{r}")
HYDRA = dict(PMI_RANK="{r}", PMI_SIZE=2, MPI_LOCALRANKID="{r}", MPI_LOCALNRANKS=2)
TORCH = dict(RANK="{r}", LOCAL_RANK="{r}", WORLD_SIZE=2, LOCAL_WORLD_SIZE=2, MASTER_PORT=29400)
STEP = dict(SLURM_JOB_ID=1234, SLURM_STEP_ID=3, SLURM_PROCID="{r}", SLURM_NTASKS=2, SLURM_STEP_NUM_TASKS=2, SLURM_LOCALID="{r}")
LSF = dict(LSB_JOBID=12, LSB_JOBINDEX=0)
JSRUN = dict(JSM_NAMESPACE_RANK="{r}", JSM_NAMESPACE_SIZE=2, JSM_NAMESPACE_LOCAL_RANK="{r}")
PALS = dict(PALS_RANKID="{r}", PALS_LOCAL_RANKID="{r}")
FLUX = dict(FLUX_JOB_ID="f2Abc", FLUX_TASK_RANK="{r}", FLUX_JOB_SIZE=2, FLUX_TASK_LOCAL_ID="{r}")
MVAPICH = dict(MV2_COMM_WORLD_RANK="{r}", MV2_COMM_WORLD_SIZE=2, MV2_COMM_WORLD_LOCAL_RANK="{r}")
HOROVOD = dict(HOROVOD_RANK="{r}", HOROVOD_SIZE=2, HOROVOD_LOCAL_RANK="{r}")

# Columns: launcher, variables, job name ("pid-": named after the launcher's pid), source of the name, source of
# the rank, world size, other names for --job. The world size is None if no variable has it.
SETS = [
    ("Open MPI 4", both(**OPEN_MPI), "3735552", "PMIx", "OMPI", 2, ()),
    ("OpenPBS, Open MPI", both(**OPEN_MPI, PBS_JOBID="88.head", PBS_NODEFILE="/var/spool/pbs/aux/88.head"), "3735552", "PMIx", "OMPI", 2,
     ("88.head", "88")),
    ("OpenPBS, MPICH", both(**HYDRA, PBS_JOBID="88.head"), "88.head", "PBS", "PMI", 2, ("88",)),
    ("an OpenPBS array's element, MPICH",
     both(**HYDRA, PBS_JOBID="88[3].head", PBS_ARRAY_INDEX=3), "88[3].head", "PBS", "PMI", 2, ("88[3]",)),
    ("Cray PALS in PBS",
     both(PBS_JOBID="88.head", PALS_APID="0e1c", **PALS, PMI_RANK="{r}", PMI_SIZE=2, PMI_LOCAL_RANK="{r}"),
     "88.head", "PBS", "PMI", 2, ("88",)),
    ("Cray PALS without PMI's variables", both(PALS_APID="0e1c-77", **PALS), "0e1c-77", "PALS", "PALS", None, ()),
    ("LSF, jsrun", both(**LSF, **JSRUN), "12", "LSF", "JSM", 2, ()),
    ("LSF, IBM Spectrum MPI under jsrun",
     both(**LSF, **OPEN_MPI, JSM_NAMESPACE_RANK="{r}", JSM_NAMESPACE_SIZE=2), "3735552", "PMIx", "OMPI", 2, ("12",)),
    ("an LSF array's element, blaunch and Hydra",
     both(LSB_JOBID=12, LSB_JOBINDEX=4, LSF_PM_TASKID=1, **HYDRA), "12[4]", "LSF", "PMI", 2, ()),
    ("Flux", both(**FLUX), "f2Abc", "Flux", "Flux", 2, ()),
    ("Flux, -o pmi=pmix", both(**FLUX, PMIX_RANK="{r}", PMIX_NAMESPACE="f2Abc"),
     "f2Abc", "PMIx", "PMIx", 2, ()),
    ("Flux, its simple PMI", both(**FLUX, PMI_RANK="{r}", PMI_SIZE=2),
     "f2Abc", "Flux", "PMI", 2, ()),
    ("srun", both(**STEP), "1234.3", "Slurm", "Slurm", 2, ("1234",)),
    ("srun --mpi=pmi2", both(**STEP, PMI_RANK="{r}", PMI_SIZE=2), "1234.3", "Slurm", "Slurm", 2, ("1234",)),
    ("srun --mpi=pmix", both(**STEP, PMIX_RANK="{r}", PMIX_NAMESPACE="slurm.pmix.1234.3"), "1234.3", "Slurm", "PMIx", 2, ("1234",)),
    ("Intel MPI, MPICH (Hydra), no scheduler", both(**HYDRA, I_MPI_HYDRA_BOOTSTRAP="ssh"), "pid-", "launcher", "PMI", 2, ()),
    ("the same under lockstep run --with-aggregator",
     both(**HYDRA, LOCKSTEP_LAUNCH="launch-head:7-8"), "launch-head:7-8", "lockstep run", "PMI", 2, ()),
    ("MVAPICH2", both(**MVAPICH), "pid-", "launcher", "MVAPICH", 2, ()),
    ("Cray aprun in PBS", both(PBS_JOBID="88.head", ALPS_APP_PE="{r}"), "88.head", "PBS", "ALPS", None, ()),
    ("Horovod (horovodrun, Gloo)", both(**HOROVOD), "pid-", "launcher", "Horovod", 2, ()),
    ("DeepSpeed's launcher",
     both(**TORCH, MASTER_ADDR="node1", CROSS_RANK=0, LOCAL_SIZE=2), "node1:29400", "MASTER_ADDR", "torchrun", 2, ()),
    ("accelerate launch, one node",
     both(**TORCH, MASTER_ADDR="127.0.0.1", ACCELERATE_MIXED_PRECISION="no"), "pid-", "launcher", "torchrun", 2, ()),
    ("Ray Train",
     both(**TORCH, MASTER_ADDR="10.0.0.7", NODE_RANK=0, RAY_JOB_ID="01000000"), "10.0.0.7:29400", "MASTER_ADDR", "torchrun", 2, ()),
    ("torchrun under srun",
     both(**STEP, **TORCH, MASTER_ADDR="node1", TORCHELASTIC_RUN_ID="none"), "1234.3", "Slurm", "torchrun", 2, ("1234",)),
    ("what the user says",
     both(**STEP, **OPEN_MPI, LOCKSTEP_JOB="mine", LOCKSTEP_RANK="{r}", LOCKSTEP_WORLD_SIZE=2), "mine", "LOCKSTEP", "LOCKSTEP", 2, ()),
]


class LauncherVariables(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(BIN)
        self.addCleanup(self.sandbox.close)
        self.env = self.sandbox.gpu_env()
        self.program = self.sandbox.lockstep("run", "--", BIN / "lockstep_cuda_loop", "60")

    def wait_for_none(self):
        wait_until(lambda: not self.sandbox.status()["ranks"], "no rank")

    def two_ranks(self):
        return sorted(self.sandbox.wait_for_ranks(2), key=lambda rank: rank["rank"])


class Variables(LauncherVariables):
    def start(self, variables):
        return [self.sandbox.start(self.program, env={**self.env, **own}) for own in variables]

    def end(self, processes):
        for process in processes:
            process.kill()
            process.wait(10)
        self.wait_for_none()

    def ranks(self, *options):
        return ranks_of(self.sandbox.run("status", "--format", "json", *options).stdout)

    def test_reads_the_variables_of_each_launcher(self):
        for what, variables, job, job_source, rank_source, world, other_names in SETS:
            with self.subTest(what):
                processes = self.start(variables)
                ranks = self.two_ranks()
                found = [(rank["rank"], rank["pid"], rank["world_size"], rank["job_source"], rank["rank_source"]) for rank in ranks]
                self.assertEqual(found, [(r, processes[r].pid, world or 0, job_source, rank_source) for r in range(2)])
                self.assertEqual(len({rank["job"] for rank in ranks}), 1, ranks)
                (self.assertTrue if job == "pid-" else self.assertFalse)(ranks[0]["job"].startswith("pid-"), ranks)
                if job != "pid-":
                    self.assertEqual(ranks[0]["job"], job)
                for name in (ranks[0]["job"], *other_names):
                    self.assertEqual(len(self.ranks("--job", name)), 2, name)
                for name in ("1", "8", "88[", "123"):
                    self.assertEqual(self.ranks("--job", name), [], name)
                self.end(processes)


class Torchrun(LauncherVariables):
    def launch(self, *options):
        return self.sandbox.start([sys.executable, TORCHRUN, "--nproc-per-node", "2", *options, "--", *self.program], env=self.env)

    def test_names_jobs_with_and_without_a_run_id(self):
        for options, job_source in ((("--rdzv-id", "exp7"), "torchrun"), ((), "launcher")):
            launcher = self.launch(*options)
            ranks = self.two_ranks()
            self.assertEqual([(rank["rank"], rank["world_size"], rank["rank_source"], rank["job_source"]) for rank in ranks],
                             [(r, 2, "torchrun", job_source) for r in range(2)])
            self.assertTrue(ranks[0]["job"] == "exp7" if options else ranks[0]["job"].startswith(f"pid-{launcher.pid}-"), ranks)
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(20)
            self.wait_for_none()

    def test_a_launcher_that_initialises_cuda_is_no_rank(self):
        command = [*self.sandbox.lockstep("run", "--"), sys.executable, TORCHRUN, "--nproc-per-node", "2", "--initialise-cuda"]
        for number, options in enumerate((("--rdzv-id", "my-job"), ())):
            launcher = self.sandbox.start([*command, *options, "--", BIN / "lockstep_cuda_loop", "60"], env=self.env)
            ranks = self.two_ranks()
            self.assertEqual([(rank["rank"], rank["world_size"]) for rank in ranks], [(0, 2), (1, 2)])
            status = self.sandbox.status()
            self.assertEqual(len(status["without_context"]), 1, status)
            self.assertRegex(status["without_context"][0], rf"^pid {launcher.pid} \(python")
            self.assertEqual(status["warnings"], [])
            self.assertIn(f"it has no CUDA context: pid {launcher.pid} (python", self.sandbox.run("status").stdout)
            done = self.sandbox.run("trace", "--duration", "300ms", "-o", self.sandbox.folder / f"capture-{number}")
            self.assertEqual(done.returncode, 0, done.stderr)
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(20)
            self.wait_for_none()
            wait_until(lambda: not self.sandbox.status()["without_context"], "the launcher's end")

    def test_a_restart_is_another_incarnation_of_the_same_ranks(self):
        """A rank dies. torchrun then starts all ranks of its node again, with a new restart count."""
        for options in (("--rdzv-id", "exp8"), ()):
            launcher = self.launch(*options, "--max-restarts", "2")
            first = self.two_ranks()
            self.assertEqual({rank["incarnation"] for rank in first}, {1})
            os.kill(first[1]["pid"], signal.SIGKILL)
            wait_until(lambda: [rank["incarnation"] for rank in self.sandbox.status()["ranks"]] == [2, 2], "the second incarnation",
                       lambda: str(self.sandbox.status()))
            second = self.two_ranks()
            self.assertEqual([rank["rank"] for rank in second], [0, 1])
            self.assertEqual({rank["job"] for rank in second}, {rank["job"] for rank in first})
            self.assertFalse({rank["pid"] for rank in second} & {rank["pid"] for rank in first})
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(20)
            self.wait_for_none()


if __name__ == "__main__":
    unittest.main(verbosity=2, argv=sys.argv[:1] + sys.argv[2:])
