"""Measures the effect of a capture's start and end on the program, and the alignment of the GPU's clock to
the host's."""
import statistics
import time

import captures
from helpers import cuda_loop, registers, traced
from overhead_stats import quantile
from session import Session

LATEST_END_MS = 2000  # a client that waits for a buffer in vain takes 2.5 s
SETTLED_NS = 300_000_000


def latency(setup, table):
    with Session(setup, "latency") as session:
        # The bursts have no pauses, so that a stall of one millisecond shows in one of them.
        loop = cuda_loop(setup, session, "loop", "--launches", "20", "--copies", "0", "--pause-ms", "0", "--cycles", "20000")
        workload = session.workload("loop", loop, session.under_run())
        if not registers(table, session, workload):
            return
        time.sleep(1)
        for which in ("first", "second"):
            asked = time.time_ns()
            capture = traced(table, session, f"{which} capture", "--duration", "500ms")
            time.sleep(0.5)
            if capture is None:
                return
            table.id = "A8"
            late_ms = (capture.answered_ns - capture.t1) / 1e6
            table.check(f"{which} capture: it ends soon after its window", late_ms < LATEST_END_MS, f"{late_ms:.0f} ms after it",
                        f"less than {LATEST_END_MS} ms: CUPTI holds no buffer that the client waits for")
            fact_stalls(table, workload.events("burst"), capture, asked, which)
            if which == "first":
                check_clocks(table, capture)
        workload.stop()
    table.left_out("per-thread buffers off", "the client leaves CUPTI's own default, which is on")


def fact_stalls(table, bursts, capture, asked, which):
    def taken(low, high):
        return [b["end_ns"] - b["start_ns"] for b in bursts if b["end_ns"] > low and b["start_ns"] < high]

    before = taken(asked - 2 * SETTLED_NS, asked)
    table.id = "A8"
    table.fact(f"{which} capture: from the command to the window", f"{(capture.t0 - asked) / 1e6:.0f} ms; from the window's end to the "
               f"report {(capture.answered_ns - capture.t1) / 1e6:.0f} ms")
    longest = {"before": before, "while arming": taken(asked, capture.t0), "captured": taken(capture.t0, capture.t1),
               "ending": taken(capture.t1, capture.t1 + SETTLED_NS)}
    table.fact(f"{which} capture: longest burst",
               ", ".join(f"{when} {max(ns, default=0) / 1e6:.2f} ms" for when, ns in longest.items()) +
               f"; median before {statistics.median(before or [0]) / 1e6:.2f} ms")


def check_clocks(table, capture):
    table.id = "A9"
    delays = captures.launch_delays(capture)
    if not delays:
        table.check("launch call to kernel start", False, "no kernel has its call", "some")
        return
    marks = ", ".join(f"{name} {quantile(delays, fraction):.0f}" for name, fraction in (("1 %", 0.01), ("median", 0.5), ("99 %", 0.99)))
    negative = sum(d < 0 for d in delays)
    table.check("launch call to kernel start", delays[0] >= -captures.SLACK_NS,
                f"ns: least {delays[0]}, {marks}; {negative} of {len(delays)} negative ({negative / len(delays):.2%})",
                f"none below -{captures.SLACK_NS} ns")
