"""Tests `lockstep top` beside eight ranks under mpiexec: a fault that begins later, a terminal, a capture
that takes precedence, and the cost."""
import fcntl
import json
import os
import pathlib
import pty
import queue
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_ranks import RANK_ARGS, SharedJob, repeat_when_late, repeated_when_late  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from verdict import CAUSES  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
RANKS = 8
# A window of a second holds at least three steps of 0.2 s.
PACE = ("--time-scale", "3", "--microbatches", "1")
SLOW_PACE = ("--time-scale", "4", "--microbatches", "1")
QUICK = ("--every", "2s", "--window", "1s")


class Lines:
    """Reads the objects that `lockstep top --format json` prints."""

    def __init__(self, job, *args):
        self.process = subprocess.Popen([str(BIN / "lockstep"), "top", "--format", "json", *(args or QUICK)], env=job.env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, timeout=60):
        line = self.lines.get(timeout=timeout)
        if line is None:
            raise RuntimeError(f"it ended: {self.process.wait()}, {self.process.stderr.read()}")
        return line

    def wait_for_event(self, wanted, timeout=90):
        """Returns the first object for which `wanted` is true, and the number of samples before it."""
        deadline = time.monotonic() + timeout
        before, found = 0, None
        while time.monotonic() < deadline:
            found = self.next()
            if wanted(found):
                return found, before
            before += found["event"] == "sample"
        raise RuntimeError(f"it did not come in time; last came {found}")

    def end(self):
        """Ends the program. Returns its exit code and the rest of its objects."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        rest = []
        while not self.lines.empty():
            rest.append(self.lines.get())
        return code, rest


def decided(line):
    return line["event"] == "sample" and line["steps"] >= 3


class Screen:
    """Runs `lockstep top` on its own terminal."""

    def __init__(self, job, *args, columns=100, lines=30):
        self.primary, secondary = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(secondary)
        self.secondary = secondary
        env = dict(job.env, LANG="C.UTF-8", LC_ALL="C.UTF-8", TERM="xterm")
        env.pop("NO_COLOR", None)
        self.process = subprocess.Popen([str(BIN / "lockstep"), "top", *QUICK, *args], env=env, stdin=secondary, stdout=secondary,
                                        stderr=subprocess.PIPE, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = ""

    def resize(self, columns, lines):
        fcntl.ioctl(self.primary, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys):
        os.write(self.primary, keys.encode())

    def wait_for(self, pattern, timeout=60):
        """Waits until the terminal shows `pattern`. Each call considers only output after the previous match."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = re.search(pattern, self.seen, re.S)
            if found:
                self.seen = self.seen[found.end():]
                return found
            ready, _, _ = select.select([self.primary], [], [], 0.2)
            if ready:
                try:
                    self.seen += os.read(self.primary, 65536).decode(errors="replace")
                except OSError:
                    break
        raise AssertionError(f"{pattern} was not drawn; last: {self.seen[-3000:]!r}")

    def restored(self):
        return termios.tcgetattr(self.secondary)[:4] == self.before[:4]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        os.close(self.primary)
        os.close(self.secondary)


class FaultThatBeginsLater(unittest.TestCase):
    def test_names_no_rank_then_the_slow_rank_then_ends(self):
        repeat_when_late(self.watch, lambda: self.job.output())

    def watch(self, pace, healthy_steps=40):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-top-")
        self.addCleanup(folder.cleanup)
        with LiveJob(BIN, folder.name, ranks=RANKS, rank_args=(*pace, "--forever", "--seed", "7", "--fault", "slow_gpu", "--fault-rank", "5",
                                                               "--fault-size", "0.3", "--fault-from-step", healthy_steps)) as job:
            self.job = job
            job.wait_for_ranks()
            lines = Lines(job)
            self.addCleanup(lines.end)
            healthy, _ = lines.wait_for_event(decided)
            if healthy["last_step"] < healthy_steps:
                return self.judge(lines, healthy, healthy_steps)
        print(f"\nthe first sample came after {healthy_steps} steps; the fault begins later", flush=True)
        return self.watch(pace, 2 * healthy_steps)

    def judge(self, lines, healthy, healthy_steps):
        self.assertEqual(healthy["stragglers"], [], healthy["verdict"])
        self.assertEqual(len(healthy["ranks"]), RANKS)
        # A sample with both healthy and faulty steps may have either verdict.
        found, _ = lines.wait_for_event(lambda line: decided(line) and line["last_step"] > healthy_steps + 5)
        blamed = 0
        while not found["stragglers"] and blamed < 3:
            found, _ = lines.wait_for_event(decided)
            blamed += 1
        self.assertTrue(found["stragglers"], found["verdict"])
        first = found["stragglers"][0]
        self.assertEqual(first["ranks"], [5], found["verdict"])
        self.assertIn(first["cause"], CAUSES["slow_gpu"])
        worst = max(found["ranks"], key=lambda r: r["lost_ns_per_step"] or 0)
        self.assertEqual(worst["rank"], 5)
        self.assertGreater(found["step_ns"], healthy["step_ns"] * 1.1)
        self.job.signal_ranks(signal.SIGTERM)
        ended, _ = lines.wait_for_event(lambda line: line["event"] == "ended")
        self.assertGreaterEqual(ended["samples"], 2)
        self.assertEqual(lines.end()[0], 0)


class BesideARunningJob(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lockstep-top-")
        cls.work = pathlib.Path(cls.folder.name)
        cls.addClassCleanup(cls.folder.cleanup)
        cls.shared = SharedJob(lambda pace: LiveJob(BIN, cls.work / f"job{pace[1]}", ranks=RANKS, rank_args=(
            "--forever", "--seed", "3", *(PACE if pace == RANK_ARGS else SLOW_PACE), "--fault", "slow_gpu", "--fault-rank", "2", "--fault-size", "0.25")))
        cls.addClassCleanup(cls.shared.close)

    def screen(self, *args, **kwargs):
        screen = Screen(self.job, *args, **kwargs)
        self.addCleanup(screen.close)
        return screen

    @repeated_when_late
    def test_once_prints_a_text_and_ends(self):
        done = self.job.cli("top", "--once")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("STRAGGLER rank 2", done.stdout)
        self.assertRegex(done.stdout, r"RANK +HOST +GPU +SELF +ABOVE TYPICAL\*")
        self.assertRegex(done.stdout, r"sampled 1 s every 5 s \(20% of the time\)")
        self.assertNotIn("\x1b", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    @repeated_when_late
    def test_refuses_unknown_jobs_and_invalid_bounds(self):
        self.assertEqual(self.job.cli("top", "--job", "nobody", "--once").returncode, 4)
        wrong = self.job.cli("top", "--every", "2s", "--window", "1500ms", "--once")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("more than half of the time", wrong.stderr)

    @repeated_when_late
    def test_keys_work_and_the_terminal_is_restored(self):
        screen = self.screen()
        screen.wait_for(r"\x1b\[\?1049h")
        screen.wait_for(r"STRAGGLER\x1b\[0m rank 2")
        screen.wait_for(r"by above-typical")
        screen.press("s")
        screen.wait_for(r"by wait")
        screen.press("?")
        screen.wait_for(r"\? back  q quit")
        screen.press("\x1b")
        screen.wait_for(r"by wait")
        screen.press("\x1b[B")
        screen.press("p")
        screen.wait_for(r"PAUSED")
        screen.press("p")
        screen.wait_for(r"watched \d+:\d\d[^P]*STEP")
        screen.resize(64, 14)
        screen.process.send_signal(signal.SIGWINCH)
        screen.wait_for(r"\x1b\[H(?:[^\n]*\n){13}[^\n]*\x1b\[J")
        screen.press("q")
        screen.wait_for(r"\x1b\[\?25h\x1b\[\?1049l")
        self.assertEqual(screen.process.wait(30), 0)
        self.assertTrue(screen.restored(), "echo and lines are back")

    @repeated_when_late
    def test_signals_restore_the_terminal(self):
        for sent in (signal.SIGTERM, signal.SIGINT):
            screen = self.screen()
            screen.wait_for(r"\x1b\[\?1049h")
            screen.process.send_signal(sent)
            screen.wait_for(r"\x1b\[\?1049l")
            self.assertEqual(screen.process.wait(30), 0)
            self.assertTrue(screen.restored())

    def lines(self, *args):
        lines = Lines(self.job, *args)
        self.addCleanup(lines.end)
        return lines

    @repeated_when_late
    def test_a_capture_pauses_samples(self):
        lines = self.lines()
        lines.wait_for_event(decided)
        # The captures begin at different times between samples, also during a sample.
        for delay in (0.0, 0.7):
            lines.wait_for_event(decided)
            time.sleep(delay)
            out = self.work / f"capture-{time.monotonic_ns()}"
            done = self.job.trace(out, "--duration", "4s")
            self.assertEqual(done.returncode, 0, done.stderr)
            report = report_of(out)
            self.assertEqual(len(report["ranks"]), RANKS)
            self.assertEqual(report["stragglers"][0]["ranks"], [2])
            # A capture may break off a sample. It then loses at most the first queued record of each stream,
            # and a rank has seven.
            self.assertLessEqual(sum(loss["records"] for loss in report["capture"]["losses"]), 7 * RANKS, report["capture"]["losses"])
            self.assertLessEqual({loss["reason"] for loss in report["capture"]["losses"]},
                                 {"their stamps were missing or ended before they started"})
            paused, _ = lines.wait_for_event(lambda line: line["event"] == "pause")
            self.assertTrue(paused["gave_way"], paused)
            lines.wait_for_event(decided)

    @repeated_when_late
    def test_two_clients_share_a_jobs_samples(self):
        first = self.lines()
        mine, _ = first.wait_for_event(lambda line: decided(line) and line["watchers"] == 1)
        second = self.lines("--every", "10s")
        shared, _ = second.wait_for_event(lambda line: decided(line) and line["begin_unix_ns"] > mine["begin_unix_ns"])
        same, _ = first.wait_for_event(lambda line: line["event"] == "sample" and line["begin_unix_ns"] >= shared["begin_unix_ns"])
        self.assertEqual(same["begin_unix_ns"], shared["begin_unix_ns"])
        self.assertEqual(same["sample"], shared["sample"])
        # The program whose aggregator both used ends. The other one continues by itself.
        first.end()
        after, _ = second.wait_for_event(lambda line: decided(line) and line["begin_unix_ns"] > shared["begin_unix_ns"])
        self.assertEqual(after["stragglers"][0]["ranks"], [2])

    @repeated_when_late
    def test_samples_are_not_stored_as_captures(self):
        state = self.work / "aggregator"
        socket = pathlib.Path(self.job.socket).parent / "aggregator.sock"
        aggregator = subprocess.Popen([str(BIN / "lockstep-aggregator"), "--listen", f"unix:{socket}", "--state-dir", str(state)],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            self.assertIn("listening", aggregator.stdout.readline())
            done = self.job.cli("top", "--aggregator", f"unix:{socket}", "--once")
            self.assertEqual(done.returncode, 4, "no daemon has dialled it")
        finally:
            aggregator.terminate()
            aggregator.communicate(timeout=30)
        self.assertEqual(list((state / "captures").iterdir()), [])
        self.assertEqual(list((state / "samples").iterdir()), [])


class Cost(unittest.TestCase):
    STEPS = 100

    def run_job(self, work, top):
        """Returns the time that the ranks needed for their steps in seconds, and the number of samples."""
        with LiveJob(BIN, work, ranks=RANKS, rank_args=("--steps", self.STEPS, "--seed", "5", *PACE)) as job:
            watching = None
            job.wait_for_ranks()
            begun = time.monotonic()
            if top:
                watching = Lines(job)
            job.process.wait(300)
            took = time.monotonic() - begun
            samples = 0
            if watching:
                samples = sum(line is not None and line["event"] == "sample" for line in watching.end()[1])
            return took, samples

    def test_does_not_slow_the_job(self):
        # Other work on the machine changes both times. A `top` that stops the job makes each pair exceed the
        # limit, and other work does not.
        with tempfile.TemporaryDirectory(prefix="lockstep-top-") as work:
            for pair in range(8):
                without, _ = self.run_job(f"{work}/a{pair}", top=False)
                with_top, samples = self.run_job(f"{work}/b{pair}", top=True)
                ratio = with_top / without
                print(f"\n{self.STEPS} steps: {without:.2f} s without, {with_top:.2f} s with top at half of the time, ratio {ratio:.3f}; "
                      f"{samples} samples; load average {os.getloadavg()[0]:.1f}")
                if samples > 1 and ratio < 1.25:
                    return
            self.fail("in each of eight pairs of jobs, the one with `top` took longer, or had too few samples")


if __name__ == "__main__":
    unittest.main()
