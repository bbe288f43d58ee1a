"""Captures eight ranks on one machine mid-job. The capture must name the right rank, hold every file, and
leave no process."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import repeat_when_late  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))


class Loopback(unittest.TestCase):
    def check(self, judge, *rank_args):
        """Captures a job and calls `judge(report)`. Repeats both if the machine's load spoiled them."""
        def attempt(pace):
            report = self.capture(*pace, *rank_args)
            judge(report)
            return report
        return repeat_when_late(attempt, lambda: self.job.output())

    def capture(self, *rank_args):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-e2e-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        with LiveJob(BIN, work, rank_args=("--forever", "--seed", "7", *rank_args)) as self.job:
            self.job.wait_for_ranks()
            done = self.job.trace(work / "capture", "--duration", "2s")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout + self.job.rank_output())
        self.assertEqual(self.job.daemons(), [], "the daemon is still there")
        self.trace_output, self.work = done, work
        return report_of(work / "capture")

    def assert_named(self, report, rank, fault):
        self.assertTrue(report["stragglers"], json.dumps(report["slowdown"]))
        first = report["stragglers"][0]
        self.assertIn(rank, first["ranks"], first)
        self.assertIn(first["cause"], CAUSES[fault], first)

    def check_fault(self, fault, rank, size):
        return self.check(lambda report: self.assert_named(report, rank, fault), "--fault", fault, "--fault-rank", rank, "--fault-size", size)

    def test_names_a_slow_gpu_and_writes_every_documented_file(self):
        report = self.check_fault("slow_gpu", 3, "0.2")
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
        self.assertEqual([p.name for p in capture.rglob("*.partial*")], [])
        for rank in report["ranks"]:
            parts = sum(rank[k] for k in ("compute_ns", "exposed_transfer_ns", "exposed_wait_ns", "exposed_unsplit_ns",
                                          "exposed_memory_ns", "idle_ns"))
            self.assertEqual(parts, rank["span_ns"], rank)
        for rank in range(8):
            self.assertRegex(self.trace_output.stderr, rf"rank {rank} .*: done")
        self.assertIn("rank 3", self.trace_output.stdout.splitlines()[0])
        # The capture's page must equal a full page, including the views that need every range of the host.
        again = self.work / "again.html"
        subprocess.run([str(BIN / "lockstep"), "report", str(capture), "--format", "html", "-o", str(again)], check=True, capture_output=True)
        self.assertEqual(again.read_bytes(), (capture / "report.html").read_bytes())

    def test_names_a_stalled_host(self):
        self.check_fault("host_stall", 6, "0.15")

    def test_names_a_slow_link(self):
        self.check_fault("slow_link", 1, "0.15")

    def test_names_slow_copies(self):
        self.check_fault("copy", 4, "0.15")

    def test_a_healthy_job_has_no_straggler(self):
        self.check(lambda report: self.assertEqual(report["stragglers"], []), "--fault", "none")

    def test_a_request_without_a_match_lists_the_candidates(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-e2e-") as folder:
            work = pathlib.Path(folder)
            with LiveJob(BIN, work, ranks=2, rank_args=("--forever",)) as job:
                status = job.wait_for_ranks()
                done = job.trace(work / "capture", "--job", "no-such-job", "--duration", "1s")
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("no-such-job", done.stderr)
                self.assertFalse((work / "capture").exists())
                job_id = status["daemons"][0]["ranks"][0]["job"]
                words = job.cli("complete", "--", "trace", "--job", job_id[:1])
                self.assertEqual(words.stdout, f"{job_id}\tranks 0, 1\n", words.stderr)

    def test_the_cli_without_a_daemon_gives_the_remedy(self):
        with tempfile.TemporaryDirectory(prefix="lockstep-e2e-") as folder:
            job = LiveJob(BIN, folder)
            done = job.trace(pathlib.Path(folder) / "capture", "--duration", "1s")
            self.assertIn(done.returncode, (1, 4), done.stderr)
            self.assertIn("lockstep run", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
