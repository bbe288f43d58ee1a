"""Tests the driver of the overhead check with a program that uses the protocol and needs no GPU."""
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from overhead_stats import Pair, ratio
from turn_driver import TurnFailed, TurnWorker, Turns

WORKER = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from turns import Worker

class Sleeper(Worker):
    def __init__(self, seconds, turns):
        super().__init__({"sleep": lambda: (lambda: self.step(seconds), 1), "breaks": self.breaks, "dies": lambda: (lambda: os._exit(3), 1)})
        self.turns = turns
    def step(self, seconds):
        # Two at a time would find the other's file.
        os.close(os.open(self.turns, os.O_CREAT | os.O_EXCL))
        time.sleep(seconds)
        os.unlink(self.turns)
    def breaks(self):
        raise ValueError("there is no such thing")

Sleeper(float(sys.argv[3]), sys.argv[4]).serve(sys.argv[2])
"""


class Program:
    """Has the interface of session.Workload."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def running(self):
        return self.process.poll() is None

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def output(self):
        return f"exit {self.process.poll()}"

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


class Driver(unittest.TestCase):
    def worker(self, name, code, *args):
        def start(answers):
            program = Program([sys.executable, "-c", code, str(pathlib.Path(__file__).parent), str(answers), *map(str, args)])
            self.addCleanup(program.end)
            return program
        worker = TurnWorker(name, self.folder, start)
        self.addCleanup(worker.close)
        return worker

    def sleeper(self, name, seconds):
        worker = self.worker(name, WORKER, seconds, self.folder / "turn")
        self.assertEqual(worker.ready(20)["workloads"], ["breaks", "dies", "sleep"])
        return worker

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_programs_step_in_turn_and_the_slower_one_shows(self):
        bare, same, slow = self.sleeper("bare", 0.002), self.sleeper("same", 0.002), self.sleeper("slow", 0.006)
        turns = Turns(Pair)
        for number in range(3):
            turns.quiet_round(bare, {"same": same, "slow": slow}, "sleep", 8, number)
        turns.beside(bare, "beside", slow, ["sleep"], 8)
        self.assertEqual({key: len(pairs) for key, pairs in turns.pairs.items()},
                         {("sleep", "same"): 3, ("sleep", "slow"): 3, ("sleep", "beside"): 1})
        slower = ratio(turns.pairs["sleep", "slow"], resamples=200).value
        self.assertGreater(slower, max(1.2, ratio(turns.pairs["sleep", "same"], resamples=200).value))
        # The order changes, so that no program always follows the same other one.
        spans = [[(a["start_ns"], name) for name in ("same", "slow") for a in turns.answers["sleep", name][n:n + 1]] for n in range(3)]
        self.assertEqual(len({tuple(name for _, name in sorted(span)) for span in spans}), 2)

    def test_reports_an_impossible_command_and_continues(self):
        worker = self.sleeper("worker", 0.001)
        for command, output in (("turn breaks 3", "there is no such thing"), ("profile-on cuda", "not in this program"),
                              ("capture-on", "no client"), ("nonsense", "no command"), ("turn", "IndexError")):
            with self.assertRaisesRegex(TurnFailed, output):
                worker.ask(command)
        self.assertEqual(len(worker.ask("turn sleep 2")["ns"]), 2)

    def test_reports_programs_that_die_hang_or_answer_wrongly(self):
        worker = self.sleeper("dies", 0.001)
        with self.assertRaisesRegex(TurnFailed, "ended at `turn dies 1`: exit 3"):
            worker.ask("turn dies 1", timeout=20)
        worker = self.sleeper("hangs", 60)
        began = time.monotonic()
        with self.assertRaisesRegex(TurnFailed, "no answer to `turn sleep 1` within 0.5 s"):
            worker.ask("turn sleep 1", timeout=0.5)
        self.assertLess(time.monotonic() - began, 5)
        talks = self.worker("talks", "import sys, time; open(sys.argv[2], 'w').write('what?\\n'); time.sleep(30)")
        with self.assertRaisesRegex(TurnFailed, "what"):
            talks.ready(20)
        never = self.worker("never", "raise SystemExit(5)")
        with self.assertRaisesRegex(TurnFailed, "ended at `ready`: exit 5"):
            never.ready(20)


if __name__ == "__main__":
    unittest.main()
