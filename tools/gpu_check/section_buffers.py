"""Measures captures with other buffers for CUPTI than the client's own. CUPTI fills each buffer with zeros on the thread
that needs it. Smaller buffers make each of these pauses shorter, and zeros by the client make them unnecessary."""
import statistics

import captures
import overhead_stats
from helpers import BackgroundTrace, why
from session import Session
from turn_driver import TurnFailed, TurnWorker, Turns

BARE, OWN = "bare", "1 MiB, the client's own"
ARMS = {OWN: {}, "256 KiB": {"LOCKSTEP_CUPTI_BUFFER_KIB": "256"}, "4 MiB": {"LOCKSTEP_CUPTI_BUFFER_KIB": "4096"},
        "1 MiB, zeros by the client": {"LOCKSTEP_CUPTI_ZEROED": "1"},
        "4 MiB, zeros by the client": {"LOCKSTEP_CUPTI_BUFFER_KIB": "4096", "LOCKSTEP_CUPTI_ZEROED": "1"}}
ROUNDS, STEPS = 4, 60
STARTS_WITHIN_S = 60


def buffers(setup, table):
    with_torch = setup.has("torch")
    workload = "tiny" if with_torch else "tiny_kernels"
    with Session(setup, "buffers") as session:
        run = Buffers(setup, session, "torch_turns.py" if with_torch else "plain_turns.py", workload)
        try:
            run.start()
            run.rounds(2 if setup.simulate else ROUNDS, 4 if setup.simulate else STEPS)
        except TurnFailed as failed:
            table.check("the programs take their turns", False, failed, "every turn answered")
        finally:
            for worker in run.workers.values():
                worker.close()
            run.add_rows(table)


class Buffers:
    def __init__(self, setup, session, program, workload):
        self.setup, self.session, self.program, self.workload = setup, session, program, workload
        self.workers, self.turns, self.rows, self.lost = {}, Turns(overhead_stats.Pair), {}, {}

    def start(self):
        for number, name in enumerate([BARE, *ARMS]):
            wrap = () if name == BARE else self.session.under_run()
            self.workers[name] = TurnWorker(f"arm-{number}", self.session.folder, lambda answers, wrap=wrap, name=name, number=number:
                                            self.session.workload(f"arm-{number}", self.setup.script(self.program, "--answers", answers),
                                                                  wrap, ARMS.get(name, {})))
        for worker in self.workers.values():
            worker.ready(STARTS_WITHIN_S)
            worker.ask(f"prepare {self.workload}")

    def rounds(self, rounds, steps):
        names = list(ARMS)
        for number in range(rounds):
            for name in names[number % len(names):] + names[:number % len(names)]:
                if self.setup.section_left() < 12:
                    return
                self.capture(name, steps, f"{names.index(name)}-{number}")

    def capture(self, name, steps, label):
        worker = self.workers[name]
        trace = BackgroundTrace(self.session, f"capture-{label}", "--pid", str(worker.workload.pid), "--start-on-profiler-api")
        try:
            worker.ask("capture-on")
            self.turns.beside(self.workers[BARE], name, worker, [self.workload], steps)
            worker.ask("capture-off")
        finally:
            trace.join(60)
        if trace.code != 0:
            raise TurnFailed(f"{name}: `lockstep trace` exit {trace.code}: {why(trace.output)}")
        rows, losses = captures.totals(trace.folder)
        self.rows[name] = self.rows.get(name, 0) + sum(rows.values())
        self.lost[name] = self.lost.get(name, 0) + sum(loss["records"] for loss in losses)

    def add_rows(self, table):
        pairs = {name: self.turns.pairs.get((self.workload, name), []) for name in ARMS}
        ratios = {name: overhead_stats.ratio(found) for name, found in pairs.items() if found}
        for name in ARMS:
            if name not in ratios:
                table.left_out(name, "it had no turn")
                continue
            steps = sorted(ns for pair in pairs[name] for ns in pair.steps)
            base = sorted(ns for pair in pairs[name] for ns in pair.base)
            longest = overhead_stats.quantile(steps, 0.99) - overhead_stats.quantile(base, 0.99)
            table.fact(f"{self.workload}: {name}", f"{overhead_stats.text(ratios[name])} of bare; median step {statistics.median(steps) / 1e3:.1f} us "
                       f"of {len(steps)}; the slowest step in 100 takes {longest / 1e3:+.1f} us; {self.rows[name]} records")
            table.check(f"{name}: nothing lost", self.lost[name] == 0, self.lost[name], "0")
        for name in ARMS:
            if name == OWN or name not in ratios or OWN not in ratios:
                continue
            found = overhead_stats.relative(ratios[OWN], ratios[name])
            table.judge(f"the client's own buffers cost no more than {name}", found.low <= 1,
                        f"{overhead_stats.text(found)} of its step; a difference below {100 * overhead_stats.smallest_visible(found):.2f} % "
                        "would not show", "at most 1, within the interval")
