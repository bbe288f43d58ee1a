"""Measures Lockstep's cost. It compares step times without Lockstep, idle, prepared, after a capture, during
one, and with PyTorch's own profiler. The programs run in turns."""
import statistics
import time

import captures
import overhead_stats
from helpers import BackgroundTrace, why
from session import Session
from turn_driver import TurnFailed, TurnWorker, Turns

BARE, AGAIN, IDLE, PREPARED, AFTER = "bare", "bare again", "idle client", "prepared client", "client after a finished capture"
CAPTURING, KERNELS, KINETO, KINETO_CPU = ("capturing, default kinds", "capturing, kernels only", "PyTorch's profiler, CUDA",
                                          "PyTorch's profiler, CPU and CUDA")
ACTIVITIES = {CAPTURING: (), KERNELS: ("--activities", "kernel")}
PROFILES = {KINETO: "cuda", KINETO_CPU: "cpu+cuda"}
# Highest allowed cost of a capture. LONG is for kernels of 10 us and more, LAUNCH_BOUND for a loop limited by
# launches.
LONG, LAUNCH_BOUND = 0.02, 0.10
TORCH = {"products": LONG, "tiny": LAUNCH_BOUND, "transformer": LAUNCH_BOUND, "transformer_graph": LAUNCH_BOUND}
PLAIN = {"long_kernels": LONG, "tiny_kernels": LAUNCH_BOUND, "tiny_graph": LAUNCH_BOUND}
ROUNDS, STEPS = 5, 50  # 250 steps of each program, and 200 if one round is lost
LEAST_STEPS = 200
STARTS_WITHIN_S = 90


def overhead(setup, table):
    with_torch = setup.has("torch")
    with Session(setup, "overhead") as session:
        run = Overhead(setup, table, session, "torch_turns.py" if with_torch else "plain_turns.py", TORCH if with_torch else PLAIN)
        try:
            run.start(["kineto"] if with_torch else [])
            run.rounds(2 if setup.simulate else ROUNDS, 4 if setup.simulate else STEPS)
        except TurnFailed as failed:
            table.check("the programs take their turns", False, failed, "every turn answered")
        finally:
            for worker in run.workers.values():
                worker.close()
            run.add_rows()  # also if the time is up before the end


class Overhead:
    def __init__(self, setup, table, session, program, limits):
        self.setup, self.table, self.session, self.program, self.limits = setup, table, session, program, limits
        self.workers, self.turns, self.captures = {}, Turns(overhead_stats.Pair), {}
        self.number = 0

    def start(self, more):
        """Starts all programs at once, because an import of PyTorch takes seconds. They take turns when all
        are ready."""
        under_run = self.session.under_run()
        wraps = {BARE: (), AGAIN: (), IDLE: under_run, PREPARED: under_run, AFTER: under_run, **{name: () for name in more}}
        for name, wrap in wraps.items():
            env = {"LOCKSTEP_PREPARE": "always"} if name == PREPARED else {}
            self.start_one(name, wrap, env)
        for worker in self.workers.values():
            worker.ready(STARTS_WITHIN_S)
        for name, worker in self.workers.items():
            for workload in self.limits:
                # A graph from before the first capture would be invisible in it. Check A5 covers that case.
                if not (name in (AFTER, "kineto") and workload.endswith("_graph")):
                    worker.ask(f"prepare {workload}")
        first = next(iter(self.limits))
        self.capture(CAPTURING, [first], 3, counted=False)
        profiled = [self.workers["kineto"]] if "kineto" in self.workers else []
        for worker in profiled:
            for command in ("profile-on cuda", f"turn {first} 3", "profile-off"):
                worker.ask(command)
        for worker in [self.workers[AFTER], *profiled]:
            for workload in self.limits:
                worker.ask(f"prepare {workload}")

    def start_one(self, name, wrap, env):
        short = name.replace(" ", "-")
        self.workers[name] = TurnWorker(short, self.session.folder, lambda answers: self.session.workload(
            short, self.setup.script(self.program, "--answers", answers), wrap, env))

    def rounds(self, rounds, steps):
        began = time.monotonic()
        for number in range(rounds):
            # Begins another round only if the time is enough for it and for the report.
            if number and self.setup.section_left() < 1.2 * (time.monotonic() - began) / number + 8:
                break
            quiet = {name: self.workers[name] for name in (AGAIN, IDLE, PREPARED, AFTER)}
            for workload in self.limits:
                self.turns.quiet_round(self.workers[BARE], quiet, workload, steps, number)
            for arm in ACTIVITIES:
                self.capture(arm, list(self.limits), steps)
            for arm, kind in PROFILES.items():
                if "kineto" in self.workers:
                    self.workers["kineto"].ask(f"profile-on {kind}")
                    self.turns.beside(self.workers[BARE], arm, self.workers["kineto"], self.limits, steps)
                    self.workers["kineto"].ask("profile-off", timeout=90)
        for name in (BARE, IDLE, AFTER):
            try:
                cost = self.workers[name].ask("ranges 10000")["ns"]
                self.table.id = "A12"
                self.table.fact(f"an NVTX range pushed and popped, {name}", f"{cost:.0f} ns with the two looks at the clock")
            except TurnFailed:
                pass  # plain programs without the client have no ranges
        self.table.id = "A7"

    def capture(self, arm, workloads, steps, counted=True):
        """Makes a capture whose window contains the turns. The program itself opens and closes it."""
        worker = self.workers[AFTER]
        self.number += 1
        trace = BackgroundTrace(self.session, f"capture-{self.number}", "--pid", str(worker.workload.pid), "--start-on-profiler-api",
                                *ACTIVITIES[arm])
        try:
            worker.ask("capture-on")
            if counted:
                self.turns.beside(self.workers[BARE], arm, worker, workloads, steps)
            else:
                worker.ask(f"turn {workloads[0]} {steps}")
            worker.ask("capture-off")
        except TurnFailed as failed:
            trace.join(5)
            raise TurnFailed(f"{failed}; `lockstep trace`: exit {trace.code}: {why(trace.output)}") from failed
        trace.join(60)
        if trace.code != 0:
            raise TurnFailed(f"{arm}: `lockstep trace` exit {trace.code}: {why(trace.output)}")
        if counted:
            rows, losses = captures.totals(trace.folder)
            self.captures.setdefault(arm, []).append((sum(rows.values()), sum(loss["records"] for loss in losses)))

    def add_rows(self):
        ratios = {key: overhead_stats.ratio(pairs) for key, pairs in self.turns.pairs.items()}
        for workload, most in self.limits.items():
            control = ratios.get((workload, AGAIN))
            if control is None:
                self.table.left_out(f"{workload}", "it had no turn")
                continue
            base = [ns for pair in self.turns.pairs[workload, AGAIN] for ns in pair.base]
            self.table.fact(f"{workload}: bare", f"median step {statistics.median(base) / 1e3:.1f} us of {len(base)}; a second bare "
                            f"program takes {overhead_stats.text(control)} of it")
            for arm in (IDLE, PREPARED, AFTER):
                self.judge(workload, arm, ratios, lambda found, control=control: overhead_stats.within_noise(found, control),
                           f"within noise of none: down to 1 or to the second bare program's {max(1, control.high):.4f}", control)
            for arm in ACTIVITIES:
                self.judge(workload, arm, ratios, lambda found, most=most: found.value <= 1 + most, f"at most {1 + most:.2f}")
            for arm in PROFILES:
                self.judge(workload, arm, ratios, None, "")
            self.compare(workload, ratios)
        self.table.left_out("capturing with all driver calls", "no capture records more of the driver than its launches (docs/triggers.md)")

    def judge(self, workload, arm, ratios, is_good, goal, control=None):
        found, label = ratios.get((workload, arm)), f"{workload}: {arm}"
        if found is None:
            self.table.left_out(label, "it had no turn" + ("" if "kineto" in self.workers or arm not in PROFILES else
                                                                   ": there is no PyTorch"))
            return
        figure = f"{overhead_stats.text(found)} of bare; {self.details(workload, arm)}"
        if control:
            figure += f"; a slowdown below {100 * overhead_stats.smallest_visible(found, control):.2f} % would not show"
        enough = sum(len(p.steps) for p in self.turns.pairs[workload, arm]) >= LEAST_STEPS
        if is_good is None:
            self.table.fact(label, figure)
        elif enough or self.setup.simulate:
            self.table.judge(label, is_good(found), figure, goal)
        else:
            self.table.left_out(label, f"out of time: fewer than {LEAST_STEPS} steps; {figure}")

    def details(self, workload, arm):
        pairs, answers = self.turns.pairs[workload, arm], self.turns.answers[workload, arm]
        steps, base = [ns for p in pairs for ns in p.steps], [ns for p in pairs for ns in p.base]
        slower = statistics.median(steps) - statistics.median(base)
        parts = [f"median step {statistics.median(steps) / 1e3:.1f} us of {len(steps)}"]
        if answers[0]["launches"]:
            parts.append(f"{slower / answers[0]['launches'] / 1e3:+.3f} us per launch")
        quiet = self.turns.answers.get((workload, AFTER))
        if quiet and arm not in (AGAIN, IDLE, PREPARED, AFTER):
            taken = statistics.median(a["free_bytes"] for a in quiet) - statistics.median(a["free_bytes"] for a in answers)
            parts.append(f"GPU memory {taken / 1e6:+.1f} MB")
        if arm in self.captures:
            seconds = sum(a["end_ns"] - a["start_ns"] for key, turns in self.turns.answers.items() if key[1] == arm for a in turns) / 1e9
            lost = sum(lost for _, lost in self.captures[arm])
            parts.append(f"{sum(rows for rows, _ in self.captures[arm]) / seconds:.0f} records/s over all workloads, {lost} lost")
            if not all(all(a["capturing"]) for a in answers):
                parts.append("some turns were not captured to their end")
        return ", ".join(parts)

    def compare(self, workload, ratios):
        label = f"{workload}: capturing costs no more than PyTorch's profiler"
        ours, theirs = ratios.get((workload, CAPTURING)), ratios.get((workload, KINETO))
        if ours is None or theirs is None:
            self.table.left_out(label, "PyTorch is missing" if "kineto" not in self.workers else "one of them had no turn")
            return
        found = overhead_stats.relative(ours, theirs)
        self.table.judge(label, found.low <= 1, f"{overhead_stats.text(found)} of its step, CUDA activities only; a difference below "
                         f"{100 * overhead_stats.smallest_visible(found):.2f} % would not show",
                         "at most 1, within the interval")
