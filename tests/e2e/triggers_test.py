"""Captures that a training step, an NVTX range or the profiler API starts and stops, on eight ranks mid-job."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import SharedJob, repeated_when_late  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from verdict import CAUSES  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
RANKS = 8


class Triggers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-triggers-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.work = pathlib.Path(cls.folder.name)
        cls.shared = SharedJob(lambda pace: LiveJob(BIN, cls.work / f"job{pace[1]}", ranks=RANKS, rank_args=(
            "--forever", "--seed", "11", *pace, "--fault", "slow_gpu", "--fault-rank", "5", "--fault-size", "0.2",
            "--profile-every", "10", "--profile-steps", "5")))
        cls.addClassCleanup(cls.shared.close)

    def trace(self, *args, code=0):
        out = self.work / f"capture-{time.monotonic_ns()}"
        done = self.job.trace(out, *args)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertEqual(out.exists(), code == 0, "a folder is written when there is something in it")
        return (report_of(out) if code == 0 else None), done.stderr, out

    def step_now(self):
        """Returns the current step of the ranks, from a capture of one step of their ranges."""
        report, _, _ = self.trace("--steps", "1", "--activities", "nvtx,kernel,runtime")
        return report["steps"][-1]["step"]

    def trace_from_later_step(self, *args):
        """Captures from a step that is still to occur. `args` are words with {step}. On a busy machine, a step may
        have begun or passed before the ranks know the trigger. A later step is then asked for."""
        for ahead in (10, 20, 40, 80):
            wanted = self.step_now() + ahead
            out = self.work / f"capture-{time.monotonic_ns()}"
            done = self.job.trace(out, *(word.format(step=wanted) for word in args))
            if done.returncode == 0 and "late by" not in done.stderr:
                return wanted, report_of(out), out
            self.assertIn(done.returncode, (0, 6), done.stderr + done.stdout)
        self.fail(done.stderr)

    def assert_culprit(self, report):
        first = report["stragglers"][0]
        self.assertEqual(first["ranks"], [5], first)
        self.assertIn(first["cause"], CAUSES["slow_gpu"])

    @repeated_when_late
    def test_steps_are_whole_and_the_same_on_all_ranks(self):
        report, output, _ = self.trace("--steps", "6")
        self.assertEqual(len(report["steps"]), 6, [s["step"] for s in report["steps"]])
        numbers = [s["step"] for s in report["steps"]]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 6)))
        for step in report["steps"]:
            self.assertEqual(len(step["ranks"]), RANKS)
        self.assert_culprit(report)
        self.assertEqual(len(re.findall(r"waiting, at step \d+", output)), 0, "only a terminal repeats the progress")
        self.assertEqual(sum(loss["records"] for loss in report["capture"]["losses"]), 0, report["capture"]["losses"])

    @repeated_when_late
    def test_starts_at_a_step_number(self):
        wanted, report, _ = self.trace_from_later_step("--start-on-step", "{step}", "--steps", "4")
        self.assertEqual([s["step"] for s in report["steps"]], list(range(wanted, wanted + 4)))
        self.assert_culprit(report)

    @repeated_when_late
    def test_refuses_a_passed_step(self):
        _, output, _ = self.trace("--start-on-step", "1", "--steps", "1", code=6)
        self.assertRegex(output, r"step 1 had passed; the first step in the capture was \d+; request a later step")

    @repeated_when_late
    def test_a_range_begins_and_ends_the_capture(self):
        _, report, out = self.trace_from_later_step("--start-on-range", "ProfilerStep#{step}", "--trigger-timeout", "20s")
        step = report["capture"]["duration_ns"]
        self.assertLess(step, 1_000_000_000, "one step, not the timeout")
        manifest = json.loads((out / "records" / "manifest.json").read_text())
        for process in manifest["processes"]:
            length = process["t1_host_ns"] - process["t0_host_ns"]
            self.assertGreater(length, 20_000_000)
            self.assertLess(length, 1_000_000_000)

    @repeated_when_late
    def test_times_out_on_a_missing_range(self):
        before = time.monotonic()
        _, output, _ = self.trace("--start-on-range", "no such range", "--trigger-timeout", "1s", code=6)
        self.assertLess(time.monotonic() - before, 11)
        self.assertRegex(output, r"ranks 0-7 failed: a range of that name did not occur before the trigger timeout")

    @repeated_when_late
    def test_the_profiler_api_begins_and_ends_the_capture(self):
        report, output, _ = self.trace("--start-on-profiler-api")
        self.assertGreaterEqual(len(report["steps"]), 3, "five steps, the first of them begun before it was heard of")
        self.assertLessEqual(len(report["steps"]), 5)
        late_ms = [float(x) / (1000 if unit == "us" else 1) for x, unit in re.findall(r"capturing, late by ([\d.]+) (us|ms)", output)]
        self.assertEqual(len(late_ms), RANKS, output)
        self.assertLess(max(late_ms), 200)

    @repeated_when_late
    def test_stopping_while_waiting_writes_nothing(self):
        out = self.work / "stopped"
        with open(self.work / "stopped.output", "w+") as output:
            process = subprocess.Popen([str(BIN / "lockstep"), "trace", "-o", str(out), "--start-on-range", "no such range"],
                                       env=self.job.env, stdout=subprocess.DEVNULL, stderr=output)
            text = pathlib.Path(output.name).read_text
            wait_until(lambda: len(re.findall(r"rank \d+ .*: waiting", text())) == RANKS, "all ranks wait for the trigger", text)
            process.send_signal(signal.SIGINT)
            process.wait(60)
        self.assertNotEqual(process.returncode, 0, text())
        self.assertIn("the capture was stopped before its trigger came", text())
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
