"""Lets several programs run their steps in turns. Only one runs at a time, so that they can share one GPU and
be compared."""
import json
import os
import select
import time


class TurnFailed(Exception):
    """A program did not run its turn. The text names the program and the reason."""


class TurnWorker:
    """One program with the protocol of turns.py. `start(answers)` starts it and returns an object with
    running(), send(line) and output() (a session.Workload)."""

    def __init__(self, name, folder, start):
        self.name, self.log, self.pending = name, open(folder / f"{name}.answers.jsonl", "w"), b""
        answers = folder / f"{name}.fifo"
        os.mkfifo(answers)
        # Opens the FIFO without waiting for the writer, because the program may never open it.
        self.fd = os.open(answers, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.workload = start(answers)
        except BaseException:
            self.close()
            raise

    def ready(self, timeout):
        return self._answer("ready", timeout)

    def ask(self, command, timeout=60):
        """Returns the answer, or raises TurnFailed."""
        self.workload.send(command)
        answer = self._answer(command, timeout)
        if "error" in answer:
            raise TurnFailed(f"{self.name}: {command}: {answer['error']}")
        return answer

    def close(self):
        os.close(self.fd)
        self.log.close()

    def _answer(self, command, timeout):
        deadline = time.monotonic() + timeout
        while b"\n" not in self.pending:
            if time.monotonic() > deadline:
                raise TurnFailed(f"{self.name}: no answer to `{command}` within {timeout} s: {self.workload.output()}")
            running = self.workload.running()
            select.select([self.fd], [], [], 0.05)
            try:
                piece = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                piece = b""
            self.pending += piece
            # Output from before the program's end may still be in the pipe.
            if not piece and not running:
                raise TurnFailed(f"{self.name}: ended at `{command}`: {self.workload.output()}")
            if not piece:
                time.sleep(0.002)  # the program has not opened its end yet, and select reports the FIFO as readable
        line, _, self.pending = self.pending.partition(b"\n")
        self.log.write(line.decode(errors="replace") + "\n")
        self.log.flush()
        try:
            answer = json.loads(line)
        except ValueError:
            raise TurnFailed(f"{self.name}: `{command}` was answered by {line[:100]!r}") from None
        if answer.get("event") != command.split()[0]:
            raise TurnFailed(f"{self.name}: `{command}` was answered by {answer.get('event')!r}")
        return answer


class Turns:
    """The measured turns: a list of Pairs per (workload, arm), and the answers."""

    def __init__(self, pair):
        self.pair, self.pairs, self.answers = pair, {}, {}

    def add(self, arm, base, answer):
        key = (answer["workload"], arm)
        self.pairs.setdefault(key, []).append(self.pair(base["ns"], answer["ns"]))
        self.answers.setdefault(key, []).append(answer)

    def quiet_round(self, base, arms, workload, steps, number):
        """Runs one turn of each program. The first program changes with each round. `arms`: name -> worker."""
        names = ["", *arms]
        names = names[number % len(names):] + names[:number % len(names)]
        done = {name: (arms[name] if name else base).ask(f"turn {workload} {steps}") for name in names}
        for name in arms:
            self.add(name, done[""], done[name])

    def beside(self, base, arm, worker, workloads, steps):
        """Runs turns while a capture or a profiler is active in `worker`. Each workload has one turn, with a
        turn of the base before it."""
        for workload in workloads:
            without = base.ask(f"turn {workload} {steps}")
            self.add(arm, without, worker.ask(f"turn {workload} {steps}"))
