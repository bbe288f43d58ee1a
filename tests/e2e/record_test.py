"""Captures the past of real ranks of a CUDA and NCCL program on the simulated stack under mpiexec. The ranks were not
captured while they ran, and have ended in some cases. `lockstep record dump` must name the late rank."""
import gzip
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from live_job import report_of  # noqa: E402
from local_aggregator import LocalAggregator  # noqa: E402
from loop_job import loop_job  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
RANKS = 4
# Another one in each run, which prints it.
LATE = random.randrange(RANKS)
# Of hang_loop's --kind late.
LATE_NS = 10e6
# With fewer, the start of the job weighs too much.
STEPS = 60
PARTIAL, NOT_FOUND = 7, 4


class Record(unittest.TestCase):
    def start(self, kind="late", mode=("--mode", "nccl"), env=None, work=None, rank=None):
        """Starts a job in which rank LATE comes late in each step."""
        if work is None:
            folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
            self.addCleanup(folder.cleanup)
            work = pathlib.Path(folder.name)
        job = loop_job(BIN, work, RANKS, kind, LATE if rank is None else rank, mode=mode, env=env)
        job.__enter__()
        self.addCleanup(job.__exit__)
        return job

    def dump(self, job, *args):
        folder = job.work / f"dump{time.monotonic_ns()}"
        done = job.cli("record", "dump", "-o", folder, *args)
        return folder, done

    def wait_for_dump(self, job, *args):
        """Dumps until there are enough steps for a verdict. Returns the folder and its report."""
        last = []

        def named():
            folder, done = self.dump(job, *args)
            last[:] = [folder, done.stdout + done.stderr]
            if done.returncode not in (0, PARTIAL):
                return False
            report = report_of(folder)
            return len(report["steps"]) >= STEPS and any(s["verdict"] in ("sure", "likely") for s in report["stragglers"])
        wait_until(named, "a verdict", lambda: last[1] + job.rank_output(), 60)
        return last[0], report_of(last[0])

    def assert_late_rank(self, report, rank=None):
        first = report["stragglers"][0]
        self.assertEqual((first["ranks"], first["cause"]), ([LATE if rank is None else rank], "unknown"), report["stragglers"])
        self.assertAlmostEqual(first["gain_ns_per_step"], LATE_NS, delta=0.3 * LATE_NS, msg=json.dumps(report, indent=1))
        self.assertEqual(report["shared_losses"], [], "the devices only seem to idle")

    def newest_stamp(self, folder):
        """Returns the end of the newest kernel of each rank, in seconds since 1970."""
        ends = []
        for path in sorted((folder / "traces").iterdir()):
            trace = json.loads(gzip.decompress(path.read_bytes()))
            base = trace.get("baseTimeNanoseconds", 0)
            ends.append(max(base + (e["ts"] + e["dur"]) * 1e3 for e in trace["traceEvents"] if e.get("cat") == "kernel") / 1e9)
        return ends

    def test_a_rank_whose_host_is_late(self):
        job = self.start()
        job.wait_for_ranks()
        folder, report = self.wait_for_dump(job, "--last", "5s")
        self.assert_late_rank(report)
        self.assertEqual(len(report["ranks"]), RANKS)
        text = (folder / "report.txt").read_text()
        self.assertIn("only NCCL's operations were recorded", " ".join(text.split()))
        done = job.cli("record", "dump", "--last", "1s", "--ranks", "0,1", "--formats", "none", "-o", job.work / "two")
        self.assertIn(done.returncode, (0, PARTIAL), done.stderr)
        self.assertEqual(len(report_of(job.work / "two")["ranks"]), 2)

    def test_a_rank_whose_gpu_is_slow(self):
        job = self.start("slow")
        job.wait_for_ranks()
        self.assert_late_rank(self.wait_for_dump(job, "--last", "5s")[1])

    def test_a_job_that_was_killed(self):
        job = self.start()
        job.wait_for_ranks()
        self.wait_for_dump(job, "--last", "5s")
        job.signal_ranks(signal.SIGKILL)
        killed = time.time()
        job.process.wait(30)
        wait_until(lambda: not any(d["ranks"] for d in json.loads(job.cli("status", "--format", "json").stdout)["daemons"]), "the ranks' end")
        folder, report = self.wait_for_dump(job, "--last", "30s")
        self.assert_late_rank(report)
        for end in self.newest_stamp(folder):
            self.assertLess(killed - end, 2, "the last operations are missing")
        self.assertIn("its program ended inside the window", (folder / "report.txt").read_text())

    def test_a_job_that_was_restarted(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
        self.addCleanup(folder.cleanup)
        env = {"LOCKSTEP_JOB": "train"}
        first = self.start(env=env, work=pathlib.Path(folder.name))
        pids = {rank["pid"] for daemon in first.wait_for_ranks()["daemons"] for rank in daemon["ranks"]}
        self.wait_for_dump(first, "--last", "5s")
        first.signal_ranks(signal.SIGKILL)
        first.process.wait(30)
        # Another rank is late now.
        late = (LATE + 1) % RANKS
        second = self.start(env={**env, "LOCKSTEP_SOCKET": str(first.socket)}, work=pathlib.Path(folder.name) / "second", rank=late)
        second.wait_for_ranks()
        self.assert_late_rank(self.wait_for_dump(second, "--job", "train", "--last", "3s")[1], late)
        ended, report = self.wait_for_dump(second, "--job", "train", "--last", "60s", "--ended")
        self.assert_late_rank(report)
        manifest = json.loads((ended / "records/manifest.json").read_text())
        self.assertEqual({process["pid"] for process in manifest["processes"]}, pids)
        # Without a name it is the job that ended last, and not the first one.
        second.signal_ranks(signal.SIGKILL)
        second.process.wait(30)
        self.assert_late_rank(self.wait_for_dump(second, "--last", "60s")[1], late)

    def test_the_aggregator_dumps_it_too(self):
        with tempfile.TemporaryDirectory(prefix="lk-") as folder:
            address = LocalAggregator(self, BIN, folder).address
            job = self.start(env={"LOCKSTEP_AGGREGATOR": address})
            job.wait_for_ranks()
            self.assert_late_rank(self.wait_for_dump(job, "--last", "5s", "--aggregator", address)[1])
            job.signal_ranks(signal.SIGKILL)
            job.process.wait(30)
            self.assert_late_rank(self.wait_for_dump(job, "--last", "60s", "--aggregator", address)[1])

    def test_windows_of_the_gpus(self):
        with tempfile.TemporaryDirectory(prefix="lk-") as folder:
            address = LocalAggregator(self, BIN, folder).address
            job = self.start(env={"LOCKSTEP_AGGREGATOR": address}, mode=())
            job.wait_for_ranks()
            by = ("--aggregator", address)
            # A flag counts more than the environment.
            job.env["LOCKSTEP_AGGREGATOR"] = "unix:/nowhere"
            on = job.cli("record", "on", "--gpu", "200ms/10s", "--keep", "1", *by)
            self.assertEqual(on.returncode, 0, on.stderr)
            self.assertRegex(on.stdout, r"^job \S+ \(uid \d+\): 200 ms of the GPUs' time each 10 s \(2\.0 %\), the last 1 captures are kept$")

            def recording():
                status = json.loads(job.cli("status", "--format", "json", *by).stdout)
                return status["recordings"][0] if status["recordings"] else None
            wait_until(lambda: recording()["captures"], "a window", lambda: f"{recording()}\n{job.rank_output()}")
            first = recording()["captures"][0]
            report = json.loads(pathlib.Path(folder, "state/captures", first, "report.json").read_text())
            self.assertEqual(len(report["ranks"]), RANKS)
            # The next window's capture replaces it.
            wait_until(lambda: recording()["captures"] not in ([], [first]), "the next window", recording)
            second, = recording()["captures"]
            wait_until(lambda: os.listdir(f"{folder}/state/captures") == [second], "the removal", lambda: os.listdir(f"{folder}/state/captures"))
            self.assertIn(f"captures {second} to {second}", job.cli("record", "status", *by).stdout)
            off = job.cli("record", "off", *by)
            self.assertEqual(off.returncode, 0, off.stderr)
            self.assertIsNone(recording())
            self.assertEqual(job.cli("record", "off", *by).returncode, NOT_FOUND)
            self.assertEqual(job.cli("record", "status", *by).stdout, "no job is recorded\n")
            audit = pathlib.Path(folder, "state/audit.jsonl").read_text()
            self.assertIn('"lockstep record on, by ', audit)
            for wrong in ("1s", "1s/5s", "20s/60s", "1/60", "0s/60s", "1s/60s/2"):
                done = job.cli("record", "on", "--gpu", wrong, *by)
                self.assertIn(done.returncode, (1, 2), done.stderr)
                self.assertIn("1s/60s" if wrong != "1/60" else "2s", done.stderr)

    def test_a_job_without_the_log(self):
        job = self.start(mode=())
        job.wait_for_ranks()
        folder, done = self.dump(job, "--last", "5s")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("lockstep run --mode nccl", done.stderr)
        self.assertFalse(folder.exists())

    def test_no_job_and_wrong_values(self):
        job = self.start(mode=())
        job.wait_for_ranks()
        self.assertEqual(self.dump(job, "--job", "none")[1].returncode, NOT_FOUND)
        for last in ("0s", "-1s", "2h", "soon"):
            folder, done = self.dump(job, "--last", last)
            self.assertIn(done.returncode, (1, 2), done.stderr)
            self.assertFalse(folder.exists())


if __name__ == "__main__":
    print(f"late rank: {LATE}", os.uname().nodename, flush=True)
    unittest.main(verbosity=2)
