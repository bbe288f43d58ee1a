"""Captures that a training step, an NVTX range or the profiler API begins and ends, on eight ranks mid-job."""
import json
import pathlib
import re
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from live_job import LiveJob, report_of  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
RANKS = 8


class Triggers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-triggers-")
        cls.work = pathlib.Path(cls.folder.name)
        cls.job = LiveJob(BIN, cls.work, ranks=RANKS,
                          rank_args=("--forever", "--seed", "11", "--fault", "slow_gpu", "--fault-rank", "5", "--fault-size", "0.2",
                                     "--profile-every", "20", "--profile-steps", "5"))
        cls.job.__enter__()
        cls.job.wait_for_ranks()

    @classmethod
    def tearDownClass(cls):
        cls.job.__exit__()
        cls.folder.cleanup()

    def trace(self, *args, code=0):
        out = self.work / f"capture-{time.monotonic_ns()}"
        done = self.job.trace(out, *args)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertEqual(out.exists(), code == 0, "a folder is written when there is something in it")
        return (report_of(out) if code == 0 else None), done.stderr, out

    def step_now(self):
        """The step the ranks are at, by a capture of their ranges."""
        report, _, _ = self.trace("--duration", "400ms", "--activities", "nvtx,kernel,runtime")
        return report["steps"][-1]["step"]

    def assert_culprit(self, report):
        first = report["stragglers"][0]
        self.assertEqual(first["ranks"], [5], first)
        self.assertIn(first["cause"], CAUSES["slow_gpu"])

    def test_steps_are_whole_and_the_same_on_all_ranks(self):
        report, said, _ = self.trace("--steps", "6")
        self.assertEqual(len(report["steps"]), 6, [s["step"] for s in report["steps"]])
        numbers = [s["step"] for s in report["steps"]]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 6)))
        for step in report["steps"]:
            self.assertEqual(len(step["ranks"]), RANKS)
        self.assert_culprit(report)
        self.assertEqual(len(re.findall(r"waiting, at step \d+", said)), 0, "told again on a terminal only")
        self.assertEqual(sum(loss["records"] for loss in report["capture"]["losses"]), 0, report["capture"]["losses"])

    def test_a_step_by_its_number(self):
        wanted = self.step_now() + 25
        report, _, _ = self.trace("--start-on-step", wanted, "--steps", "4")
        self.assertEqual([s["step"] for s in report["steps"]], list(range(wanted, wanted + 4)))
        self.assert_culprit(report)

    def test_a_step_that_has_passed(self):
        _, said, _ = self.trace("--start-on-step", "1", "--steps", "1", code=6)
        self.assertRegex(said, r"step 1 had passed: the first that began was step \d+; ask for a later one")

    def test_a_range_begins_and_ends_it(self):
        wanted = self.step_now() + 25
        report, _, out = self.trace("--start-on-range", f"ProfilerStep#{wanted}")
        step = report["capture"]["duration_ns"]
        self.assertLess(step, 400_000_000, "one step, not the timeout")
        manifest = json.loads((out / "records" / "manifest.json").read_text())
        for process in manifest["processes"]:
            length = process["t1_host_ns"] - process["t0_host_ns"]
            self.assertGreater(length, 20_000_000)
            self.assertLess(length, 400_000_000)

    def test_a_range_that_never_comes(self):
        before = time.monotonic()
        _, said, _ = self.trace("--start-on-range", "no such range", "--trigger-timeout", "2s", code=6)
        self.assertLess(time.monotonic() - before, 12)
        self.assertRegex(said, r"ranks 0-7 failed: a range of that name did not come within the time to wait for it")

    def test_the_profiler_api(self):
        report, said, _ = self.trace("--start-on-profiler-api")
        self.assertGreaterEqual(len(report["steps"]), 3, "five steps, the first of them begun before it was heard of")
        self.assertLessEqual(len(report["steps"]), 5)
        late_ms = [float(x) / (1000 if unit == "us" else 1) for x, unit in re.findall(r"capturing, late by ([\d.]+) (us|ms)", said)]
        self.assertEqual(len(late_ms), RANKS, said)
        self.assertLess(max(late_ms), 200)

    def test_stopping_while_it_waits_writes_nothing(self):
        import signal
        import subprocess
        out = self.work / "stopped"
        process = subprocess.Popen([str(BIN / "lockstep"), "trace", "-o", str(out), "--start-on-range", "no such range"],
                                   env=self.job.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=30)[1]
        self.assertNotEqual(process.returncode, 0, said)
        self.assertIn("the capture was stopped before its trigger came", said)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
