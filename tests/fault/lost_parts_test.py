"""Kills parts of Lockstep in the middle of a capture. The records until then are kept, the exit code reports
a partial capture, and the job continues."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import repeat_when_late  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
PARTIAL = 7
RANKS = 4


class LostParts(unittest.TestCase):
    def check(self, kill, output, duration):
        """Captures a job and calls `kill(job, pids)` in the middle, with the ranks' process ids. Checks what is
        kept. Repeats all if the machine's load spoiled them."""
        def attempt(pace):
            done, capture = self.capture(kill, duration, pace)
            report = self.assert_partial(done, capture, least_kernel_ns=200_000_000)
            self.assertEqual(len(report["ranks"]), RANKS)
            self.assertRegex(done.stderr, output)
        repeat_when_late(attempt, lambda: self.job.output())

    def capture(self, kill, duration, pace):
        """Returns the finished CLI process and the folder."""
        folder = tempfile.TemporaryDirectory(prefix="lockstep-fault-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        self.stopped = []
        with LiveJob(BIN, work, ranks=RANKS, rank_args=("--forever", "--seed", "3", *pace)) as job:
            self.job = job
            pids = {rank["rank"]: rank["pid"] for daemon in job.wait_for_ranks()["daemons"] for rank in daemon["ranks"]}
            cli = subprocess.Popen([str(BIN / "lockstep"), "trace", "-o", str(work / "capture"), "--duration", duration],
                                   env={**job.env, "TMPDIR": str(work)}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(lambda: cli.poll() is None and cli.kill())
            # The first batches show that the window is open. The ranks then work for a second.
            wait_until(lambda: len(stored_files(work)) == RANKS, "records of every rank", lambda: str(list(work.rglob("*"))))
            time.sleep(1.0)
            kill(job, pids)
            out, err = cli.communicate(timeout=120)
            for pid in self.stopped:
                os.kill(pid, signal.SIGCONT)
            self.assertIsNone(job.process.poll(), "the job ended with Lockstep:\n" + job.rank_output())
        return subprocess.CompletedProcess(cli.args, cli.returncode, out, err), work / "capture"

    def assert_partial(self, done, capture, least_kernel_ns):
        self.assertEqual(done.returncode, PARTIAL, done.stderr + done.stdout)
        report = report_of(capture)
        self.assertTrue(report["capture"]["partial"])
        for rank in report["ranks"]:
            self.assertGreater(rank["compute_ns"], least_kernel_ns, rank)
        self.assertEqual(list(capture.rglob("*.partial*")), [])
        return report

    def test_a_killed_daemon_leaves_its_sent_records(self):
        def kill(job, _):
            for pid in job.daemons():
                os.kill(pid, signal.SIGKILL)
        self.check(kill, r"rank 0 .*gone", "8s")

    def test_a_stopped_rank_leaves_its_records(self):
        def kill(_, pids):
            os.kill(pids[2], signal.SIGSTOP)  # stopped, because mpiexec would end the job if a rank died
            self.stopped = [pids[2]]
        self.check(kill, "rank 2 ", "8s")


def stored_files(work):
    """Returns the files that have records."""
    return [path for path in work.rglob("*.lsr") if path.stat().st_size > 512]


if __name__ == "__main__":
    unittest.main(verbosity=2)
