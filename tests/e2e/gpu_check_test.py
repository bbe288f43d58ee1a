"""`gpu-check` itself: over the simulated CUPTI every section passes; without a GPU, or out of time, it ends with a table and an archive
that say why."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "gpu_check"))
from evidence import write_archive  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
MOST_BYTES = 16 << 20


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        subprocess.run(["bash", ROOT / "tools/dev/bundle.sh", "--built", BIN.parent, "--out", cls.work, "--level", "1"], cwd=ROOT,
                       check=True, stdout=subprocess.DEVNULL)
        cls.bundle = next(cls.work.glob("lockstep-*-x86_64"))

    def run_check(self, *args, end_after=None):
        """(result, rows of the table, the table). SIGTERM after `end_after` seconds is what the end of its time is, too."""
        out = pathlib.Path(tempfile.mkdtemp(prefix="out", dir=self.work))
        began = time.monotonic()
        # The bundle's copy, as somebody without the repository runs it.
        process = subprocess.Popen([sys.executable, self.bundle / "gpu-check" / "gpu_check.py", "--out", out, *args], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(self.work)})
        try:
            said = process.communicate(timeout=end_after or 400)
        except subprocess.TimeoutExpired:
            process.terminate()
            said = process.communicate(timeout=60)
        done = subprocess.CompletedProcess(process.args, process.returncode, *said)
        self.seconds = time.monotonic() - began
        self.assertEqual(sorted(p.name for p in out.iterdir()), ["gpu_check.tar.gz", "results.json", "results.md"],
                         done.stdout + done.stderr)
        self.assertLess((out / "gpu_check.tar.gz").stat().st_size, MOST_BYTES)
        with tarfile.open(out / "gpu_check.tar.gz") as archive:
            self.names = set(archive.getnames())
            self.left_out = archive.extractfile("gpu_check/left_out.txt").read().decode()
        self.assertIn("gpu_check/results.md", self.names)
        rows = json.loads((out / "results.json").read_text())["rows"]
        table = (out / "results.md").read_text()
        for row in rows:
            self.assertIn(f"| {row['section']} | {row['check']} | {row['verdict']} |", table)
        self.assertEqual(self.left_behind(), [])
        return done, rows, table

    def left_behind(self):
        """Processes of ours that are still there."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.bundle).encode() in (entry / "cmdline").read_bytes():
                    found.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
        return found

    def test_over_the_simulated_cupti_every_section_passes(self):
        done, rows, table = self.run_check("--simulate", str(BIN))
        self.assertEqual([row for row in rows if row["verdict"] == "FAIL"], [])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(f"gpu-check --simulate: {len(rows)} rows in {self.seconds:.0f} s", flush=True)
        self.assertIn("simulated", table.splitlines()[0])
        passed = {}
        for row in rows:
            passed[row["section"]] = passed.get(row["section"], 0) + (row["verdict"] == "pass")
        for section, least in (("facts", 2), ("cuda", 15), ("robustness", 8), ("entries", 8), ("threads", 4), ("pair", 4)):
            self.assertGreaterEqual(passed.get(section, 0), least, section)
        # What simulated ranks cannot show is not claimed.
        self.assertEqual({row["section"] for row in rows if row["verdict"] == "not run"}, {"torch", "cost"})
        for name in ("facts/uname.txt", "cuda/lockstepd.log", "cuda/loop.out", "cuda/loop.jsonl", "cuda/capture-1/report.json",
                     "cuda/capture-1/records/manifest.json", "killed-daemon/lockstepd.log", "on-demand/lockstepd.log"):
            self.assertIn(f"gpu_check/{name}", self.names)

    def test_out_of_time_it_keeps_what_it_has_and_leaves_nothing_running(self):
        done, rows, _ = self.run_check("--simulate", str(BIN), "--only", "cuda,threads", end_after=6)
        self.assertEqual(done.returncode, 1)
        self.assertLess(self.seconds, 40)
        self.assertEqual([row["check"] for row in rows if row["verdict"] == "FAIL"], ["the run ends in time"])
        self.assertIn("gpu_check/cuda/lockstepd.log", self.names)
        done, rows, _ = self.run_check("--simulate", str(BIN), "--limit", "30", "--only", "robustness")
        self.assertEqual([row["verdict"] for row in rows], ["not run"])
        self.assertEqual(done.returncode, 1, "a check that ran nothing has not passed")

    def test_without_a_gpu_each_section_says_what_it_lacks(self):
        if pathlib.Path("/dev/nvidiactl").exists():
            print("this machine has a GPU: nothing to see of how gpu-check does without one")
            return
        done, rows, _ = self.run_check()
        self.assertEqual(done.returncode, 1)
        self.assertLess(self.seconds, 120)
        self.assertEqual([row["check"] for row in rows if "runs to its end" in row["check"]], [])
        reasons = " ".join(row["measured"] for row in rows if row["section"] == "cuda")
        self.assertIn("libcuda.so.1", reasons)
        for section in ("facts", "cuda", "torch", "cost", "robustness", "entries", "threads"):
            self.assertTrue([row for row in rows if row["section"] == section and row["verdict"] == "FAIL"], section)

    def test_a_wrong_section_and_a_folder_without_a_bundle_are_told(self):
        for args, said in ((["--only", "cuda,nonsense"], "nonsense"), (["--bundle", str(ROOT / "docs")], "bin/lockstep")):
            done = subprocess.run([sys.executable, self.bundle / "gpu-check" / "gpu_check.py", "--out", self.work / "none", *args],
                                  text=True, capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr.splitlines()[-1])
        self.assertFalse((self.work / "none").exists())


class Archive(unittest.TestCase):
    def test_what_does_not_fit_is_left_out_from_the_least_telling_end_and_named(self):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder) / "work"
            for name, size in (("a/log.txt", 2000), ("a/records/r.lsr", 300_000), ("a/traces/t.json.gz", 400_000), ("b/log.txt", 2000)):
                path = work / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(os.urandom(size))
            archive = pathlib.Path(folder) / "x.tar.gz"
            size, left_out = write_archive(archive, work, [], most_bytes=320_000)
            self.assertLess(size, 330_000)
            self.assertEqual(left_out, ["a/traces/t.json.gz: 400000 bytes"])
            with tarfile.open(archive) as tar:
                self.assertEqual(set(tar.getnames()), {f"gpu_check/{n}" for n in ("a/log.txt", "a/records/r.lsr", "b/log.txt", "left_out.txt")})


if __name__ == "__main__":
    unittest.main(verbosity=2)
