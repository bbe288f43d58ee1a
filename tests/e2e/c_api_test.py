"""Tests lockstep.h from Python through ctypes: steps, callbacks and the profiler calls. Without CUPTI, the
capture has only ranges."""
import json
import pathlib
import re
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from live_job import LiveJob  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))


class CApi(unittest.TestCase):
    def run_program(self, *trace_args):
        """Captures two ranks of steps_program.py. Returns the output of the ranks and of the capture, and the
        manifest."""
        folder = tempfile.TemporaryDirectory(prefix="lockstep-c-api-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        # The program profiles in every second of 20 ms steps. It may do so more than once before the capture.
        program = [sys.executable, str(SUPPORT / "steps_program.py"), "50", str(work / "end")]
        with LiveJob(BIN, work, ranks=2, rank_command=program) as job:
            job.wait_for_ranks()
            done = job.trace(work / "capture", "--activities", "nvtx", *trace_args)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            (work / "end").touch()
            job.process.wait(60)
        manifest = json.loads((work / "capture" / "records" / "manifest.json").read_text())
        return job.output(), done.stderr, manifest

    def ranges_of(self, manifest):
        return [sum(file["rows"].get("range", 0) for file in process["files"]) for process in manifest["processes"]]

    def test_steps_and_callbacks(self):
        output, _, manifest = self.run_program("--steps", "5")
        self.assertEqual(manifest["steps"], 5)
        for process, ranges in zip(manifest["processes"], self.ranges_of(manifest)):
            self.assertEqual(process["state"], "done")
            self.assertEqual(process["text"], "")
            self.assertGreaterEqual(ranges, 12, "six steps with a range in each")
            self.assertLessEqual(ranges, 16)
        heard = re.findall(r"heard: (.*) recording in (\d+) steps", output)
        self.assertEqual(len(heard), 2, output)
        for events, recording in heard:
            self.assertEqual(events, "start stop")
            self.assertGreaterEqual(int(recording), 6)
            self.assertLessEqual(int(recording), 8)

    def test_profiler_calls_begin_and_end_the_capture(self):
        output, trace_output, manifest = self.run_program("--start-on-profiler-api")
        self.assertNotIn("late", trace_output)
        longest_ns = max(map(int, re.findall(r"profiled for (\d+) ns", output)))
        for process, ranges in zip(manifest["processes"], self.ranges_of(manifest)):
            length = process["t1_host_ns"] - process["t0_host_ns"]
            self.assertGreater(length, 95_000_000)
            self.assertLessEqual(length, longest_ns)
            # Five ranges named "work", four complete steps, and two steps of which one end lies outside.
            self.assertGreaterEqual(ranges, 9)
            self.assertLessEqual(ranges, 11)


if __name__ == "__main__":
    unittest.main()
