"""Takes Python profiles of running ranks with a capture: one file per rank. A rank without a profile must be
named."""
import json
import os
import pathlib
import pstats
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from live_job import LiveJob, report_of  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
STACK = BIN.parent / "lib" / "sim_stack"
SLOW = 2


def row_of(path, function):
    """Returns (calls, self seconds, total seconds) of a function by its name."""
    found = [row for key, row in pstats.Stats(str(path)).stats.items() if key[2] == function]
    assert len(found) == 1, (path, function, found)
    _, calls, self_time, total, _ = found[0]
    return calls, self_time, total


class PythonProfile(unittest.TestCase):
    def job(self, ranks, *args, command=None):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-python-")
        self.addCleanup(folder.cleanup)
        work = pathlib.Path(folder.name)
        own = work / "tmp"
        own.mkdir()
        command = command or [sys.executable, str(SUPPORT / "python_job.py"), "120", *map(str, args)]
        env = {"LD_LIBRARY_PATH": str(STACK), "TMPDIR": str(own), "PYTHONDONTWRITEBYTECODE": "1"}
        return work, LiveJob(BIN, work, ranks=ranks, env=env, rank_command=command)

    def capture(self, job, folder, *args):
        done = job.trace(folder, "--duration", "1500ms", "--python-profile", *args)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout + job.rank_output())
        return json.loads((folder / "records" / "manifest.json").read_text()), done

    def profile_rows(self, job, *args):
        done = job.cli("profile", *args, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def test_profiles_each_rank_and_names_the_slow_function(self):
        work, job = self.job(4, "--slow", SLOW)
        with job:
            job.wait_for_ranks()
            before = {p.name for p in pathlib.Path(tempfile.gettempdir()).iterdir()}
            manifest, _ = self.capture(job, work / "first")
            self.assertEqual(manifest["notes"], [])
            self.check(job, work / "first", manifest)
            # A second profile of the same processes.
            manifest, _ = self.capture(job, work / "second")
            self.check(job, work / "second", manifest)
            # A capture without --python-profile has no profile.
            done = job.trace(work / "third", "--duration", "300ms")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertFalse((work / "third" / "profiles").exists())
            for process in json.loads((work / "third" / "records" / "manifest.json").read_text())["processes"]:
                self.assertNotIn("python_profile", process)
            left = [p for p in pathlib.Path(tempfile.gettempdir()).iterdir() if p.name not in before and "cprofile" in p.name]
            self.assertEqual(left, [])
            made = [p.name for p in (work / "tmp").rglob("*") if "prof" in p.name]
            self.assertEqual(made, [], "nothing is written where the ranks run")
        refused = job.cli("profile", work / "third")
        self.assertEqual(refused.returncode, 2, refused.stdout)
        self.assertIn("--python-profile", refused.stderr)

    def check(self, job, folder, manifest):
        files = sorted(p.name for p in (folder / "profiles").iterdir())
        self.assertEqual(files, [f"rank_{r}.cprofile" for r in range(4)])
        times = {}
        for process in manifest["processes"]:
            path = folder / "profiles" / f"rank_{process['rank']}.cprofile"
            self.assertEqual(path.stat().st_size, process["python_profile"]["bytes"])
            calls, self_time, total = row_of(path, "load_batch")
            length = (process["python_profile"]["end_host_ns"] - process["python_profile"]["begin_host_ns"]) / 1e9
            self.assertGreater(length, 1.0)
            self.assertLess(length, 3.5)
            self.assertGreater(calls, 10)
            self.assertLess(total, length * 1.1)
            times[process["rank"]] = self_time / calls
            # The profile began inside the loop, so that the loop's callees have no caller in it. Lockstep's
            # own functions are not in the profile.
            functions = {key[2] for key in pstats.Stats(str(path)).stats}
            self.assertIn("forward", functions)
            self.assertFalse([f for f in functions if "_lsprof" in f or f in ("begin", "end")], functions)
        others = [t for rank, t in times.items() if rank != SLOW]
        self.assertGreater(times[SLOW], 3 * max(others), times)
        rows = [r for r in self.profile_rows(job, folder) if r["function"] == "load_batch"]
        self.assertEqual(len(rows), 1)
        self.assertEqual(rows[0]["slowest_rank"], SLOW)
        self.assertEqual(rows[0]["ranks"], 4)
        host = job.cli("host", folder)
        self.assertIn("Python profiles of", host.stdout + host.stderr)

    def test_names_a_rank_without_a_profile_with_the_reason(self):
        other = work_command(SUPPORT / "python_job.py")
        work, job = self.job(4, command=other)
        with job:
            job.wait_for_ranks()
            manifest, done = self.capture(job, work / "capture", "--via", "cupti")
            self.assertEqual(sorted(p.name for p in (work / "capture" / "profiles").iterdir()), ["rank_0.cprofile"])
            notes = "\n".join(manifest["notes"])
            self.assertRegex(notes, "no Python profile of rank 1: another profiler is active: c?Prof")
            self.assertIn("no Python profile of rank 2: the main thread ran no Python code in time", notes)
            self.assertIn("no Python profile of rank 3: the process runs no Python", notes)
            for rank in (1, 2, 3):
                self.assertIn(f"no Python profile of rank {rank}", done.stdout + done.stderr)
            self.assertEqual(len(report_of(work / "capture")["ranks"]), 4)
            # Ranks without a profile continue, and so does their own profiler.
            job.wait_for_ranks()
            self.assertIsNone(job.process.poll(), job.rank_output())


def work_command(program):
    script = (f'if [ "$OMPI_COMM_WORLD_RANK" = 3 ]; then exec "{BIN}/lockstep_cuda_loop" 120; fi; '
              f'exec "{sys.executable}" "{program}" 120 --profiled 1 --asleep 2')
    return ["sh", "-c", script]


if __name__ == "__main__":
    unittest.main()
