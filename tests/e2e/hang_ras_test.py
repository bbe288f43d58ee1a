"""`lockstep hang` with NCCL's RAS as its second source. RAS is a fake in the versions of NCCL, or hostile; the ranks,
the daemon and the command are real."""
import json
import pathlib
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from fake_ras import FakeRas  # noqa: E402
from live_job import LiveJob  # noqa: E402
from local_aggregator import LocalAggregator  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STACK = BIN.parent / "lib" / "sim_stack"
RANKS, LATE = 3, 1
FAILED, NO_HANG, HANG = 1, 0, 3
HOST = "10.0.0.1"


class Job:
    """Ranks of which one sleeps at step 20. Without `--mode nccl` they keep no progress."""

    def __init__(self, ras, mode, env=None):
        self.ras = ras
        self.folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
        work = pathlib.Path(self.folder.name)
        command = [str(BIN / "lockstep_hang_loop"), "--id-file", str(work / "id"), "--kind", "sleep", "--rank", str(LATE), "--step", "20"]
        env = {"LD_LIBRARY_PATH": str(STACK), "SIMGPU_KERNELS": "*scale*=1000000ms", "NCCL_RAS_ADDR": ras.address, **(env or {})}
        self.live = LiveJob(BIN, work, ranks=RANKS, env=env, rank_command=command, run_args=mode)
        self.live.__enter__()
        ranks = [rank for daemon in self.live.wait_for_ranks()["daemons"] for rank in daemon["ranks"]]
        self.pids = {rank["rank"]: rank["pid"] for rank in ranks}

    def end(self):
        self.live.__exit__()
        self.folder.cleanup()
        self.ras.close()


class HangRas(unittest.TestCase):
    def members(self, *calls):
        return [{"pid": self.job.pids[rank], "host": HOST, "calls": count} for rank, count in enumerate(calls)]

    def hang(self, *args, after="1s"):
        done = self.job.live.cli("hang", "--after", after, *args)
        return done.returncode, done.stdout, done.stderr


class WithoutProgress(HangRas):
    @classmethod
    def setUpClass(cls):
        cls.job = Job(FakeRas(), mode=("--preload",))
        cls.addClassCleanup(cls.job.end)

    def setUp(self):
        self.ras = self.job.ras
        self.ras.version, self.ras.step, self.ras.hostile, self.ras.hash = "2.28.9", 0, None, 0xAB
        self.ras.members = self.members(42, 41, 42)
        self.ras.questions = 0

    def test_every_version_names_the_late_rank(self):
        pid = self.job.pids[LATE]
        for version, what in (("2.24.3", "collectives"), ("2.26.2", "all_reduce"), ("2.27.7", "all_reduce"), ("2.28.9", "all_reduce")):
            with self.subTest(version=version):
                self.ras.version = version
                code, out, err = self.hang()
                self.assertEqual(code, HANG, out + err)
                self.assertRegex(out, r"^HANG: job \S+ has members behind others, and no count has changed in 1.0 s\n")
                self.assertRegex(out, rf"RAS: rank {LATE} \(\S+, pid {pid}\) has called 41 {what} of communicator 00000000000000ab "
                                      r"where the 2 others have called 42")
                self.assertIn(f"NCCL {version}", out)

    def test_a_longer_pause_is_announced(self):
        code, out, err = self.hang(after="1500ms")
        self.assertEqual(code, HANG, out + err)
        self.assertIn("it is read again in 1.5 s (--after)", err)
        self.assertIn("no count has changed in 1.5 s", out)

    def test_the_document(self):
        code, out, err = self.hang("--format", "json")
        self.assertEqual(code, HANG, out + err)
        job, = json.loads(out)["jobs"]
        self.assertEqual((job["verdict"], job["ranks_seen"], job["findings"]), ("hang", 0, []))
        self.assertEqual((job["ras"]["result"], job["ras"]["late_ranks"], job["ras"]["nccl_version"]), ("stands_still", [LATE], "2.28.9"))
        self.assertEqual(job["ras"]["between_ns"], 1_000_000_000)

    def test_counts_that_move_are_not_a_hang(self):
        self.ras.step = 1
        code, out, err = self.hang()
        self.assertEqual(code, NO_HANG, out + err)
        self.assertRegex(out, "^NO HANG: members of job .* have different counts, which change")
        self.assertEqual(self.ras.questions, 2)

    def test_equal_counts_are_not_a_hang(self):
        for self.ras.version in ("2.24.3", "2.27.7", "2.28.9"):
            self.ras.questions = 0
            self.ras.members = self.members(42, 42, 42)
            code, out, err = self.hang()
            self.assertEqual(code, NO_HANG, out + err)
            self.assertIn("this does not show whether the job moves", out)
            self.assertEqual(self.ras.questions, 1)

    def test_a_rank_that_does_not_answer(self):
        for version in ("2.27.7", "2.28.9"):
            with self.subTest(version=version):
                self.ras.version = version
                self.ras.members = self.members(42, None, 42)
                code, out, err = self.hang()
                self.assertEqual(code, HANG, out + err)
                self.assertRegex(out, rf"rank {LATE} \(\S+, pid \d+\) of communicator \w+ does not answer RAS")

    def test_a_hostile_program(self):
        for hostile, problem in (("silent", "does not answer in time"), ("endless", "does not speak RAS's protocol"),
                                 ("wrong", "does not speak RAS's protocol"), ("damaged", "RAS's JSON is not valid"), ("cut", "RAS's JSON is not valid"),
                                 ("flood", "longer than 1048576 bytes")):
            with self.subTest(hostile=hostile):
                self.ras.hostile = hostile
                code, out, err = self.hang()
                self.assertEqual(code, FAILED, out + err)
                self.assertIn("lockstep run --mode nccl", err)
                self.assertIn(problem, err)

    def test_the_ras_of_another_job(self):
        for member in self.ras.members:
            member["pid"] += 1_000_000
        code, out, err = self.hang()
        self.assertEqual(code, FAILED, out + err)
        self.assertIn("the RAS of another job answers there", err)


class WithProgress(HangRas):
    @classmethod
    def setUpClass(cls):
        cls.job = Job(FakeRas(), mode=("--mode", "nccl"))
        cls.addClassCleanup(cls.job.end)

    def finding(self):
        """Waits for the hang, and returns the document's job and the text."""
        answers = []

        def hangs():
            answers.append(self.hang("--format", "json"))
            return answers[-1][0] == HANG
        wait_until(hangs, "the hang", lambda: str(answers[-1]) + self.job.live.rank_output(), 60)
        job, = json.loads(answers[-1][1])["jobs"]
        return job

    def test_it_is_evidence(self):
        ras = self.job.ras
        found = self.finding()
        self.assertEqual(found["findings"][0]["late_ranks"], [LATE])
        # The simulated NCCL has no RAS, so the fake follows the communicator that the tables show.
        ras.hash = int(found["findings"][0]["communicator"], 16)
        for calls, result in (((21, 20, 21), "agrees"), ((21, None, 21), "agrees"), ((21, 21, 21), "contradicts")):
            for ras.version in ("2.27.7", "2.28.9"):
                ras.members = self.members(*calls)
                job = self.finding()
                self.assertEqual((job["ras"]["result"], job["verdict"]), (result, "hang"), (calls, ras.version, job["ras"]))
        ras.version, ras.members = "2.28.9", self.members(21, 20, 21)
        code, out, _ = self.hang()
        self.assertEqual(code, HANG)
        self.assertRegex(out, rf"\n  NCCL's RAS \(NCCL 2.28.9\) agrees: rank {LATE} \(\S+, pid \d+\) has called 21 collectives where another has called 22")
        ras.hostile = "wrong"
        code, out, _ = self.hang()
        self.assertEqual(code, HANG)
        self.assertRegex(out, r"\n  NCCL's RAS is not reachable: 127.0.0.1:\d+: the program that listens there does not speak RAS's protocol\n")
        ras.hostile = None


class OneJobEach(HangRas):
    def test_ras_that_is_off_is_not_asked(self):
        self.job = Job(FakeRas(), mode=("--preload",), env={"NCCL_RAS_ENABLE": "0"})
        self.addCleanup(self.job.end)
        code, _, err = self.hang()
        self.assertEqual(code, FAILED)
        self.assertIn("NCCL_RAS_ENABLE is 0", err)
        self.assertEqual(self.job.ras.questions, 0)

    def test_an_aggregator_asks_it_too(self):
        with tempfile.TemporaryDirectory(prefix="lk-") as folder:
            address = LocalAggregator(self, BIN, folder).address
            self.job = Job(FakeRas(), mode=("--preload",), env={"LOCKSTEP_AGGREGATOR": address})
            self.addCleanup(self.job.end)
            self.job.ras.members = self.members(42, 41, 42)
            answers = []

            def hangs():
                answers.append(self.hang("--aggregator", address))
                return answers[-1][0] == HANG
            wait_until(hangs, "the hang", lambda: str(answers[-1]), 60)
            self.assertRegex(answers[-1][1], rf"RAS: rank {LATE} ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
