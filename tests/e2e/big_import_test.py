"""Checks that a Kineto trace of several GB needs only the memory of its device rows. Its report must equal
that of a small file with the same rows.

The programs' folder is the first argument. --bytes N is the size of rank 0's text; rank 1's has a
sixteenth of it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "tests/support/big_trace.py"
sys.path.insert(0, str(GENERATOR.parent))
import big_trace  # noqa: E402: the line above adds its folder
MIB = 1 << 20
ALLOWED_MIB = 1024
# Memory that the text of the host rows may add to that of the device rows: blocks of text and the parser's
# buffers.
ALLOWED_MORE_MIB = 64


def generate(path, rank, size):
    return subprocess.Popen([sys.executable, str(GENERATOR), str(path), "--rank", str(rank), "--bytes", str(size)])


class Run:
    """Runs `lockstep analyze PATHS` and measures its time and memory."""

    def __init__(self, *paths, out):
        began = time.perf_counter()
        command = [str(ARGS.bin / "lockstep"), "analyze", *map(str, paths), "--format", "json", "-o", str(out)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        with process.stderr:
            self.stderr = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.code = process.returncode
        self.seconds = time.perf_counter() - began
        self.peak_mib = usage.ru_maxrss / 1024
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self.report = json.loads(out.read_text()) if self.code in (0, 7) else None
        out.unlink(missing_ok=True)


class BigImport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="lk-big")
        work = pathlib.Path(cls.temporary.name)
        cls.out = work / "report.json"
        sizes = {"small": (0, 0), "big": (ARGS.bytes, ARGS.bytes // 16)}
        began = time.perf_counter()
        makers = []
        for name, of_ranks in sizes.items():
            (work / name).mkdir()
            makers += [generate(work / name / f"rank{rank}.json.gz", rank, size) for rank, size in enumerate(of_ranks)]
        for maker in makers:
            assert maker.wait() == 0
        cls.small, cls.big = work / "small", work / "big"
        print(f"generated in {time.perf_counter() - began:.1f} s: {sum(f.stat().st_size for f in cls.big.iterdir()) / 1e6:.0f} MB compressed", flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_report_and_memory_depend_on_device_rows_only(self):
        small = Run(self.small, out=self.out)
        big = Run(self.big, out=self.out)
        text = ARGS.bytes * 17 // 16
        print(f"{text / 1e6:.0f} MB of text: {big.seconds:.1f} s ({text / 1e6 / big.seconds:.0f} MB/s; {big.cpu_seconds:.1f} s of processor time), "
              f"peak {big.peak_mib:.0f} MiB; without the host rows {small.peak_mib:.0f} MiB", flush=True)
        for run in (small, big):
            self.assertEqual(run.code, 0, run.stderr)
            self.assertEqual(run.stderr, "", "no terminal, no progress")
        self.assertEqual([row["rank"] for row in small.report["ranks"]], [0, 1])
        kernels = 1000 * big_trace.KERNELS * big_trace.STEPS
        self.assertEqual([row["compute_ns"] for row in small.report["ranks"]], [500 * kernels, 550 * kernels])
        self.assertEqual(small.report["capture"].pop("id"), "small")
        self.assertEqual(big.report["capture"].pop("id"), "big")
        self.assertEqual(big.report, small.report)
        self.assertLess(big.peak_mib, ALLOWED_MIB)
        self.assertLess(big.peak_mib - small.peak_mib, ALLOWED_MORE_MIB)

    def test_reads_a_truncated_trace_and_reports_the_loss(self):
        whole = self.big / "rank1.json.gz"
        cut = self.big.parent / "cut_rank1.json.gz"
        cut.write_bytes(whole.read_bytes()[:whole.stat().st_size * 2 // 3])
        run = Run(cut, out=self.out)
        self.assertEqual(run.code, 7, run.stderr)
        self.assertIn("truncated", run.report["capture"]["incomplete"][0]["reason"])
        self.assertLess(run.peak_mib, ALLOWED_MIB)
        (loss,) = run.report["capture"]["losses"]
        self.assertEqual((loss["stage"], loss["rank"]), ("import", 1))
        self.assertIn("the gzip data is truncated", loss["reason"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bin", type=pathlib.Path)
    # More than 2^32 bytes, so that an offset of 32 bits would overflow.
    parser.add_argument("--bytes", type=int, default=4400 * 10**6)
    ARGS = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
