"""lockstep.h from Python through ctypes: steps, callbacks, the profiler calls. Without CUPTI: only ranges are recorded."""
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
    def run_program(self, profile_at, trace_args):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-c-api-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        program = [sys.executable, str(SUPPORT / "steps_program.py"), str(profile_at), "8"]
        with LiveJob(BIN, work, ranks=2, rank_command=program) as job:
            job.wait_for_ranks()
            done = job.trace(work / "capture", "--activities", "nvtx", *trace_args)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            job.process.wait(30)
            said = job.rank_output()
        manifest = json.loads((work / "capture" / "records" / "manifest.json").read_text())
        return said, done.stderr, manifest

    def ranges_of(self, manifest):
        return [sum(file["rows"].get("range", 0) for file in process["files"]) for process in manifest["processes"]]

    def test_steps_and_callbacks(self):
        said, _, manifest = self.run_program(10**9, ("--steps", "5"))
        self.assertEqual(manifest["steps"], 5)
        for process, ranges in zip(manifest["processes"], self.ranges_of(manifest)):
            self.assertEqual(process["state"], "done")
            self.assertEqual(process["text"], "")
            self.assertGreaterEqual(ranges, 12, "six steps with a range in each")
            self.assertLessEqual(ranges, 16)
        heard = re.findall(r"heard: (.*) recording in (\d+) steps", said)
        self.assertEqual(len(heard), 2, said)
        for events, recording in heard:
            self.assertEqual(events, "start stop")
            self.assertGreaterEqual(int(recording), 6)
            self.assertLessEqual(int(recording), 8)

    def test_the_profiler_calls_begin_and_end_exactly(self):
        said, trace_said, manifest = self.run_program(150, ("--start-on-profiler-api",))
        self.assertNotIn("late", trace_said)
        for process, ranges in zip(manifest["processes"], self.ranges_of(manifest)):
            length = (process["t1_host_ns"] - process["t0_host_ns"]) / 1e6
            self.assertGreater(length, 95)
            self.assertLess(length, 400)
            # Five of "work", four whole steps, and the two whose begin or end lies outside.
            self.assertGreaterEqual(ranges, 9)
            self.assertLessEqual(ranges, 11)


if __name__ == "__main__":
    unittest.main()
