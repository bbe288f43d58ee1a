"""When the program, the daemon or both end in a capture."""
import os
import signal
import time

from helpers import BackgroundTrace, cuda_loop, registers, why
from session import Session


def alive(workload):
    before = len(workload.events("burst"))
    time.sleep(1)
    return workload.running() and len(workload.events("burst")) > before


def robustness(setup, table):
    with Session(setup, "killed-program") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if registers(table, session, workload, label="to be killed: the client reaches the daemon"):
            trace = BackgroundTrace(session, "capture", "3s")
            time.sleep(1.5)
            os.killpg(workload.pid, signal.SIGKILL)
            trace.join(50)
            kept = (trace.folder / "report.json").exists()
            table.check("the program is killed while captured: the capture ends and is kept",
                        trace.code in (0, 7) and trace.seconds < 25 and kept,
                        f"exit {trace.code} after {trace.seconds:.1f} s, {'kept' if kept else 'not kept'}: {why(trace.said)}",
                        "exit 7 (or 0), kept")
            table.check("the daemon lives on", session.daemon.poll() is None and session.status()[0] == [], session.status(), "no rank")
    with Session(setup, "killed-daemon") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if registers(table, session, workload, label="to lose its daemon: the client reaches it"):
            trace = BackgroundTrace(session, "capture", "3s")
            time.sleep(1.5)
            session.daemon.kill()
            session.daemon.wait(10)
            trace.join(50)
            table.check("the daemon is killed in a capture: the CLI says so", trace.code not in (None, 0) and trace.seconds < 30,
                        f"exit {trace.code} after {trace.seconds:.1f} s: {why(trace.said)}", "a sentence, not exit 0")
            table.check("the program runs on without it", alive(workload), workload.said(), "bursts go on")
            session.start_daemon()
            if registers(table, session, workload, label="it finds the next daemon"):
                code, _, said = session.trace("capture-after", "--duration", "500ms", "--formats", "none")
                table.check("and is captured again", code == 0, f"exit {code}: {why(said)}", "exit 0")
            code = workload.stop()
            table.check("the program ends as ever", code == 0, f"exit {code}: {workload.said()}", "exit 0")
    with Session(setup, "ends-in-capture") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if registers(table, session, workload, label="to end in a capture: the client reaches the daemon"):
            trace = BackgroundTrace(session, "capture", "4s")
            time.sleep(2)
            began = time.monotonic()
            code = workload.stop()
            table.check("the program ends in a capture", code == 0, f"exit {code}, {time.monotonic() - began:.1f} s after it was asked to: "
                        f"{workload.said()}", "exit 0")
            trace.join(50)
            table.check("what it had recorded is kept", trace.code in (0, 7) and (trace.folder / "report.json").exists(),
                        f"exit {trace.code} after {trace.seconds:.1f} s: {why(trace.said)}", "exit 0 or 7, kept")
