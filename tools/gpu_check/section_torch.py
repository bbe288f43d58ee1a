"""Checks a PyTorch loop: captures, CUDA graphs, PyTorch's own profiler beside Lockstep, and workers of its
data loader."""
import statistics
import time

import captures
from evidence import snapshot
from helpers import READY_S, BackgroundTrace, cupti_of, registers, traced, why
from session import Session


def torch(setup, table):
    if not setup.has("torch"):
        table.left_out("a PyTorch loop", "the simulated stack runs no PyTorch" if setup.simulate else "this Python has no PyTorch")
        return
    with Session(setup, "torch") as session:
        loop = setup.script("torch_loop.py", "--seconds", 150, "--log", session.folder / "loop.jsonl")
        workload = session.workload("loop", loop, session.under_run())
        if not registers(table, session, workload) or not workload.wait_for("step", 50, READY_S):
            table.check("the loop runs", False, workload.output(), "steps")
            return
        time.sleep(2)
        asked = time.time_ns()
        capture = traced(table, session, "capture 1", "--duration", "2s")
        if capture is None:
            torch_without_kineto(setup, table)
            return
        snapshot(session.folder, workload.pid, "loop-after-a-capture")
        table.fact("CUPTI that the client uses", cupti_of(session))
        time.sleep(2)
        second = traced(table, session, "capture 2", "--duration", "2s")
        for label, one in (("capture 1", capture), ("capture 2", second)):
            if one is not None:
                captures.check_complete(table, one, label)
                captures.check_steps(table, one, workload.events("step"), label)
        setup.kept.append(("pytorch", capture.folder))
        fact_step_times(table, workload, capture, asked)
        table.id = "A5"
        torch_graph(table, session, workload)
        table.id = "A13"
        torch_loader(table, session, workload)
        table.id = "A6"
        torch_profiler(table, session, workload)
        workload.send("quit")
        code = workload.wait(20)
        table.check("the loop ends normally", code == 0, f"exit {code}: {workload.output()}", "exit 0")


def torch_without_kineto(setup, table):
    """After a failed first capture, tests whether the activation of Kineto is the cause."""
    with Session(setup, "torch-mode-cupti") as session:
        loop = setup.script("torch_loop.py", "--seconds", 60, "--log", session.folder / "loop.jsonl")
        workload = session.workload("loop", loop, session.under_run("--mode", "cupti"))
        label = "--mode cupti: the client reaches the daemon"
        if registers(table, session, workload, label=label) and workload.wait_for("step", 50, READY_S):
            capture = traced(table, session, "mode cupti capture", "--duration", "2s")
            if capture is not None:
                captures.check_complete(table, capture, "mode cupti capture")


def fact_step_times(table, workload, capture, asked):
    steps = workload.events("step")

    def median(low, high):
        values = [s["ns"] for s in steps if low < s["start_ns"] and s["start_ns"] + s["ns"] < high]
        return f"{statistics.median(values) / 1e3:.0f} us ({len(values)})" if values else "none"

    table.fact("median step", f"before {median(asked - 2_000_000_000, asked)}, captured {median(capture.t0, capture.t1)}, "
               f"a second after {median(capture.t1 + 1_000_000_000, capture.t1 + 3_000_000_000)}")
    arming = [s["ns"] for s in steps if asked - s["ns"] < s["start_ns"] < capture.t0]
    draining = [s["ns"] for s in steps if capture.t1 <= s["start_ns"] < capture.t1 + 1_000_000_000]
    table.fact("longest step", f"while arming {max(arming, default=0) / 1e3:.0f} us, in the second after the window "
               f"{max(draining, default=0) / 1e3:.0f} us")


def torch_graph(table, session, workload):
    workload.send("graph")
    if not workload.wait_for("graph", 1, 30):
        failed = workload.events("failed") or [{"why": workload.output()}]
        table.check("CUDA graph: the loop makes one", False, failed[-1]["why"], "a graph")
        return
    time.sleep(0.5)
    for number in (1, 2):
        capture = traced(table, session, f"graph capture {number}", "--duration", "500ms")
        if capture is not None:
            table.check(f"graph capture {number}: nothing lost", capture.lost == 0, f"{capture.lost} lost; {capture.rows}", "0 lost")
            replays = [s for s in workload.events("step") if s["mode"] == "graph"]
            captures.check_graph(table, capture, replays, f"graph capture {number}")
    workload.send("eager")


def torch_loader(table, session, workload):
    """Tests workers of a DataLoader, which are forks of a process with the client."""
    workload.send("loader 200")
    trace = BackgroundTrace(session, "capture-with-loader", "--duration", "1s", timeout=45)
    done = workload.wait_for("loader", 1, 40)
    trace.join(50)
    failed = workload.events("failed")
    table.check("DataLoader's workers do their work while captured", bool(done) and trace.code == 0,
                f"{done['batches'] if done else 0} batches of 2 workers{': ' + failed[-1]['why'] if failed else ''}; capture: exit "
                f"{trace.code}: {why(trace.output)}", "200 batches, exit 0")


def torch_profiler(table, session, workload):
    """Tests PyTorch's own profiler after a capture of the process, and a capture after the profiler."""
    workload.send("profile 50")
    done = workload.wait_for("profile", 1, 60)
    failed = workload.events("failed")
    table.check("torch.profiler sees the GPU after our captures", bool(done) and done["gpu_events"] > 0,
                f"{done['gpu_events']} GPU events in {done['steps']} steps, {done['seconds']} s" if done else
                (failed[-1]["why"] if failed else "no answer within 60 s"), "more than 0")
    code, folder, output = session.trace("capture-after-profiler", "--formats", "kineto", "--duration", "500ms")
    table.fact("a capture after torch.profiler", f"exit {code}: {why(output)} {captures.Capture(folder).rows if code == 0 else ''}")
    # Runs both at once. The last one to register gets the records.
    trace = BackgroundTrace(session, "capture-beside-profiler", "--duration", "3s", timeout=45)
    time.sleep(1.5)
    workload.send("profile 50")
    done = workload.wait_for("profile", 2, 40)
    trace.join(50)
    table.fact("torch.profiler in the midst of a capture", f"profiler: {done['gpu_events'] if done else 'no answer'} GPU events; capture: "
               f"exit {trace.code}: {why(trace.output)}; the loop {'runs on' if workload.running() else 'has ended'}")
