"""Ends a rank, the daemon or the aggregator at a random moment of a capture, steps a host's clock, and captures
a job that does nothing. Whenever part of the window is missing, the first line, report.json, the page and every
exit code say so. LOCKSTEP_KILLS sets the number of random moments for each process and signal [1], and
LOCKSTEP_SEED their seed."""
import json
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from live_job import LiveJob  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
CHROMIUM = shutil.which("chromium")
KILLS = int(os.environ.get("LOCKSTEP_KILLS", "1"))
SEED = int(os.environ.get("LOCKSTEP_SEED", "19"))
WINDOW = 1.5
# A window may be shorter by this at its ends (capture/store/completeness.h). The kernel needs time to end a process.
SLACK = 0.05
RANKS = 2


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_REALTIME)


class Death(threading.Thread):
    """Notes when a process ends."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.stat, self.at = pathlib.Path(f"/proc/{pid}/stat"), None
        self.start()

    def run(self):
        while self.alive():
            time.sleep(0.005)
        self.at = now_ns()

    def alive(self):
        try:
            return self.stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def at_ns(self):
        self.join(60)
        return self.at


class Completeness(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lk-complete-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.token_file = self.work / "token"
        self.token_file.write_text(secrets.token_hex(16) + "\n")
        self.token_file.chmod(0o600)

    def start(self, *command, ready, log, env=None):
        process = subprocess.Popen([*map(str, command), "--log", str(log), "--log-format", "json"], stdin=subprocess.DEVNULL, env=env)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.kill)
        wait_until(lambda: log.exists() and ready in log.read_text(), ready, lambda: log.read_text() if log.exists() else "")
        return process

    def system(self, folder, env=None, rank_args=()):
        """Starts an aggregator, a daemon and a job in `folder`. Returns them with the aggregator's address."""
        folder.mkdir()
        job = LiveJob(BIN, folder / "job", ranks=RANKS, rank_args=("--forever", "--seed", "11", *rank_args), env=env)
        log = folder / "aggregator.log"
        aggregator = self.start(BIN / "lockstep-aggregator", "--listen", "127.0.0.1:0", "--token-file", self.token_file, "--http", "127.0.0.1:0",
                                "--state-dir", folder / "state", ready='"listening"', log=log)
        address = next(e["address"] for e in map(json.loads, log.read_text().splitlines()) if e["event"] == "listening")
        daemon = self.start(BIN / "lockstepd", "--socket", job.socket, "--aggregator", address, "--token-file", self.token_file,
                            ready="listening", log=folder / "daemon.log", env={**os.environ, **(env or {})})
        return job, daemon, aggregator, ("--aggregator", address, "--token-file", self.token_file)

    def connect(self, job, reach):
        job.wait_for_ranks()
        wait_until(lambda: (s := job.cli("status", *reach, "--format", "json")).returncode == 0
                   and sum(len(d["ranks"]) for d in json.loads(s.stdout)["daemons"]) == RANKS, "ranks at the aggregator")

    def first_line(self, folder):
        return (folder / "report.txt").read_text().splitlines()[0]

    def check_report(self, folder, text):
        """Checks that the files of a capture agree, and returns whether they say that it is not whole."""
        report = json.loads((folder / "report.json").read_text())
        first = self.first_line(folder)
        partial = report["capture"]["partial"]
        self.assertEqual(first.startswith("PARTIAL "), partial, first + text)
        self.assertEqual(bool(report["capture"]["incomplete"]), partial, f"{report['capture']}{text}")
        self.assertNotRegex(first, "^HEALTHY" if partial else "^PARTIAL", text)
        page = folder / "report.html"
        if page.exists() and CHROMIUM:
            self.assertEqual("PARTIAL" in self.shown(page), partial, text)
        return partial

    def shown(self, page):
        """Returns the document that a browser makes of the page, without its program."""
        with tempfile.TemporaryDirectory(prefix="lk-browser-", ignore_cleanup_errors=True) as profile:
            done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=5000",
                                   "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120)
        self.assertIn("<body", done.stdout, done.stderr)
        return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)

    def check_exit_of_report(self, job, folder, partial, text):
        for command in ("report", "analyze"):
            done = job.cli(command, folder)
            self.assertEqual(done.returncode, 7 if partial else 0, f"{command} {folder}: {done.stderr}{text}")

    def window_of(self, records):
        for name in ("manifest.json", "manifest.open.json"):
            if (records / name).exists():
                manifest = json.loads((records / name).read_text())
                return manifest["t0_ns"], manifest["t1_ns"], manifest["requested_ns"]
        return 0, 0, 0

    def victim(self, name, job, daemon, aggregator, status):
        if name == "rank":
            return next(r["pid"] for d in status["daemons"] for r in d["ranks"] if r["rank"] == 1)
        return {"daemon": daemon, "aggregator": aggregator}[name].pid

    def kill_once(self, who, number, delay, place):
        """Starts a capture, sends the signal `delay` seconds later, and checks everything that is left."""
        folder = self.work / place
        job, daemon, aggregator, reach = self.system(folder)
        with job:
            self.connect(job, reach)
            status = json.loads(job.cli("status", "--format", "json").stdout)
            pid = self.victim(who, job, daemon, aggregator, status)
            out = folder / "out"
            trace = subprocess.Popen([str(BIN / "lockstep"), "trace", "-o", str(out), *map(str, reach), "--duration", f"{WINDOW}s", "--arm-timeout", "3s"],
                                     env=job.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            time.sleep(delay)
            os.kill(pid, number)
            died = Death(pid)
            printed, said = trace.communicate(timeout=120)
            if who == "aggregator":
                aggregator.wait(60)
            kept = sorted((folder / "state" / "captures").glob("*")) if (folder / "state" / "captures").exists() else []
            text = f"\n{who} {signal.Signals(number).name} after {delay:.3f} s; exit {trace.returncode}\n{said}\n{printed}"
            reports = [f for f in (out, *kept) if (f / "report.json").exists()]
            t0, t1, requested = max([self.window_of(f / "records") for f in (out, *kept)], key=lambda window: window[1], default=(0, 0, 0))
            # With no T1 on disk, the capture did not reach its end. An aggregator that is killed leaves none.
            # A program may finish its work after a SIGTERM.
            cut = t1 == 0 or died.at_ns() < t1 - SLACK * 1e9 or t1 - t0 < requested - SLACK * 1e9
            if cut:
                self.assertNotEqual(trace.returncode, 0, text)
            for report in reports:
                partial = self.check_report(report, text)
                if cut:
                    self.assertTrue(partial, text)
                self.check_exit_of_report(job, report, partial, text)
            if out.exists():
                self.assertIn(out, reports, text)
                self.assertEqual(trace.returncode, 7 if self.check_report(out, text) else 0, text)
                self.assertEqual(printed.startswith("PARTIAL "), trace.returncode == 7, text)
            for orphan in kept:
                if orphan in reports or not list((orphan / "records").glob("*.lsr")):
                    continue
                done = job.cli("report", orphan)
                # With its last manifest, only the report was still to be made.
                partial = not (orphan / "records" / "manifest.json").exists() or done.returncode == 7
                self.assertEqual(done.returncode, 7 if partial else 0, done.stderr + text)
                self.assertEqual(done.stdout.startswith("PARTIAL "), partial, text)
            if who != "aggregator" and kept:
                status = job.cli("status", *reach)
                word = "partial|failed|timed_out" if trace.returncode else "complete"
                self.assertRegex(status.stdout, f"capture .*, ({word}), ", text)
            return cut, trace.returncode

    def kill_at_random(self, who, number):
        draw = random.Random(f"{SEED} {who} {number}")
        counted = {}
        for i in range(KILLS):
            # From before the ranks are armed until after their records have arrived.
            delay = draw.uniform(0, WINDOW + 0.6)
            with self.subTest(kill=i, delay=delay):
                outcome = self.kill_once(who, number, delay, f"{who}-{number}-{i}")
                counted[outcome] = counted.get(outcome, 0) + 1
        words = [f"{n} {'inside' if cut else 'after'} exit {code}" for (cut, code), n in sorted(counted.items())]
        print(f"{who} {signal.Signals(number).name}: {KILLS} kills: {', '.join(words)}", flush=True)

    def test_a_rank_is_killed(self):
        self.kill_at_random("rank", signal.SIGKILL)

    def test_a_rank_is_terminated(self):
        self.kill_at_random("rank", signal.SIGTERM)

    def test_the_daemon_is_killed(self):
        self.kill_at_random("daemon", signal.SIGKILL)

    def test_the_daemon_is_terminated(self):
        self.kill_at_random("daemon", signal.SIGTERM)

    def test_the_aggregator_is_killed(self):
        self.kill_at_random("aggregator", signal.SIGKILL)

    def test_the_aggregator_is_terminated(self):
        self.kill_at_random("aggregator", signal.SIGTERM)

    def test_a_clock_is_stepped_inside_the_window(self):
        for step in (-3_600_000_000_000, 40_000_000):
            with self.subTest(step=step):
                self.step_inside_the_window(step, seconds=5)

    def step_inside_the_window(self, step, seconds):
        """The clock of the ranks' host is set `seconds` from now, in the middle of a capture."""
        folder = self.work / f"step{step}-{seconds}"
        folder.mkdir()
        at = time.monotonic_ns() + int(seconds * 1e9)
        clock = ("--clock-step-ns", step, "--clock-step-at-ns", at)
        with LiveJob(BIN, folder / "job", ranks=RANKS, rank_args=("--forever", "--seed", "11", *clock)) as job:
            job.wait_for_ranks()
            left = (at - time.monotonic_ns()) / 1e9 - 1.5
            if left < 0:
                self.assertLess(seconds, 60)
                return self.step_inside_the_window(step, 2 * seconds)
            time.sleep(left)
            done = job.trace(folder / "out", "--duration", "3s")
            self.assertEqual(done.returncode, 7, done.stderr + done.stdout)
            self.assertTrue(self.check_report(folder / "out", done.stderr + done.stdout))
            self.assertRegex(done.stdout, "^PARTIAL ")
            self.assertRegex(done.stdout.replace("\n  ", " "), f"its host's clock was set {'back' if step < 0 else 'forward'} by ")

    def test_an_empty_capture_is_not_whole(self):
        folder = self.work / "empty"
        with LiveJob(BIN, folder, ranks=RANKS, rank_args=("--forever", "--seed", "11")) as job:
            job.wait_for_ranks()
            done = job.trace(folder / "out", "--duration", "300ms", "--activities", "memory")
            self.assertEqual(done.returncode, 7, done.stderr + done.stdout)
            self.assertTrue(self.check_report(folder / "out", done.stdout))
            self.assertIn("recorded nothing", done.stdout)

    def test_a_capture_that_the_user_stops_is_whole(self):
        folder = self.work / "stopped"
        with LiveJob(BIN, folder, ranks=RANKS, rank_args=("--forever", "--seed", "11")) as job:
            job.wait_for_ranks()
            trace = subprocess.Popen([str(BIN / "lockstep"), "trace", "-o", str(folder / "out"), "--duration", "60s"], env=job.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
            time.sleep(2)
            trace.send_signal(signal.SIGINT)
            printed, said = trace.communicate(timeout=120)
            self.assertEqual(trace.returncode, 0, said + printed)
            self.assertFalse(self.check_report(folder / "out", said + printed))


if __name__ == "__main__":
    unittest.main()
