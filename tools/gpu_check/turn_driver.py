"""Has several programs make their steps in turns: exactly one runs at a time, so that they can share one GPU and still be compared."""
import json
import os
import select
import time


class TurnFailed(Exception):
    """A program did not do its turn; the text says which and why."""


class TurnWorker:
    """One program that speaks turns.py's protocol. `start(answers)` starts it and returns an object with running(), tell(line) and said()
    (a session.Workload)."""

    def __init__(self, name, folder, start):
        self.name, self.log, self.pending = name, open(folder / f"{name}.answers.jsonl", "w"), b""
        answers = folder / f"{name}.fifo"
        os.mkfifo(answers)
        # Without waiting for the writer, who may never come.
        self.fd = os.open(answers, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.workload = start(answers)
        except BaseException:
            self.close()
            raise

    def ready(self, timeout):
        return self._answer("ready", timeout)

    def ask(self, command, timeout=60):
        """The answer, or TurnFailed."""
        self.workload.tell(command)
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
                raise TurnFailed(f"{self.name}: no answer to `{command}` within {timeout} s: {self.workload.said()}")
            running = self.workload.running()
            select.select([self.fd], [], [], 0.05)
            try:
                piece = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                piece = b""
            self.pending += piece
            # What it said before it ended may still be in the pipe.
            if not piece and not running:
                raise TurnFailed(f"{self.name}: ended at `{command}`: {self.workload.said()}")
            if not piece:
                time.sleep(0.002)  # nobody has opened the other end yet: select says readable
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
    """What was measured: per (workload, arm) a list of Pairs, and the turns themselves."""

    def __init__(self, pair):
        self.pair, self.pairs, self.answers = pair, {}, {}

    def add(self, arm, base, answer):
        key = (answer["workload"], arm)
        self.pairs.setdefault(key, []).append(self.pair(base["ns"], answer["ns"]))
        self.answers.setdefault(key, []).append(answer)

    def quiet_round(self, base, arms, workload, steps, number):
        """A turn of each program, the first one another each time; `arms`: name -> worker."""
        names = ["", *arms]
        names = names[number % len(names):] + names[:number % len(names)]
        done = {name: (arms[name] if name else base).ask(f"turn {workload} {steps}") for name in names}
        for name in arms:
            self.add(name, done[""], done[name])

    def beside(self, base, arm, worker, workloads, steps):
        """While something is on in `worker` (a capture, a profiler): a turn of each workload, the base's next to it."""
        for workload in workloads:
            without = base.ask(f"turn {workload} {steps}")
            self.add(arm, without, worker.ask(f"turn {workload} {steps}"))
