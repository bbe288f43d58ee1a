"""Tests `gpu-check` itself. On the simulated stack every check must pass. Without a GPU, or out of time, it
must end with a table and an archive that state the reason."""
import collections
import concurrent.futures
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
sys.path.insert(0, str(ROOT / "tests" / "support"))
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
MOST_BYTES = 16 << 20


class Run:
    """The results that one run of the check wrote to its folder."""

    def __init__(self, out, code, output, seconds):
        self.out, self.code, self.output, self.seconds = out, code, output, seconds
        self.rows = json.loads((out / "results.json").read_text())["rows"]
        self.table = (out / "results.md").read_text()
        with tarfile.open(out / "gpu_check.tar.gz") as archive:
            self.names = set(archive.getnames())

    def assert_consistent(self, test):
        test.assertEqual(sorted(p.name for p in self.out.iterdir()), ["gpu_check.tar.gz", "results.json", "results.md"], self.output)
        test.assertLess((self.out / "gpu_check.tar.gz").stat().st_size, MOST_BYTES)
        test.assertLessEqual({"gpu_check/results.md", "gpu_check/left_out.txt"}, self.names)
        for row in self.rows:
            test.assertIn(f"| {row['id']} | {row['section']}: {row['check']} | {row['verdict']}", self.table)


class GpuCheck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        subprocess.run(["bash", ROOT / "tools/dev/bundle.sh", "--built", BIN.parent, "--out", cls.work, "--level", "1"], cwd=ROOT,
                       check=True, stdout=subprocess.DEVNULL)
        cls.bundle = next(cls.work.glob("lockstep-*-x86_64"))

    def run_check(self, *args, end_when=None, env=None):
        """Runs the check and returns a Run. It sends SIGTERM when a file `end_when` is in the check's folder."""
        out = pathlib.Path(tempfile.mkdtemp(prefix="out", dir=self.work))
        began = time.monotonic()
        # The test runs the bundle's copy, as a user without the repository does.
        process = subprocess.Popen([sys.executable, self.bundle / "gpu-check" / "gpu_check.py", "--out", out, *args], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(self.work), **(env or {})})
        if end_when:
            wait_until(lambda: any(self.work.glob(f"*/{end_when}")) or any(self.work.glob(f"*/*/{end_when}")), end_when)
            process.terminate()
        output = process.communicate(timeout=35 if end_when else 400)  # a check ends within 35 s of the signal
        return Run(out, process.returncode, "".join(output), time.monotonic() - began)

    def left_behind(self):
        """Returns processes of the check that still run."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.bundle).encode() in (entry / "cmdline").read_bytes():
                    found.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
        return found

    def test_every_possible_check_passes_on_the_simulated_stack(self):
        # Three parts run at the same time, because most of their time is waiting.
        parts = ("facts,cuda,graphs,overhead", "entries,forks,threads,same,long,latency,torch,processes,top,jax,buffers", "robustness,ranks,nccl")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = list(pool.map(lambda only: self.run_check("--simulate", str(BIN), "--only", only), parts))
        print(f"gpu-check --simulate: {[f'{len(run.rows)} rows in {run.seconds:.0f} s' for run in runs]}", flush=True)
        rows = [row for run in runs for row in run.rows]
        self.assertEqual([row for row in rows if row["verdict"] == "FAIL"], [])
        for run in runs:
            self.assertEqual(run.code, 0, run.output)
            self.assertIn("simulated", run.table.splitlines()[0])
            run.assert_consistent(self)
        self.assertEqual(self.left_behind(), [])
        passed = collections.Counter((row["section"], row["verdict"]) for row in rows)
        for section, least in (("facts", 2), ("cuda", 15), ("graphs", 26), ("latency", 5), ("top", 3), ("buffers", 5), ("threads", 8), ("long", 5), ("ranks", 10),
                               ("nccl", 10), ("robustness", 11), ("entries", 9), ("forks", 12), ("same", 10), ("repository", 6)):
            self.assertGreaterEqual(passed[section, "PASS"], least, section)
        # A graph can be invisible in two ways. Both also occur in the second capture of a process.
        self.assertEqual(sum("unrecorded launches are reported" in row["check"] for row in rows), 2)
        # Every check has a row, even if it was left out.
        self.assertEqual({row["id"] for row in rows}, {f"A{n}" for n in range(1, 20)})
        overhead = [row for row in rows if row["section"] == "overhead" and row["verdict"] == "fact" and " of bare;" in row["measured"]]
        self.assertEqual(len(overhead), 3 * 5, "three workloads, five arms")
        for row in overhead:
            self.assertRegex(row["measured"], r"^\d+\.\d{4} \[\d+\.\d{4}, \d+\.\d{4}\] of bare; median step \d+\.\d us of 8, [+-]")
        # Checks that the simulated stack cannot run must be left out.
        self.assertEqual({row["section"] for row in rows if row["verdict"] == "LEFT OUT"},
                         {"torch", "jax", "overhead", "graphs", "latency", "forks", "processes"})
        names = set.union(*(run.names for run in runs))
        for name in ("facts/uname.txt", "cuda/lockstepd.log", "cuda/loop.out", "cuda/loop.jsonl", "cuda/capture-1/report.json",
                     "cuda/capture-1/records/manifest.json", "killed-daemon/lockstepd.log", "on-demand/lockstepd.log",
                     "overhead/bare.answers.jsonl"):
            self.assertIn(f"gpu_check/{name}", names)
        golden = {name.split("/")[6] for name in names if name.startswith("gpu_check/repository/tests/golden/gpu/") and "/records/" in name}
        self.assertEqual(golden, {"kernels-and-copies", "graphs", "graphs-not-visible", "ranks-2", "ranks-3", "train-loop"})

    def test_a_fault_of_cupti_makes_checks_fail(self):
        """tests/e2e/gpu_check_faults.py does the same for every check."""
        run = self.run_check("--simulate", str(BIN), "--only", "cuda", env={"SIMGPU_CUPTI_FAULTS": "drop=40"})
        self.assertEqual(run.code, 1)
        failed = {row["check"] for row in run.rows if row["verdict"] == "FAIL"}
        self.assertLessEqual({"capture 1: nothing lost", "capture 1: every launch has its one kernel"}, failed)

    def test_a_time_limit_keeps_results_and_ends_all_processes(self):
        run = self.run_check("--simulate", str(BIN), "--only", "cuda,threads", end_when="cuda/lockstepd.log")
        self.assertEqual(run.code, 1)
        self.assertEqual([row["check"] for row in run.rows if row["verdict"] == "FAIL"], ["the run ends by itself"])
        self.assertIn("gpu_check/cuda/lockstepd.log", run.names)
        run.assert_consistent(self)
        run = self.run_check("--simulate", str(BIN), "--limit", "30", "--only", "robustness")
        self.assertEqual([(row["verdict"], "out of time" in row["measured"]) for row in run.rows], [("LEFT OUT", True)])
        self.assertEqual(run.code, 1, "a check that ran nothing has not passed")
        self.assertEqual(self.left_behind(), [])

    def test_each_section_reports_what_is_missing_without_a_gpu(self):
        if pathlib.Path("/dev/nvidiactl").exists():
            print("this machine has a GPU: nothing to see of how gpu-check does without one")
            return
        sections = ("facts", "cuda", "graphs", "overhead", "latency", "robustness", "long")
        run = self.run_check("--only", ",".join(sections))
        self.assertEqual(run.code, 1)
        self.assertLess(run.seconds, 120)
        self.assertEqual([row["check"] for row in run.rows if "runs to its end" in row["check"]], [])
        reasons = " ".join(row["measured"] for row in run.rows if row["section"] == "cuda")
        self.assertIn("libcuda.so.1", reasons)
        for section in sections:
            self.assertTrue([row for row in run.rows if row["section"] == section and row["verdict"] == "FAIL"], section)
        run.assert_consistent(self)
        self.assertEqual(self.left_behind(), [])

    def test_reports_a_wrong_section_and_a_missing_bundle(self):
        for args, output in ((["--only", "cuda,nonsense"], "nonsense"), (["--bundle", str(ROOT / "docs")], "bin/lockstep")):
            done = subprocess.run([sys.executable, self.bundle / "gpu-check" / "gpu_check.py", "--out", self.work / "none", *args],
                                  text=True, capture_output=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(output, done.stderr.splitlines()[-1])
        self.assertFalse((self.work / "none").exists())


class Archive(unittest.TestCase):
    def test_leaves_out_the_least_useful_files_that_do_not_fit(self):
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
