"""Compares a CUDA program's own count of launches with ten captures, with one thread and with four. Also
checks the other ways to load the client."""
import statistics
import time

import captures
from evidence import CombinedChecks, snapshot
from helpers import cuda_loop, cupti_of, gpu_memory, registers, traced, why
from session import Session

# As many launches as possible.
FLOOD = ["--threads", "4", "--launches", "3000", "--copies", "0", "--cycles", "0", "--pause-ms", "0"]


def cuda(setup, table):
    long, short = ("1s", 2) if setup.simulate else ("2s", 7)
    with Session(setup, "cuda") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if not registers(table, session, workload):
            return
        time.sleep(1)
        memory = [gpu_memory(setup, session, workload.pid)]
        capture = traced(table, session, "capture 1", "--duration", long)
        if capture is None and setup.cupti and "LOCKSTEP_CUPTI_LIB" not in setup.env:
            workload = retry_with_cupti(setup, table, session, workload)
            capture = traced(table, session, "capture 1 again", "--duration", long)
        if capture is None:
            return
        memory.append(gpu_memory(setup, session, workload.pid))
        snapshot(session.folder, workload.pid, "loop-after-a-capture")
        table.fact("CUPTI that the client uses", cupti_of(session))
        second = traced(table, session, "capture 2", "--duration", long)
        kept = [("capture 1", capture)] + ([("capture 2", second)] if second else [])
        table.id = "A4"
        for number in range(3, 3 + short):
            if number == 2 + short:
                time.sleep(4)  # a capture after a pause
            code, folder, output = session.trace(f"capture-{number}", "--formats", "kineto", "--duration", "400ms")
            if code != 0:
                table.check(f"capture {number} of 400 ms", False, f"exit {code}: {why(output)}", "exit 0")
                break
            kept.append((f"capture {number}", captures.Capture(folder)))
            setup.kept = [("kernels-and-copies", folder)]
        time.sleep(2)
        memory.append(gpu_memory(setup, session, workload.pid))
        table.fact("GPU memory of the program before, after one and after all captures", memory)
        fact_launch_cost(table, workload, kept)
        code = workload.stop()
        table.check("the program ends normally", code == 0, f"exit {code}: {workload.output()}", "exit 0")
        for table.id, (label, one) in zip(("A3", "A4"), kept):
            judge_plain(table, workload, one, label)
        checks = CombinedChecks()
        for label, one in kept[2:]:
            judge_plain(checks, workload, one, label)
        checks.add_row(table, f"captures 3 to {len(kept)} are as good")


def retry_with_cupti(setup, table, session, workload):
    """Repeats the capture with an explicit libcupti, to separate a missing CUPTI from other errors."""
    setup.env["LOCKSTEP_CUPTI_LIB"] = setup.cupti
    session.env["LOCKSTEP_CUPTI_LIB"] = setup.cupti
    workload.stop()
    table.fact("tried again with LOCKSTEP_CUPTI_LIB", setup.cupti)
    workload = session.workload("loop-again", cuda_loop(setup, session, "loop-again"), session.under_run())
    registers(table, session, workload, label="the client reaches the daemon again")
    time.sleep(1)
    return workload


def judge_plain(table, workload, capture, label):
    captures.check_complete(table, capture, label)
    captures.check_bursts(table, capture, workload.events("burst"), label)
    if label == "capture 1":
        captures.check_device(table, capture, label)


def fact_launch_cost(table, workload, kept):
    """Reports the host's time per launch before, during and after captures of one process."""
    bursts = workload.events("burst")
    if not bursts:
        return
    def per_launch(chosen):
        values = [b["submit_ns"] / b["launches"] for b in chosen]
        return f"{statistics.median(values):.0f} ns ({len(values)} bursts)" if values else "none"

    windows = [(c.t0, c.t1) for _, c in kept]
    before = [b for b in bursts if b["end_ns"] < windows[0][0] - 500_000_000]
    captured = [b for b in bursts if any(t0 < b["start_ns"] and b["end_ns"] < t1 for t0, t1 in windows)]
    after = [b for b in bursts if b["start_ns"] > windows[-1][1] + 1_000_000_000]
    table.fact("one launch costs the host", f"before any capture {per_launch(before)}, captured {per_launch(captured)}, after the last "
               f"{per_launch(after)}")


def threads(setup, table):
    """Tests eight threads with a stream each, then as many launches as possible from four threads."""
    for name, args in (("eight", ["--threads", "8"]), ("flood", FLOOD)):
        with Session(setup, f"threads-{name}") as session:
            workload = session.workload("loop", cuda_loop(setup, session, "loop", *args), session.under_run())
            if not registers(table, session, workload, label=f"{name}: the client reaches the daemon"):
                continue
            time.sleep(1)
            if name == "flood":
                check_flood(table, session, workload)
                continue
            capture = traced(table, session, f"{name} capture", "--duration", "500ms")
            workload.stop()
            if capture is not None:
                captures.check_complete(table, capture, name)
                captures.check_bursts(table, capture, workload.events("burst"), name)


def check_flood(table, session, workload):
    code, folder, output = session.trace("flood", "--formats", "none", "--duration", "1s")
    workload.stop()
    if not table.check("flood capture", code == 0, f"exit {code}: {why(output)}", "exit 0"):
        return
    (rows, losses), (t0, t1) = captures.totals(folder), captures.window(folder)
    launched = sum(b["launches"] for b in workload.events("burst") if b["start_ns"] > t0 and b["end_ns"] < t1)
    lost = sum(loss["records"] for loss in losses)
    table.check("flood: missing records are counted as lost", rows["kernel"] > 0 and rows["kernel"] + lost >= launched,
                f"{rows['kernel']} kernels of 1 s, {lost} records lost, {launched} launched in whole bursts; {losses[:2]}",
                "all that were launched, or a loss")


def entries(setup, table):
    """Tests the other ways to load the client: LD_PRELOAD alone, and a daemon that `lockstep run` starts."""
    library = setup.bundle / "lib" / "liblockstep_client.so"
    with Session(setup, "preloaded") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), env={"LD_PRELOAD": str(library)})
        if registers(table, session, workload, label="LD_PRELOAD alone: the client reaches the daemon"):
            time.sleep(0.5)
            capture = traced(table, session, "preloaded capture", "--duration", "500ms")
            workload.stop()
            if capture is not None:
                judge_plain(table, workload, capture, "preloaded capture")
    with Session(setup, "on-demand", daemon=False) as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if not registers(table, session, workload, label="a daemon started by `lockstep run`: the client reaches it"):
            return
        code, _, output = session.trace("capture", "--duration", "500ms", "--formats", "none")
        table.check("and the rank is captured", code == 0, f"exit {code}: {why(output)}", "exit 0")
        workload.stop()
        if setup.simulate:
            return  # its end takes 10 s; tests/e2e/loopback_test.py covers it
        began = time.monotonic()
        while session.stray_daemons() and time.monotonic() - began < 20:
            time.sleep(0.2)
        table.check("that daemon ends by itself", not session.stray_daemons(), f"{time.monotonic() - began:.1f} s after the last rank",
                    "10 s or so")
