"""Tests captures with a CUPTI that behaves as the real one may (docs/simulation.md, the fault `hostile`): the report
is right, nothing is lost, and nothing takes longer."""
import json
import pathlib
import sys
import tempfile
import time
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from live_job import LiveJob, report_of  # noqa: E402
from sandbox import Sandbox  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
WINDOW_S = 1.5


class Ranks(unittest.TestCase):
    def captures(self, faults, count, check, ranks=4):
        """Runs `count` captures of a job with a slow GPU, and calls check(number, folder, done, seconds) for each."""
        with tempfile.TemporaryDirectory() as work:
            args = ["--fault", "slow_gpu", "--fault-rank", "2", "--fault-size", "0.3", "--forever"]
            with LiveJob(BIN, work, ranks=ranks, rank_args=args, env={"SIMGPU_CUPTI_FAULTS": faults}) as job:
                job.wait_for_ranks()
                for number in range(count):
                    folder = pathlib.Path(work) / f"capture-{number}"
                    began = time.monotonic()
                    done = job.trace(folder, "--duration", f"{WINDOW_S}s")
                    with self.subTest(f"{faults}, capture {number}"):
                        check(number, folder, done, time.monotonic() - began)

    def assert_whole(self, number, folder, done, seconds):
        self.assertEqual(done.returncode, 0, done.stderr)
        report = report_of(folder)
        self.assertEqual([s["ranks"] for s in report["stragglers"]][:1], [[2]], report["verdict"])
        self.assertEqual([loss for loss in report["capture"]["losses"] if loss["records"] > 0], [])
        self.assertFalse(report["capture"]["partial"])
        # The ranks start together 0.5 s after the request. A client that waits for an empty buffer takes 2.5 s more.
        self.assertLess(seconds, WINDOW_S + 4)

    def test_a_hostile_cupti_costs_nothing(self):
        self.captures("hostile", 3, self.assert_whole)

    def test_each_fault_alone_costs_nothing(self):
        for fault in ("keep_buffers", "zeroing", "reorder", "one_buffer", "late_buffers=20"):
            self.captures(fault, 1, self.assert_whole, ranks=3)

    def test_a_job_after_torch_profiler_is_captured(self):
        def check(number, folder, done, seconds):
            self.assert_whole(number, folder, done, seconds)
            self.assertIn("the stamps were converted, within", done.stderr + (folder / "report.txt").read_text())
        self.captures("tsc_clock", 2, check, ranks=3)

    def test_drops_that_are_counted_late_are_counted(self):
        def check(_, folder, done, seconds):
            self.assertEqual(done.returncode, 0, done.stderr)
            losses = {loss["stage"]: loss["records"] for loss in report_of(folder)["capture"]["losses"]}
            self.assertGreater(losses.get("cupti", 0), 0, losses)
        self.captures("drop=50,late_drops=30", 1, check, ranks=3)

    def test_cupti_finalized_by_another_tool_in_the_window(self):
        def check(_, folder, done, seconds):
            self.assertEqual(done.returncode, 7, done.stderr)
            report = report_of(folder)
            self.assertTrue(report["verdict"].startswith("PARTIAL "), report["verdict"])
            self.assertIn("another profiler", report["capture"]["incomplete"][0]["reason"])
            self.assertLess(seconds, WINDOW_S + 8)
        self.captures("finalize=1200", 1, check, ranks=3)

    def test_a_lost_device_is_not_taken_for_a_slow_rank(self):
        def check(number, folder, done, _):
            if number == 0:
                self.assertEqual(done.returncode, 7, done.stderr)
                report = report_of(folder)
                self.assertTrue(report["verdict"].startswith("PARTIAL "), report["verdict"])
                self.assertIn("the GPU may be lost", report["capture"]["incomplete"][0]["reason"])
            else:
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn("999 (CUPTI_ERROR_UNKNOWN): the driver does not work", done.stderr + done.stdout)
        self.captures("device_lost=1200", 2, check, ranks=3)

    def test_a_cupti_that_is_not_ready_yet_is_used_later(self):
        def check(number, folder, done, seconds):
            if number < 2:
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn(("failed with 15 (CUPTI_ERROR_NOT_INITIALIZED)", "failed with 999")[number], done.stderr + done.stdout)
            else:
                self.assert_whole(number, folder, done, seconds)
        self.captures("not_initialized=1,unknown=1", 3, check, ranks=3)

    def test_another_tool_that_comes_and_goes(self):
        def check(number, folder, done, seconds):
            if number == 0:
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertIn("CUPTI's subscriber in this process is Rival", done.stderr + done.stdout)
                time.sleep(4)
            else:
                self.assert_whole(number, folder, done, seconds)
        self.captures("rival=4000", 2, check, ranks=3)


class Programs(unittest.TestCase):
    def setUp(self):
        self.sandbox = Sandbox(BIN)
        self.addCleanup(self.sandbox.close)

    def test_children_that_use_cuda_in_a_window_are_not_harmed(self):
        for faults in ("", "hostile"):
            with self.subTest(faults):
                program = self.sandbox.start([*self.sandbox.lockstep("run", "--"), BIN / "lockstep_cuda_fork", "6"],
                                             env=self.sandbox.gpu_env(SIMGPU_CUPTI_FAULTS=faults))
                self.sandbox.wait_for_ranks(1)
                done = self.sandbox.run("trace", "--duration", "1500ms", "-o", self.sandbox.folder / f"forks-{len(faults)}")
                self.assertEqual(done.returncode, 0, done.stderr + program.output.read_text())
                self.assertEqual(program.wait(60), 0, program.output.read_text())
                self.assertIn("children", program.output.read_text())
                wait_until(lambda: not self.sandbox.status()["ranks"], "the program's end", lambda: json.dumps(self.sandbox.status()))

    def test_two_processes_of_a_rank_are_explained(self):
        fork = BIN / "lockstep_cuda_fork"
        both = self.sandbox.start([*self.sandbox.lockstep("run", "--"), "sh", "-c", f"{fork} 6 & {fork} 6; wait"],
                                  env=self.sandbox.gpu_env(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0"))
        self.sandbox.wait_for_ranks(2)
        pids = sorted(rank["pid"] for rank in self.sandbox.status()["ranks"])
        warnings = self.sandbox.status()["warnings"]
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn(f"has 2 processes that use a GPU (pids {pids[0]}, {pids[1]})", warnings[0])
        self.assertEqual(both.wait(60), 0, both.output.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
