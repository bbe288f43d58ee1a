"""Kills and stops the aggregator in the middle of captures. A restarted one resumes a capture whose window is
open, and closes the others with what they have; the ranks are free at once, and `lockstep trace` waits.
--full also runs the tests that take half a minute each."""
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
from accounting import accounts_of  # noqa: E402
from live_job import LiveJob, report_of, truths_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
FULL = "--full" in sys.argv and not sys.argv.remove("--full")
PARTIAL = 7
RANKS = 4
FREE_WITHIN_S = 2.0


class Restart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lk-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.address = f"unix:{self.work}/a.sock"
        self.log = open(self.work / "programs.log", "w+")
        self.addCleanup(self.log.close)
        self.job = self.enterContext(LiveJob(BIN, self.work / "job", ranks=RANKS,
                                             rank_args=("--forever", "--seed", "3"),
                                             env={"LOCKSTEP_AGGREGATOR": self.address}))
        self.begin_aggregator()
        self.begin("lockstepd", "--socket", self.job.socket, "--aggregator", self.address)
        self.wait_for_ranks()

    def begin(self, program, *args):
        process = subprocess.Popen([str(BIN / program), *map(str, args)], env=self.job.env, stdout=self.log,
                                   stderr=self.log)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process

    def begin_aggregator(self):
        self.aggregator = self.begin("lockstep-aggregator", "--listen", self.address, "--state-dir",
                                     self.work / "state")

    def kill_and_restart(self):
        self.aggregator.kill()
        self.aggregator.wait()
        self.begin_aggregator()

    def wait_for_ranks(self):
        wait_until(lambda: self.status_ranks() == RANKS, "the ranks in the aggregator", self.output)

    def status_ranks(self):
        done = self.job.cli("status", "--aggregator", self.address, "--format", "json", timeout=30)
        if done.returncode != 0:
            return 0
        return sum(len(daemon.get("ranks", [])) for daemon in json.loads(done.stdout)["daemons"])

    def output(self):
        self.log.flush()
        return (self.work / "programs.log").read_text() + self.job.rank_output()

    def trace(self, name, duration):
        """Begins a capture and waits until records of every rank are stored."""
        process = subprocess.Popen([str(BIN / "lockstep"), "trace", "--aggregator", self.address, "-o",
                                    str(self.work / name), "--duration", duration],
                                   env=self.job.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        wait_until(lambda: len(self.stored_files()) == RANKS, "records of every rank", self.output)
        return process

    def stored_files(self):
        newest = sorted((self.work / "state" / "captures").iterdir())[-1:]
        return [path for capture in newest for path in capture.rglob("*.lsr") if path.stat().st_size > 512]

    def finish(self, process, name):
        out, err = process.communicate(timeout=120)
        self.assertIsNone(self.job.process.poll(), "the job ended with Lockstep:\n" + self.job.rank_output())
        self.assertTrue((self.work / name).is_dir(), err + self.output())
        return process.returncode, report_of(self.work / name), err

    def test_a_restarted_aggregator_resumes_a_capture_inside_its_window(self):
        process = self.trace("capture", "6s")
        self.kill_and_restart()
        code, report, err = self.finish(process, "capture")
        self.assertEqual(code, 0, err + self.output())
        self.assertFalse(report["capture"]["partial"])
        self.assertIn("waiting up to 45 s for it", err)
        self.assertTrue(any("resumed the capture" in note for note in report["capture"]["notes"]), report["capture"])
        self.assertEqual(report["capture"]["losses"], [])
        # All of the window is there, also the time without an aggregator.
        self.assertEqual(len(report["ranks"]), RANKS)
        for rank in report["ranks"]:
            self.assertGreater(rank["span_ns"], 5_500_000_000, rank)
        self.job.stop()  # the ranks then write what they produced
        for entry in accounts_of(self.work / "capture", truths_of(self.job.truth)):
            self.assertTrue(entry.balanced(), entry)

    def test_a_terminated_aggregator_closes_its_captures_and_gives_them_out_later(self):
        process = self.trace("capture", "60s")
        time.sleep(0.5)  # every rank then has kernels
        self.aggregator.terminate()
        self.aggregator.wait()
        self.begin_aggregator()
        code, report, err = self.finish(process, "capture")
        self.assertEqual(code, PARTIAL, err + self.output())
        self.assertTrue(report["capture"]["partial"])
        self.assertGreater(min(rank["compute_ns"] for rank in report["ranks"]), 0)

    @unittest.skipUnless(FULL, "takes half a minute: give --full")
    def test_a_capture_whose_window_has_passed_is_closed_and_the_ranks_are_free(self):
        process = self.trace("capture", "2s")
        self.aggregator.kill()
        self.aggregator.wait()
        time.sleep(15)  # the window, and the time in which a capture can still be completed
        begun = time.monotonic()
        self.begin_aggregator()
        self.wait_for_ranks()
        free = time.monotonic()
        done = self.job.cli("trace", "--aggregator", self.address, "-o", self.work / "next", "--duration", "200ms")
        took = time.monotonic() - free
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        print(f"ranks back after {free - begun:.2f} s; the next capture of 0.2 s took {took:.2f} s")
        code, report, err = self.finish(process, "capture")
        self.assertEqual(code, PARTIAL, err)
        self.assertTrue(report["capture"]["partial"])
        self.assertIn("the aggregator ended before its last records arrived", err)

    def test_the_ranks_of_a_forgotten_capture_are_free_at_once(self):
        process = self.trace("capture", "60s")
        self.aggregator.kill()
        self.aggregator.wait()
        for journal in (self.work / "state" / "captures").rglob("journal"):
            journal.unlink()
        self.begin_aggregator()
        self.wait_for_ranks()
        begun = time.monotonic()
        done = self.job.cli("trace", "--aggregator", self.address, "-o", self.work / "next", "--duration", "200ms")
        took = time.monotonic() - begun
        self.assertEqual(done.returncode, 0, done.stderr + self.output())
        print(f"the next capture of 0.2 s took {took:.2f} s")
        self.assertLess(took, FREE_WITHIN_S + 3, "arming, recording and analysing included")
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("the aggregator disconnected", err)

    @unittest.skipUnless(FULL, "takes 40 s: give --full")
    def test_the_cli_waits_for_a_stopped_aggregator(self):
        process = self.trace("capture", "4s")
        self.aggregator.send_signal(signal.SIGSTOP)
        time.sleep(30)
        self.aggregator.send_signal(signal.SIGCONT)
        code, report, err = self.finish(process, "capture")
        self.assertEqual(code, 0, err + self.output())
        self.assertFalse(report["capture"]["partial"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
