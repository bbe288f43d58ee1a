"""Checks CUDA graphs that were made before and after CUPTI was set up. Their kernels must be recorded one by
one, or the loss must be reported."""
import os
import signal
import time

import captures
from helpers import cuda_loop, registers, traced
from session import Session

# Faults of CUPTI 13.0, for the simulation only.
AS_CUPTI_13_0 = {"SIMGPU_CUPTI_FAULTS": f"graph_before_cupti,graph_correlation,{os.environ.get('SIMGPU_CUPTI_FAULTS', '')}"}
MAY_RUN_LATER_NS = 100_000_000
# Columns: preparation before the graph is made, value of LOCKSTEP_PREPARE, whether the graph's kernels must
# be visible.
CASES = [("before any capture, unprepared", "never", False), ("after LOCKSTEP_PREPARE=always has prepared", "always", True),
         ("after a first capture", "never", True)]


def graphs(setup, table):
    for number, (name, prepare, must_be_seen) in enumerate(CASES):
        with Session(setup, f"graphs-{number}") as session:
            at_once = ["--graph"] if number == 0 else []
            workload = session.workload("loop", cuda_loop(setup, session, "loop", "--launches", "100", *at_once), session.under_run(),
                                        {"LOCKSTEP_PREPARE": prepare, **(AS_CUPTI_13_0 if setup.simulate else {})})
            if not registers(table, session, workload, label=f"{name}: the client reaches the daemon"):
                continue
            time.sleep(1)
            if number == 2 and session.trace("capture-before", "--duration", "300ms", "--formats", "none")[0] != 0:
                table.check(f"{name}: the capture before", False, workload.output(), "exit 0")
                continue
            if number:
                os.kill(workload.pid, signal.SIGUSR1)
            if not workload.wait_for("graph", 1, 20):
                table.check(f"{name}: a graph is made", False, workload.output(), "a graph")
                continue
            time.sleep(0.3)
            made = [(which, traced(table, session, f"graph made {name}: {which} capture", "--duration", "500ms"))
                    for which in ("first", "second")]
            workload.stop()
            for which, capture in made:
                if capture is not None:
                    check_replays(table, capture, workload.events("burst"), f"graph made {name}: {which} capture", must_be_seen)
            if made[0][1] is not None and number < 2:
                setup.kept.append((("graphs-not-visible", "graphs")[number], made[0][1].folder))
    begin_while_capturing(setup, table)
    table.left_out("graphs as one record each (GRAPH_TRACE)", "the client records nodes; nothing of ours asks CUPTI for whole graphs")


def begin_while_capturing(setup, table):
    """Begins captures of Lockstep while the program captures streams. CUDA ends a capture of mode global if any thread makes
    certain calls, and the program then fails."""
    with Session(setup, "graphs-global") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop", "--launches", "50", "--pause-ms", "0", "--new-graphs"),
                                    session.under_run())
        if not registers(table, session, workload, label="new graphs all the time: the client reaches the daemon"):
            return
        time.sleep(0.5)
        made = 0
        for number in range(3 if setup.simulate else 8):
            code, _, _ = session.trace(f"capture-{number}", "--formats", "none", "--duration", "300ms")
            made += code == 0
        runs = workload.running()
        code = workload.stop()
        table.check("captures begin while streams are captured: no stream capture fails", made > 0 and runs and code == 0,
                    f"{made} captures, {len(workload.events('burst'))} graphs, exit {code}: {workload.output()}", "exit 0")


def check_replays(table, capture, bursts, label, must_be_seen):
    """Checks that every kernel of the replays is recorded, or that the report counts the invisible replays."""
    replays = [b for b in bursts if b["graph"] and b["start_ns"] > capture.t0 + captures.SLACK_NS and
               b["end_ns"] < capture.t1 - captures.SLACK_NS]
    unseen = sum(row["launches"] for row in capture.report["capture"]["graphs_not_visible"])
    if unseen == 0:
        captures.check_bursts(table, capture, bursts, label)
        captures.fact_graph_launches(table, capture, label)
        table.check(f"{label}: nothing lost", capture.lost == 0, f"{capture.lost} lost; {capture.rows}", "0 lost")
        return
    # The last replays may have run after the window, and a replay that the window cuts may count.
    sure = sum(b["end_ns"] < capture.t1 - MAY_RUN_LATER_NS for b in replays)
    named = sure <= unseen <= len(replays) + 2 and not capture.report["stragglers"]
    table.check(f"{label}: unrecorded launches are reported", named and not must_be_seen,
                f"graphs_not_visible has {unseen} launches, {len(replays)} were made in the window; "
                f"{len(capture.report['stragglers'])} ranks are blamed; {capture.rows}",
                "their kernels" if must_be_seen else "all of them, no rank blamed")
