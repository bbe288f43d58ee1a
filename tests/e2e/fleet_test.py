"""Captures a job of 64 nodes, simulated by lockstep-sim-fleet, through one aggregator. The report must name the
slow rank, and have every row of every rank. A daemon that leaves must be named."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from count_records import count_capture  # noqa: E402
from live_job import report_of  # noqa: E402
from local_aggregator import LocalAggregator  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
PARTIAL = 7


class Fleet(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-fleet-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def start(self, daemons, *options):
        """Starts an aggregator and a fleet, and waits until the aggregator has all ranks."""
        self.aggregator = LocalAggregator(self, BIN, self.work)
        wait_until(lambda: (self.work / "aggregator.sock").exists(), "the aggregator listens")
        with open(self.work / "fleet.err", "w") as errors:
            self.fleet = subprocess.Popen([BIN / "lockstep-sim-fleet", "--aggregator", self.aggregator.address, "--daemons", str(daemons),
                                           "--clock-burst", "5", "--clock-pause", "500ms", *options],
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.addCleanup(self.fleet.stdout.close)
        self.addCleanup(self.fleet.wait, 30)
        self.addCleanup(self.fleet.terminate)
        registered = self.line()
        self.assertEqual((registered["event"], registered["daemons"]), ("registered", daemons))
        wait_until(lambda: self.ranks_seen() == daemons, "the aggregator has all ranks")

    def line(self):
        text = self.fleet.stdout.readline()
        self.assertTrue(text, (self.work / "fleet.err").read_text())
        return json.loads(text)

    def ranks_seen(self):
        done = subprocess.run([BIN / "lockstep", "status", "--aggregator", self.aggregator.address, "--format", "json"],
                              capture_output=True, text=True, check=True, timeout=60)
        return sum(len(daemon["ranks"]) for daemon in json.loads(done.stdout)["daemons"])

    def trace(self, *options):
        return subprocess.run([BIN / "lockstep", "trace", "--aggregator", self.aggregator.address, "--duration", "500ms", "-o",
                               self.work / "capture", "--formats", "none", *options], capture_output=True, text=True, timeout=120)

    def test_64_daemons_with_a_slow_rank(self):
        self.start(64, "--rows", "1000", "--slow-rank", "37", "--slow-by", "25")
        done = self.trace()
        self.assertEqual(done.returncode, 0, done.stderr + self.aggregator.log_text())
        sent = self.line()
        self.assertEqual((sent["event"], sent["daemons"], sent["ranks"], sent["left"], sent["aborted"]), ("capture", 64, 64, 0, 0))
        for keys in (("arm_first_ns", "arm_last_ns", "start_last_ns"), ("t1_ns", "batch_first_ns", "batch_last_ns", "acked_last_ns")):
            moments = [sent[key] for key in keys]
            self.assertEqual(moments, sorted(moments), sent)
        report = report_of(self.work / "capture")
        self.assertEqual([row["rank"] for row in report["ranks"]], list(range(64)))
        self.assertEqual(report["capture"]["losses"], [])
        self.assertEqual(report["capture"]["incomplete"], [])
        self.assertEqual(report["stragglers"][0]["ranks"], [37], report["stragglers"])
        self.assertIn("rank 37", done.stdout.splitlines()[0])
        self.assertEqual(self.rows_of_records(), sent["rows"])

    def rows_of_records(self):
        files = count_capture(self.work / "capture").values()
        return sum(rows for kinds in files for kind, rows in kinds.items() if kind != "string")

    def test_a_daemon_that_leaves_makes_a_partial_capture_that_names_its_rank(self):
        self.start(8, "--rows", "1000", "--slow-rank", "2", "--leave", "5")
        done = self.trace()
        self.assertEqual(done.returncode, PARTIAL, done.stderr + done.stdout)
        sent = self.line()
        self.assertEqual((sent["daemons"], sent["left"], sent["aborted"]), (8, 1, 0))
        report = report_of(self.work / "capture")
        self.assertEqual([row["rank"] for row in report["capture"]["incomplete"]], [5])
        self.assertIn("rank 5", done.stderr)

    def test_a_fleet_refuses_another_machine(self):
        done = subprocess.run([BIN / "lockstep-sim-fleet", "--aggregator", "192.0.2.1:7077"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--other-machines", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
