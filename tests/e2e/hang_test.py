"""Hangs real ranks of a CUDA and NCCL program on the simulated stack under mpiexec, in several ways. `lockstep
hang` must name the rank and the reason, and must not find a hang in a job that moves."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from live_job import LiveJob  # noqa: E402
from local_aggregator import LocalAggregator  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STACK = BIN.parent / "lib" / "sim_stack"
RANKS = 4
# Another one in each run, which prints it.
LATE = random.randrange(RANKS)
OTHERS = [rank for rank in range(RANKS) if rank != LATE]
NO_HANG, HANG = 0, 3
NOT_STARTED = (1, 4)
AFTER = "1s"
# The verdict must come this long after the operation has become a hang.
WITHIN = 10


# The jobs that hang by themselves. All start at once, because most of a job's time is its start.
HANGING = {
    "exit": ("--kind", "exit", "--rank", LATE, "--step", 20),
    "sleep": ("--kind", "sleep", "--rank", LATE, "--step", 20),
    "swap": ("--kind", "swap", "--rank", LATE, "--step", 20),
    "size": ("--kind", "size", "--rank", LATE, "--step", 20),
    "busy": ("--kind", "busy", "--rank", LATE, "--step", 20),
    "network": ("--kind", "none"),
}
# Ranks 0 and 1 state that they are on another host than ranks 2 and 3, so these are the links of their ring that use the network.
SENDER, RECEIVER = random.choice([(1, 2), (3, 0)])
ENVIRONMENT = {"network": {"SIMGPU_NETWORK_CUT": f"{SENDER}:{RECEIVER}:21"}}
ON_TWO_HOSTS = ["sh", "-c", 'NCCL_HOSTID=host$((OMPI_COMM_WORLD_RANK / 2)) exec "$@"', "sh"]


class Job:
    """A job in its own folder: of hang_loop, or with `python` of support/hang_job.py."""

    def __init__(self, *args, mode=("--mode", "nccl"), env=None, python=False):
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
        work = pathlib.Path(self.folder.name)
        program = [sys.executable, str(SUPPORT / "hang_job.py")] if python else [str(BIN / "lockstep_hang_loop"), "--id-file"]
        command = [*ON_TWO_HOSTS, *program, str(work / "id"), *map(str, args)]
        env = {"LD_LIBRARY_PATH": str(STACK), "SIMGPU_KERNELS": "*scale*=1000000ms", **(env or {})}
        self.live = LiveJob(BIN, work, ranks=RANKS, env=env, rank_command=command, run_args=mode)
        self.live.__enter__()

    def pids(self):
        """Waits for the ranks, and returns their pids."""
        ranks = [rank for daemon in self.live.wait_for_ranks()["daemons"] for rank in daemon["ranks"]]
        return {rank["rank"]: rank["pid"] for rank in ranks}

    def end(self):
        self.live.signal_ranks(signal.SIGCONT)
        self.live.signal_ranks(signal.SIGKILL)
        self.live.__exit__()
        self.folder.cleanup()


class Hang(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.jobs = {kind: Job(*args, env=ENVIRONMENT.get(kind)) for kind, args in HANGING.items()}
        for job in cls.jobs.values():
            cls.addClassCleanup(job.end)

    def use(self, kind):
        self.job = self.jobs[kind].live

    def start(self, *args, **kwargs):
        job = Job(*args, **kwargs)
        self.addCleanup(job.end)
        self.job = job.live
        return job

    def hang(self, *args):
        done = self.job.cli("hang", "--after", AFTER, *args)
        return done.returncode, done.stdout, done.stderr

    def finding(self):
        """Waits for the hang, and returns the only finding."""
        documents = []

        def hangs():
            code, out, err = self.hang("--format", "json")
            self.assertIn(code, (NO_HANG, HANG, *NOT_STARTED), out + err)
            documents.append(out)
            return code == HANG
        wait_until(hangs, "the hang", lambda: documents[-1] + self.job.rank_output(), 60)
        job, = json.loads(documents[-1])["jobs"]
        self.assertEqual((job["verdict"], job["world_size"]), ("hang", RANKS))
        self.assertEqual(len(job["findings"]), 1, documents[-1])
        return job["findings"][0], "\n".join([job["findings"][0]["sentence"], *job["findings"][0]["reasons"]])

    def wait_for_progress(self):
        def moves():
            code, out, err = self.hang()
            return code == NO_HANG and out.startswith("NO HANG: 4 ranks")
        wait_until(moves, "the ranks' progress", self.job.rank_output)

    def test_a_stopped_rank(self):
        pids = self.start().pids()
        self.wait_for_progress()
        os.kill(pids[LATE], signal.SIGSTOP)
        found, text = self.finding()
        self.assertEqual((found["cause"], found["late_ranks"]), ("stopped", [LATE]), text)
        self.assertRegex(text, rf"rank {LATE} \(\S+, local rank {LATE}\) is stopped")
        code, text, _ = self.hang()
        self.assertEqual(code, HANG)
        self.assertRegex(text, "^HANG: ")
        # It moves again.
        os.kill(pids[LATE], signal.SIGCONT)
        self.wait_for_progress()

    def test_a_rank_that_has_ended(self):
        self.use("exit")
        found, text = self.finding()
        self.assertEqual((found["cause"], found["late_ranks"], found["waiting_ranks"]), ("ended", [LATE], OTHERS), text)
        self.assertEqual((found["communicator_name"], found["op"], found["number"]), ("world", "all_reduce", 21))
        self.assertRegex(text, rf"rank {LATE} .*has ended, and never entered all_reduce #21 of world; 3 ranks wait in it for \d")

    def test_a_rank_that_sleeps(self):
        self.use("sleep")
        found, text = self.finding()
        self.assertEqual((found["cause"], found["late_ranks"], found["number"]), ("never_entered", [LATE], 21), text)
        self.assertRegex(text, rf"rank {LATE} .* never entered all_reduce #21 of world; 3 ranks wait in it for ")
        self.assertRegex(text, rf"rank {LATE}'s main thread is in \w*pause \(libc.so.6\), called from .*main \(lockstep_hang_loop\)")
        self.assertRegex(text, rf"pid {self.jobs['sleep'].pids()[LATE]}, uses 1?[0-9]% of a processor")

    def test_a_network_that_carries_nothing(self):
        self.use("network")
        found, text = self.finding()
        self.assertEqual((found["cause"], found["number"], found["late_ranks"], found["may_end"]), ("stuck", 21, [], False), text)
        link, = found["links"]
        self.assertEqual((link["from_rank"], link["to_rank"], link["waits_for"], link["steps_done"]), (SENDER, RECEIVER, "network", 0), text)
        self.assertRegex(text, rf"the network does not carry its data from rank {SENDER} \(\S+, local rank {SENDER}\) to rank {RECEIVER} \(")
        self.assertRegex(text, r"the network has completed nothing from .* after 0 of 4 steps on channel 0")

    def test_a_rank_that_computes_may_come(self):
        self.start("--kind", "spin", "--rank", LATE, "--step", 20)
        wait_until(lambda: self.hang()[1].startswith("WAITING: "), "the wait", self.job.rank_output, 60)
        code, text, _ = self.hang()
        self.assertEqual(code, NO_HANG)
        self.assertIn("never entered all_reduce #21 of world", text)

    def test_two_communicators_in_opposite_order(self):
        self.use("swap")
        found, text = self.finding()
        self.assertEqual(found["cause"], "circle", text)
        # Three or more numbers in a row are a range.
        runs = {0: "1-3", 3: "0-2"}.get(LATE, ", ".join(map(str, OTHERS)))
        waits = {w["communicator_name"]: w["waiting_ranks"] for w in [found, *found["circle"]]}
        self.assertEqual(waits, {"world": OTHERS, "other": [LATE]})
        self.assertRegex(text, rf"ranks {runs} in all_reduce #21 of world")

    def test_a_gpu_that_is_busy(self):
        self.use("busy")
        found, text = self.finding()
        self.assertEqual((found["cause"], found["late_ranks"], found["number"]), ("never_started", [LATE], 21), text)

    def test_another_size(self):
        self.use("size")
        found, text = self.finding()
        self.assertEqual((found["cause"], found["late_ranks"]), ("mismatch", [LATE]), text)
        self.assertRegex(text, rf"rank {LATE} .* entered all_reduce of 1,048,576 float32 as #21 of world, where 3 ranks entered all_reduce of 2,097,152")

    def python_frames(self, stacks):
        stack, = stacks
        self.assertEqual((stack["rank"], stack["python"]["problem"]), (LATE, ""))
        return [(pathlib.Path(frame["file"]).name, frame["function"].split(".")[-1]) for frame in stack["python"]["frames"]]

    def test_a_rank_that_sleeps_in_python(self):
        pids = self.start(LATE, 20, "sleep", python=True).pids()
        found, text = self.finding()
        self.assertEqual((found["cause"], found["late_ranks"]), ("never_entered", [LATE]), text)
        frames = [("hang_job.py", name) for name in ("next", "train", "<module>")]
        self.assertEqual(self.python_frames(found["stacks"]), frames)
        self.assertRegex(text, rf"rank {LATE} is in Python at support/hang_job.py:\d+ (Loader\.)?next, called from support/hang_job.py:\d+ train, ")
        # A stopped process cannot be asked, and is read all the same.
        os.kill(pids[LATE], signal.SIGSTOP)
        found, text = self.finding()
        self.assertEqual(found["cause"], "stopped", text)
        self.assertEqual(self.python_frames(found["stacks"]), frames)

    def test_a_rank_that_saves_a_checkpoint(self):
        self.start(LATE, 20, "save", python=True).pids()
        answers = []

        def waits():
            answers.append(self.hang("--format", "json"))
            jobs = json.loads(answers[-1][1])["jobs"] if answers[-1][1] else []
            return jobs and jobs[0]["verdict"] == "waiting"
        wait_until(waits, "the wait", lambda: str(answers[-1]) + self.job.rank_output(), 60)
        self.assertEqual(answers[-1][0], NO_HANG)
        found, = json.loads(answers[-1][1])["jobs"][0]["findings"]
        self.assertIn(("hang_job.py", "save_checkpoint"), self.python_frames(found["stacks"]))

    def test_the_aggregator_explains_it_too(self):
        with tempfile.TemporaryDirectory(prefix="lk-") as folder:
            address = LocalAggregator(self, BIN, folder).address
            self.start(LATE, 20, "sleep", python=True, env={"LOCKSTEP_AGGREGATOR": address}).pids()
            answers = []

            def hangs():
                answers.append(self.hang("--format", "json", "--aggregator", address))
                return answers[-1][0] == HANG
            wait_until(hangs, "the hang", lambda: str(answers[-1]) + self.job.rank_output(), 60)
            document = json.loads(answers[-1][1])
            found, = document["jobs"][0]["findings"]
            self.assertEqual((found["cause"], found["late_ranks"], document["silent_hosts"]), ("never_entered", [LATE], []))
            self.assertEqual(self.python_frames(found["stacks"])[1], ("hang_job.py", "train"))

    def test_no_hang_without_progress(self):
        self.start(mode=("--preload",)).pids()
        code, _, err = self.hang()
        self.assertEqual(code, 1)
        self.assertIn("lockstep run --mode nccl", err)

    def test_watch_waits_for_the_hang_and_ends_with_the_job(self):
        self.start("--kind", "sleep", "--rank", LATE, "--step", 50).pids()
        watch = subprocess.run([BIN / "lockstep", "hang", "--watch", "--after", AFTER], env=self.job.env, text=True, capture_output=True, timeout=60)
        self.assertEqual(watch.returncode, HANG, watch.stdout + watch.stderr)
        waited = float(re.search(r"wait in it for ([\d.]+) s", watch.stdout).group(1))
        self.assertLess(waited, 1 + WITHIN)


if __name__ == "__main__":
    print(f"the late rank is {LATE}, the link that is cut {SENDER} to {RECEIVER}")
    unittest.main(verbosity=2)
