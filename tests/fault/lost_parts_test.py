"""Parts of Lockstep that die in the middle of a capture: what was recorded until then is kept, the exit code says that it is
partial, and the job runs on."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from live_job import LiveJob, report_of  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
PARTIAL = 7


class LostParts(unittest.TestCase):
    def capture(self, kill, ranks=4, duration=4.0):
        """A capture of `duration` seconds in whose middle `kill(job)` is called. Returns the finished CLI and the folder."""
        folder = tempfile.TemporaryDirectory(prefix="lockstep-fault-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        with LiveJob(BIN, work, ranks=ranks, rank_args=("--forever", "--seed", "3")) as job:
            job.wait_for_ranks()
            cli = subprocess.Popen([str(BIN / "lockstep"), "trace", "-o", str(work / "capture"), "--duration", f"{duration}s"],
                                   env=job.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(lambda: cli.poll() is None and cli.kill())
            time.sleep(1.0 + duration / 2)
            kill(job)
            out, err = cli.communicate(timeout=60)
            time.sleep(0.5)
            self.assertIsNone(job.process.poll(), "the job ended with Lockstep:\n" + job.rank_output())
        return subprocess.CompletedProcess(cli.args, cli.returncode, out, err), work / "capture"

    def assert_partial(self, done, capture, least_kernel_ns):
        self.assertEqual(done.returncode, PARTIAL, done.stderr + done.stdout)
        report = report_of(capture)
        self.assertTrue(report["capture"]["partial"])
        for rank in report["ranks"]:
            self.assertGreater(rank["compute_ns"], least_kernel_ns, rank)
        self.assertEqual(list(capture.rglob("*.partial")), [])
        return report

    def test_a_daemon_that_dies_leaves_what_it_had_sent(self):
        def kill(job):
            for pid in job.daemons():
                os.kill(pid, signal.SIGKILL)
        done, capture = self.capture(kill)
        report = self.assert_partial(done, capture, least_kernel_ns=200_000_000)
        self.assertEqual(len(report["ranks"]), 4)
        self.assertRegex(done.stderr, r"rank 0 .*gone")

    def test_a_rank_that_stands_still_leaves_what_it_had_recorded(self):
        def kill(job):
            status = job.cli("status", "--format", "json").stdout
            pid = next(rank["pid"] for rank in json.loads(status)["daemons"][0]["ranks"] if rank["rank"] == 2)
            os.kill(pid, signal.SIGSTOP)  # mpiexec would end the job with a rank that dies
            self.addCleanup(lambda: pathlib.Path(f"/proc/{pid}").exists() and os.kill(pid, signal.SIGKILL))
        done, capture = self.capture(kill)
        report = self.assert_partial(done, capture, least_kernel_ns=200_000_000)
        self.assertEqual(len(report["ranks"]), 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
