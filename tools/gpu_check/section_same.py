"""Checks one program, tests/cuda/train_loop.cc compiled by nvcc. Its traces must obey the same rules on a GPU
and on the simulated stack."""
import collections
import time

import captures
from helpers import gpu_libraries, registers, traced, train_loop
from session import Session

# Number of kernels per step, from the program's source.
KERNELS = {"train_matmul": 8, "train_scale": 1}
SETS = 1
SPREAD_NS = 1000  # allowed overlap, because each time stamp is mapped to the host's clock separately


def same_program(setup, table):
    command = train_loop(setup, "--steps", 0)
    libraries = gpu_libraries(setup)
    if command is None or libraries is None:
        table.left_out("the program of tests/cuda", "the bundle was made without nvcc: it has no gpu-check/train_loop" if command is None
                       else "no libcudart.so.13 with libnccl.so.2 was found")
        return
    with Session(setup, "same") as session:
        workload = session.workload("train_loop", [*command, "--id-file", str(session.folder / "id")],
                                    session.under_run(*(("--preload",) if setup.simulate else ())),
                                    {**libraries, "NCCL_RAS_ENABLE": "0", "SIMGPU_KERNELS": "*matmul*=300us~1%,*scale*=50us"})
        if not registers(table, session, workload):
            return
        time.sleep(1)
        capture = traced(table, session, "capture", "--duration", "500ms")
        workload.stop()
        if capture is not None:
            setup.kept.append(("train-loop", capture.folder))
            check_rules(table, capture)


def check_rules(table, capture):
    captures.check_complete(table, capture, "train_loop")
    steps = sorted(r for r in capture.ranges if r.name.startswith(("ProfilerStep#", "step ")))
    whole = [s for s in steps if s.start > capture.t0 + captures.SLACK_NS and s.start + s.dur < capture.t1 - captures.SLACK_NS]
    launched = {c.correlation: c.start for c in capture.calls}
    wrong, shapes = [], collections.Counter()
    for step in whole:
        rows = [k for k in capture.kernels + capture.copies + capture.sets
                if step.start <= launched.get(k.correlation, 0) < step.start + step.dur]
        count = {name: sum(name in k.name for k in rows) for name in KERNELS}
        sets = sum(k.name.startswith("Memset") for k in rows)
        shapes[len(rows)] += 1
        if count != KERNELS or sets != SETS:
            wrong.append(f"{step.name}: {count}, {sets} sets")
    table.check("train_loop: each step has the kernels and sets of its source", bool(whole) and not wrong,
                f"{len(whole) - len(wrong)} of {len(whole)} steps" + (f"; {wrong[0]}" if wrong else ""), f"{KERNELS}, {SETS} set")
    table.check("train_loop: all steps have as many device rows", len(shapes) == 1, dict(shapes), "one number")
    early = [k for k in capture.kernels if k.start < launched.get(k.correlation, 0) - captures.SLACK_NS]
    table.check("train_loop: nothing runs before its call", not early, f"{len(early)} of {len(capture.kernels)} kernels",
                f"none by more than {captures.SLACK_NS} ns")
    table.check("train_loop: a stream runs in order", not overlaps(capture), f"{len(overlaps(capture))} overlaps; {overlaps(capture)[:2]}",
                f"none of {SPREAD_NS} ns and more")


def overlaps(capture):
    """Returns consecutive rows of one stream of which the second begins clearly before the end of the first."""
    streams, found = collections.defaultdict(list), []
    for row in capture.kernels + capture.copies + capture.sets:
        streams[row.stream].append(row)
    for rows in streams.values():
        rows.sort()
        found += [(a.name, b.name) for a, b in zip(rows, rows[1:]) if b.start < a.start + a.dur - SPREAD_NS]
    return found
