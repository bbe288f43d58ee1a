"""Runs `lockstep report --open` and `lockstep diff` on two captures of one live job. In the second capture,
one kernel takes three times as long on one rank."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from live_job import LiveJob, report_of  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
RANKS = 4
SLOW_RANK = 1
KERNEL = "flash_fwd_kernel"


def slowed(scenario):
    """Returns the scenario with that kernel three times as long on that rank, and the kernel's name."""
    names = re.findall(r"^name (\S+)$", scenario, flags=re.M)
    (number,) = [i for i, name in enumerate(names) if KERNEL in name]
    out, rank, changed = [], -1, 0
    for line in scenario.splitlines():
        rank += line.startswith("rank ")
        words = line.split()
        if rank == SLOW_RANK and words[0] == "kernel" and words[2] == f"n{number}":
            line = re.sub(r"own=(\d+)", lambda m: f"own={3 * int(m[1])}", line)
            changed += 1
        out.append(line)
    assert changed > 0, "no kernel was slowed: this tests nothing"
    return "\n".join(out) + "\n"


class ReportAndDiff(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-diff-")
        cls.addClassCleanup(folder.cleanup)
        cls.work = pathlib.Path(folder.name)
        before = cls.work / "before.scenario"
        subprocess.run([BIN / "lockstep-sim-rank", "--ranks", str(RANKS), "--microbatches", "2", "--write-scenario", before], check=True)
        (cls.work / "after.scenario").write_text(slowed(before.read_text()))
        for name in ("before", "after"):
            with LiveJob(BIN, cls.work / f"job_{name}", ranks=RANKS,
                         rank_args=("--forever", "--time-scale", "4", "--scenario", cls.work / f"{name}.scenario")) as job:
                job.wait_for_ranks()
                done = job.trace(cls.work / name, "--duration", "2s")
                assert done.returncode == 0, done.stdout + done.stderr

    def cli(self, *args):
        return subprocess.run([str(BIN / "lockstep"), *map(str, args)], cwd=self.work, text=True, capture_output=True, timeout=120)

    def rows(self, *args):
        done = self.cli("diff", *args, "--json")
        self.assertIn(done.returncode, (0, 3), done.stderr)
        return done.returncode, json.loads(done.stdout)["rows"]

    def test_the_changed_kernel_is_its_ranks_first_row_in_both_directions(self):
        _, rows = self.rows("before", "after", "--ranks-a", SLOW_RANK, "--ranks-b", SLOW_RANK)
        self.assertIn(KERNEL, rows[0]["name"])
        self.assertAlmostEqual(rows[0]["ratio"], 3, delta=0.2)
        self.assertGreater(rows[0]["difference_ns"], 0)
        _, back = self.rows("after", "before", "--ranks-a", SLOW_RANK, "--ranks-b", SLOW_RANK)
        self.assertEqual(back[0]["name"], rows[0]["name"])
        self.assertAlmostEqual(back[0]["ratio"], 1 / rows[0]["ratio"], delta=1e-6)
        _, other = self.rows("before", "after", "--ranks-a", 0, "--ranks-b", 0)
        (kernel,) = [row for row in other if row["name"] == rows[0]["name"]]
        self.assertAlmostEqual(kernel["ratio"], 1, delta=0.1)
        text = self.cli("diff", "before", "after")
        self.assertEqual(text.returncode, 0, text.stderr)
        self.assertIn(KERNEL, text.stdout)

    def test_the_changed_kernel_is_the_first_compute_row_over_all_ranks(self):
        _, rows = self.rows("before", "after")
        # The other ranks wait in collectives, which therefore become longer too.
        first = next(row for row in rows if not row["name"].startswith("nccl"))
        self.assertIn(KERNEL, first["name"])
        # All four ranks run the kernel equally often. On one it takes three times as long, so that the mean
        # ratio is 1.5.
        self.assertAlmostEqual(first["ratio"], 1.5, delta=0.1)

    def test_the_exit_code_reports_a_straggler_in_b(self):
        self.assertIn(report_of(self.work / "after")["stragglers"][0]["verdict"], ("sure", "likely"))
        self.assertEqual(self.rows("before", "after", "--exit-code")[0], 3)
        reason = self.cli("diff", "before", "after", "--exit-code").stderr
        self.assertRegex(reason, rf"^lockstep: B has a straggler, (sure|likely): rank {SLOW_RANK}\b")
        self.assertEqual(self.rows("before", "after")[0], 0)
        self.assertEqual(self.rows("after", "before", "--exit-code")[0], 0)
        self.assertEqual(self.cli("diff", "before", "nowhere", "--exit-code").returncode, 2)

    def test_open_shows_the_page_in_the_browser_and_ends_with_a_signal(self):
        page_file, browser = self.work / "page_file", self.work / "browser"
        # A fake browser that loads the file that it is given, follows it to the page, and stores the page.
        browser.write_text(f"#!{sys.executable}\nimport re, sys, urllib.request\n"
                           "url = re.search('url=([^\"]+)', open(sys.argv[1]).read()).group(1)\n"
                           "answer = urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(url, timeout=60)\n"
                           f"open({str(page_file) + '.partial'!r}, 'wb').write((sys.argv[1] + ' ' + url).encode() + b'\\n' + answer.read())\n"
                           f"import os; os.rename({str(page_file) + '.partial'!r}, {str(page_file)!r})\n")
        browser.chmod(0o755)
        for end in (signal.SIGINT, signal.SIGTERM):
            page_file.unlink(missing_ok=True)
            process = subprocess.Popen([str(BIN / "lockstep"), "report", "after", "--open"], cwd=self.work, text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env={**os.environ, "BROWSER": str(browser)})
            try:
                url = process.stdout.readline().strip()
                self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/[0-9a-f]{64}/$")
                wait_until(page_file.exists, "the browser's page")
                asked, page = page_file.read_text().split("\n", 1)
                opener, used = asked.split(" ")
                # Other users can read the arguments of the browser, but not the file.
                self.assertRegex(opener, r"/lockstep-page-\w{6}/report\.html$")
                self.assertEqual(pathlib.Path(opener).stat().st_mode & 0o777, 0o600)
                self.assertNotEqual(used, url)
                self.assertTrue(page.startswith("<!doctype html>"))
                self.assertIn('id="lockstep-data"', page)
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(url.rsplit("/", 2)[0] + "/")
                self.assertEqual(refused.exception.code, 404)
                with self.assertRaises(urllib.error.HTTPError) as again:
                    urllib.request.urlopen(used)
                self.assertEqual(again.exception.code, 404, "an address works once")
                self.assertIsNone(process.poll(), "it stays until a signal ends it")
            finally:
                process.send_signal(end)
                out, output = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, output)
            self.assertIn("until Ctrl-C", output)
            self.assertFalse(pathlib.Path(opener).exists())
            with self.assertRaises(urllib.error.URLError):
                urllib.request.urlopen(url, timeout=60)

    @unittest.skipUnless(shutil.which("chromium"), "Debian: chromium")
    def test_chromium_follows_the_opener(self):
        browser, page = self.work / "chromium", self.work / "dom.html"
        browser.write_text(f"#!/bin/sh\nchromium --headless --no-sandbox --disable-gpu --user-data-dir={self.work}/profile "
                           f"--virtual-time-budget=20000 --dump-dom \"file://$1\" > {page}.partial 2> {self.work}/chromium.log; mv {page}.partial {page}\n")
        browser.chmod(0o755)
        process = subprocess.Popen([str(BIN / "lockstep"), "report", "after", "--open"], cwd=self.work, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, "BROWSER": str(browser)})
        try:
            wait_until(page.exists, "Chromium's page")
            self.assertIn('id="lockstep-data"', page.read_text(), (self.work / "chromium.log").read_text())
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)

    def test_open_without_a_browser_prints_the_address(self):
        process = subprocess.Popen([str(BIN / "lockstep"), "report", "after", "--open"], cwd=self.work, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={**os.environ, "BROWSER": "/nowhere/browser"})
        url = process.stdout.readline().strip()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        self.assertTrue(browser.open(url, timeout=60).read().startswith(b"<!doctype html>"))
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output)
        self.assertIn("no browser was started", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
