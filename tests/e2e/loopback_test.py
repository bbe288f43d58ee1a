"""One machine, eight ranks: trigger a capture mid-job and get the right rank, every file, and no process left."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from live_job import LiveJob, report_of  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))

class Loopback(unittest.TestCase):
    def capture(self, *rank_args, trace_args=()):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        with LiveJob(BIN, work, rank_args=("--forever", "--seed", "7", *rank_args)) as job:
            status = job.wait_for_ranks()
            done = job.trace(work / "capture", "--duration", "2s", *trace_args)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout + job.rank_output())
            self.ranks_said = job.rank_output()
        self.assertEqual(job.daemons(), [], "the daemon is still there")
        self.status, self.trace_output, self.work = status, done, work
        return report_of(work / "capture")

    def assert_named(self, report, rank, fault):
        self.assertTrue(report["stragglers"], json.dumps(report["slowdown"]))
        first = report["stragglers"][0]
        self.assertIn(rank, first["ranks"], first)
        self.assertIn(first["cause"], CAUSES[fault], first)

    def test_a_slow_gpu_is_named_and_every_promised_file_is_there(self):
        report = self.capture("--fault", "slow_gpu", "--fault-rank", "3", "--fault-size", "0.2")
        self.assert_named(report, 3, "slow_gpu")
        capture = self.work / "capture"
        for name in ("report.json", "report.txt", "report.html", "merged.pftrace", "records/manifest.json"):
            self.assertTrue((capture / name).is_file(), name)
        traces = sorted((capture / "traces").glob("*.pt.trace.json.gz"))
        self.assertEqual(len(traces), 8)
        ranks = set()
        for path in traces:
            document = json.load(gzip.open(path, "rt"))
            ranks.add(document["distributedInfo"]["rank"])
            self.assertTrue(any(e.get("cat") == "kernel" for e in document["traceEvents"]), path)
        self.assertEqual(ranks, set(range(8)))
        self.assertEqual([p.name for p in capture.rglob("*.partial")], [])
        for rank in report["ranks"]:
            parts = sum(rank[k] for k in ("compute_ns", "exposed_transfer_ns", "exposed_wait_ns", "exposed_unsplit_ns",
                                          "exposed_memory_ns", "idle_ns"))
            self.assertEqual(parts, rank["span_ns"], rank)
        for rank in range(8):
            self.assertRegex(self.trace_output.stderr, rf"rank {rank} .*: done")
        self.assertIn("rank 3", self.trace_output.stdout.splitlines()[0])
        # The page of the capture is the whole one, with the views that need each range of the host.
        again = self.work / "again.html"
        subprocess.run([str(BIN / "lockstep"), "report", str(capture), "--format", "html", "-o", str(again)], check=True, capture_output=True)
        self.assertEqual(again.read_bytes(), (capture / "report.html").read_bytes())

    def test_a_stalled_host_is_named(self):
        self.assert_named(self.capture("--fault", "host_stall", "--fault-rank", "6", "--fault-size", "0.15"), 6, "host_stall")

    def test_a_slow_link_is_named(self):
        self.assert_named(self.capture("--fault", "slow_link", "--fault-rank", "1", "--fault-size", "0.15"), 1, "slow_link")

    def test_slow_copies_are_named(self):
        self.assert_named(self.capture("--fault", "copy", "--fault-rank", "4", "--fault-size", "0.15"), 4, "copy")

    def test_a_healthy_job_is_not_blamed(self):
        report = self.capture("--fault", "none")
        self.assertEqual(report["stragglers"], [])

    def test_a_request_that_matches_nothing_says_what_there_is(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-e2e-") as folder:
            work = pathlib.Path(folder)
            with LiveJob(BIN, work, ranks=2, rank_args=("--forever",)) as job:
                job.wait_for_ranks()
                done = job.trace(work / "capture", "--job", "no-such-job", "--duration", "1s")
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("no-such-job", done.stderr)
                self.assertFalse((work / "capture").exists())

    def test_without_a_daemon_the_cli_says_so_and_what_to_do(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-e2e-") as folder:
            job = LiveJob(BIN, folder)
            done = job.trace(pathlib.Path(folder) / "capture", "--duration", "1s")
            self.assertIn(done.returncode, (1, 4), done.stderr)
            self.assertIn("lockstep run", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
