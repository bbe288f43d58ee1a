"""Tests the table, the time limits and the results of a run."""
import json
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest

import gpu_check
from evidence import REPOSITORY, Table, run_logged, write_archive
from for_repository import gather


class Frame(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name)
        self.table = Table(self.out, simulated=False)
        self.setup = types.SimpleNamespace(work=self.out / "work", deadline=time.monotonic() + 60, section_deadline=None, kept=[],
                                           left=lambda: self.setup.deadline - time.monotonic())

    def run_section(self, function, least=1, limit=30):
        before = signal.signal(signal.SIGALRM, gpu_check.out_of_time)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        gpu_check.run_section(gpu_check.Section("one", "A3", function, least, limit), self.setup, self.table)
        return [(row["verdict"], row["check"]) for row in self.table.rows]

    def test_a_failing_section_gives_a_row_and_its_traceback(self):
        def breaks(setup, table):
            table.check("first", True, 1, 1)
            raise ValueError("no such thing")
        self.assertEqual(self.run_section(breaks), [("PASS", "first"), ("FAIL", "the section runs to its end")])
        self.assertIn("no such thing", self.table.rows[1]["measured"])
        self.assertIn("ValueError", (self.out / "work" / "one" / "broken.txt").read_text())
        self.assertFalse(self.table.good())

    def test_ends_a_hanging_section_that_catches_exceptions(self):
        def hangs(setup, table):
            while True:
                try:
                    time.sleep(30)
                except Exception:
                    pass
        began = time.monotonic()
        self.assertEqual(self.run_section(hangs, limit=0.3), [("FAIL", "the section ends in time")])
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(signal.setitimer(signal.ITIMER_REAL, 0)[0], 0, "no alarm is left for the next one")

    def test_names_sections_without_time(self):
        self.setup.deadline = time.monotonic() + 5
        self.assertEqual(self.run_section(lambda *_: self.fail("it was begun"), least=10), [("LEFT OUT", "section")])
        self.assertIn("out of time", self.table.rows[0]["measured"])
        self.assertFalse(self.table.good(), "a run that checked nothing has not passed")

    def test_the_table_has_one_row_per_check_in_order_of_ids(self):
        self.table.machine["GPU"] = "A GPU"
        self.table.section = "some"
        for self.table.id, ok in (("A10", True), ("A2", False), ("A3", None)):
            self.table.check("what | so ever", ok, "this\nand that", "a goal")
        self.table.id = "A2"
        self.table.fact("a number", 17)
        rows = [line for line in (self.out / "results.md").read_text().splitlines() if line.startswith("| A")]
        self.assertEqual(rows, ["| A2 | some: what / so ever | FAIL | this and that | a goal |", "| A2 | some: a number | fact | 17 |  |",
                                "| A3 | some: what / so ever | LEFT OUT: this and that |  | a goal |",
                                "| A10 | some: what / so ever | PASS | this and that | a goal |"])
        self.assertIn("- GPU: A GPU", (self.out / "results.md").read_text())

    def test_a_simulation_gives_no_verdict_on_gpu_figures(self):
        table = Table(self.out, simulated=True)
        table.judge("cost", False, "1.5 of bare", "1")
        self.assertEqual(table.rows[0]["verdict"], "fact")
        self.table.judge("cost", False, "1.5 of bare", "1")
        self.assertEqual(self.table.rows[0]["verdict"], "FAIL")

    def test_ends_a_hanging_command_and_keeps_its_output(self):
        began = time.monotonic()
        code, out, err = run_logged(self.out, "hangs", [sys.executable, "-uc", "import time; print('so far'); time.sleep(60)"], timeout=1)
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual((code, out), (None, "so far\n"))
        self.assertIn("did not end within 1 s", (self.out / "hangs.txt").read_text())
        self.assertEqual(run_logged(self.out, "none", ["/no/such/program"])[0], None)


class ForTheRepository(unittest.TestCase):
    def test_the_archive_begins_with_small_readable_captures(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            bundle, work = out / "bundle", out / "work"
            (bundle / "bin").mkdir(parents=True)
            # A fake `lockstep` that accepts every folder except a broken one.
            (bundle / "bin" / "lockstep").write_text('#!/bin/sh\n[ -e "$2/records/broken" ] && { echo bad >&2; exit 1; }\n'
                                                     "echo '{\"schema\": 1}'\n")
            (bundle / "bin" / "lockstep").chmod(0o755)
            for name, file, size in (("good", "r.lsr", 1000), ("bad", "broken", 1000), ("large", "r.lsr", 3 << 20), ("none", None, 0)):
                (work / name / "records").mkdir(parents=True)
                if file:
                    (work / name / "records" / file).write_bytes(b"\1" * size)
            table = Table(out, simulated=False)
            table.machine["GPU"] = "NVIDIA H200, 570.1, 9.0"
            setup = types.SimpleNamespace(bundle=bundle, work=work, kept=[(n, work / n) for n in ("good", "bad", "large", "none")])
            output = gather(setup, table)
            self.assertEqual([row["verdict"] for row in table.rows], ["PASS", "FAIL", "LEFT OUT", "LEFT OUT"])
            self.assertRegex(output, r"tests/golden/gpu/nvidia-h200-\d{4}-\d\d-\d\d/")
            write_archive(out / "x.tar.gz", work, [], most_bytes=5000)
            with tarfile.open(out / "x.tar.gz") as tar:
                names = set(tar.getnames())
            golden = next(name for name in names if name.endswith("/good/records/r.lsr") and REPOSITORY in name)
            unpacked = subprocess.run(["tar", "-xzf", out / "x.tar.gz", "-C", out, "--strip-components=2", f"gpu_check/{REPOSITORY}"])
            self.assertEqual(unpacked.returncode, 0)
            self.assertTrue((out / golden.split("/", 2)[2]).exists())
            self.assertEqual(json.loads(next(out.glob("tests/golden/gpu/*/good/report.json")).read_text()), {"schema": 1})
            self.assertEqual(len(list(out.glob("docs/gpu-results/nvidia-h200-*.md"))), 1)
            self.assertEqual(list(out.glob("tests/golden/gpu/*/bad")), [])


if __name__ == "__main__":
    unittest.main()
