"""Tests a program or a daemon that ends during a capture, a program that forks, a full ring, and full GPU
memory."""
import os
import signal
import time

import captures
from helpers import BackgroundTrace, cuda_loop, registers, traced, why
from section_cuda import FLOOD
from session import Session

SMALL_RING_BYTES = 65536
LEFT_MB = 16  # MB of GPU memory; CUPTI's own buffers take about 10


def alive(workload):
    before = len(workload.events("burst"))
    time.sleep(1)
    return workload.running() and len(workload.events("burst")) > before


def robustness(setup, table):
    with Session(setup, "killed-program") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if registers(table, session, workload, label="to be killed: the client reaches the daemon"):
            trace = BackgroundTrace(session, "capture", "--duration", "3s", timeout=45)
            time.sleep(1.5)
            os.killpg(workload.pid, signal.SIGKILL)
            trace.join(50)
            kept = (trace.folder / "report.json").exists()
            table.check("the program is killed while captured: the capture ends and is kept",
                        trace.code in (0, 7) and trace.seconds < 25 and kept,
                        f"exit {trace.code} after {trace.seconds:.1f} s, {'kept' if kept else 'not kept'}: {why(trace.output)}",
                        "exit 7 (or 0), kept")
            time.sleep(1)
            table.check("the daemon lives on", session.daemon.poll() is None and session.status()[0] == [], session.status(), "no rank")
    with Session(setup, "killed-daemon") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if registers(table, session, workload, label="to lose its daemon: the client reaches it"):
            trace = BackgroundTrace(session, "capture", "--duration", "3s", timeout=45)
            time.sleep(1.5)
            session.daemon.kill()
            session.daemon.wait(10)
            trace.join(50)
            table.check("the daemon is killed in a capture: the CLI reports it", trace.code not in (None, 0) and trace.seconds < 30,
                        f"exit {trace.code} after {trace.seconds:.1f} s: {why(trace.output)}", "a sentence, not exit 0")
            table.check("the program runs on without it", alive(workload), workload.output(), "bursts go on")
            session.start_daemon()
            if registers(table, session, workload, label="it finds the next daemon"):
                code, _, output = session.trace("capture-after", "--duration", "500ms", "--formats", "none")
                table.check("and is captured again", code == 0, f"exit {code}: {why(output)}", "exit 0")
            code = workload.stop()
            table.check("the program ends normally", code == 0, f"exit {code}: {workload.output()}", "exit 0")
    with Session(setup, "ends-in-capture") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if registers(table, session, workload, label="to end in a capture: the client reaches the daemon"):
            trace = BackgroundTrace(session, "capture", "--duration", "4s", timeout=45)
            time.sleep(2)
            began = time.monotonic()
            code = workload.stop()
            table.check("the program ends in a capture", code == 0, f"exit {code}, {time.monotonic() - began:.1f} s after it was asked to: "
                        f"{workload.output()}", "exit 0")
            trace.join(50)
            table.check("its records are kept", trace.code in (0, 7) and (trace.folder / "report.json").exists(),
                        f"exit {trace.code} after {trace.seconds:.1f} s: {why(trace.output)}", "exit 0 or 7, kept")


def forks(setup, table):
    """Tests children of a captured process, rings that are too small, and a GPU without free memory."""
    with Session(setup, "forks") as session:
        # In a simulation, a lock of the driver may be held at the fork (tests/e2e/hostile_test.py has a program for it).
        children = () if setup.simulate else ("--children-use-cuda",)
        workload = session.workload("loop", cuda_loop(setup, session, "loop", "--forks", *children), session.under_run())
        if registers(table, session, workload, label="a program that forks: the client reaches the daemon"):
            time.sleep(0.5)
            capture = traced(table, session, "capture while it forks", "--duration", "700ms")
            found, _ = session.status()
            code, children = workload.stop(), workload.events("child")
            table.check("children of a fork end well and are no ranks", code == 0 and len(found) == 1 and len(children) > 3 and
                        all(child["exit"] == 0 for child in children),
                        f"{len(children)} children, exits {sorted({c['exit'] for c in children})}; {len(found)} rank; "
                        f"the program's exit {code}: {workload.output()}", "exit 0, one rank")
            if capture is not None:
                captures.check_complete(table, capture, "capture while it forks")
                captures.check_bursts(table, capture, workload.events("burst"), "capture while it forks")
    with Session(setup, "ring-full", daemon_env={"LOCKSTEP_RING_BYTES": str(SMALL_RING_BYTES)}) as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop", *FLOOD), session.under_run())
        if registers(table, session, workload, label="small rings: the client reaches the daemon"):
            time.sleep(0.5)
            code, folder, output = session.trace("capture", "--duration", "700ms", "--formats", "none")
            rows, losses = captures.totals(folder) if code == 0 else ({}, [])
            lost = sum(loss["records"] for loss in losses if loss["stage"] == "ring")
            kernels = rows.get("kernel", 0)
            table.check("a ring that is full: the capture is kept and counts its losses", code == 0 and kernels > 0 and lost > 0,
                        f"exit {code}: {why(output)} {kernels} kernels, {lost} records lost in rings of {SMALL_RING_BYTES} bytes",
                        "kernels, and a loss of the ring's")
            code = workload.stop()
            table.check("a ring that is full: the program ends normally", code == 0, f"exit {code}: {workload.output()}", "exit 0")
    if setup.simulate:
        table.left_out("a GPU without memory to spare", "the simulated device has no memory to run out of")
        return
    with Session(setup, "tight-memory") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop", "--leave-mb", LEFT_MB), session.under_run())
        if registers(table, session, workload, label="tight memory: the client reaches the daemon"):
            time.sleep(0.5)
            code, folder, output = session.trace("capture", "--duration", "500ms", "--formats", "none")
            free = workload.events("ready")[0]["free_bytes"] / 1e6
            table.fact("a capture of a GPU without memory to spare", f"{free:.0f} MB free; exit {code}: {why(output)} " +
                       (f"{dict(captures.totals(folder)[0])}" if code == 0 else ""))
            table.check("the program runs on", alive(workload), workload.output(), "bursts go on")
