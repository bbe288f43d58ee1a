"""Checks several NCCL ranks on one GPU. Their collectives must match by NCCL's numbers, and the rank that is
late on purpose must be named. Also checks NCCL's profiler plugin: its version, its links to kernels, and
switching it on and off."""
import re
import socket
import statistics
import time

import captures
from evidence import broken
from helpers import gpu_libraries, train_loop, why
from session import Session

LATE_RANK, LATE_MS = 1, 20
RUN_S = 45
STARTS_WITHIN_S = 45
SETTLED_NS = 300_000_000  # distance to a window, because its capture is armed before it and drained after it
DEFAULT_KINDS = "kernel,memcpy,memset,runtime,driver,sync,nvtx,nccl"


def start(setup, session, count, work, late_ms=LATE_MS, run_args=(), env=None):
    """Starts the job's ranks as processes of this check, without a launcher."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for rank in range(count):
        if setup.simulate:
            slow = {"SIMGPU_SLOW_RANK": f"{LATE_RANK}:1.5"} if late_ms else {}
            command = train_loop(setup, "--id-file", session.folder / "id", "--steps", 0)
            more = {**gpu_libraries(setup), "SIMGPU_KERNELS": "*matmul*=1500us~1%,*scale*=100us", **slow}
        else:
            command = setup.script("nccl_ranks.py", "--seconds", RUN_S, "--work", work, "--late-ms", late_ms, "--late-rank", LATE_RANK,
                                   "--log", session.folder / f"rank{rank}.jsonl")
            more = {}
        preload = ("--preload",) if setup.simulate else ()
        session.workload(f"rank{rank}", command, session.under_run(*preload, *run_args), {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCKSTEP_JOB": f"gpu-check-{session.name}", **more, **(env or {})})


def under_way(setup, table, session, count):
    """Returns whether the job can be captured. If not, a row has its last output."""
    first = session.workloads[0]
    found, reason = session.wait_for_ranks(first, count, STARTS_WITHIN_S)
    steps = setup.simulate or first.wait_for("step", 10, STARTS_WITHIN_S)
    if setup.simulate:
        time.sleep(0.7)
    return table.check(f"{count} NCCL ranks share the GPU and make steps", len(found) == count and bool(steps),
                       reason or f"{[(r['rank'], r['rank_source']) for r in found]}; " +
                       "; ".join(w.output() for w in session.workloads if not w.running() or not steps) +
                       f" {[w.events('ready') for w in session.workloads if w.events('ready')]}", "all")


def ranks(setup, table):
    """Tests two ranks with all-reduces only, and three with a model under DDP. With two equal ranks, no
    method can decide which one is unusual."""
    if not setup.simulate and not setup.has("torch"):
        table.left_out("several NCCL ranks", "this Python has no PyTorch")
        return
    for count, work in ((2, "all-reduce"), (3, "ddp")):
        with Session(setup, f"ranks-{count}") as session:
            start(setup, session, count, work)
            if not under_way(setup, table, session, count):
                continue
            latencies = session.workloads[0].events("latency")
            if latencies:
                table.fact(f"{count} ranks: all-reduce by bytes", {size: f"{ns / 1e3:.0f} us" for size, ns in latencies[0]["ns"].items()})
            judge_ranks(setup, table, session, count, work)


def judge_ranks(setup, table, session, count, work):
    label = f"{count} ranks, {work}"
    code, folder, output = session.trace("capture", "--duration", "1s" if setup.simulate else "2s")
    if not table.check(f"{label}: all are captured", code == 0, f"exit {code}: {why(output)}", "exit 0"):
        return
    try:
        each = [captures.Capture(folder, rank) for rank in range(count)]
    except Exception:
        table.check(f"{label}: can be read back", False, broken(session.folder, "unreadable"), "report, records, traces")
        return
    setup.kept.append((f"ranks-{count}", folder))
    report = each[0].report
    table.fact(f"{label}: records", [capture.rows for capture in each])
    table.check(f"{label}: nothing lost", not report["capture"]["losses"], report["capture"]["losses"][:3], "0 lost")
    check_matching(table, each, report, label)
    named = report["stragglers"][0] if report["stragglers"] else {"ranks": []}
    # With two equal peers the report lists both as undecided, the slower one first.
    undecided = count == 2 and named["ranks"] == [LATE_RANK, 0] and named["verdict"] == "undecided"
    table.check(f"{label}: the late rank is named", named["ranks"] == [LATE_RANK] or undecided,
                f"{ {k: named.get(k) for k in ('ranks', 'cause', 'verdict')} }: {(folder / 'report.txt').read_text().splitlines()[0]}",
                f"rank {LATE_RANK}" + (", or undecided between both, it first" if count == 2 else ""))


def check_matching(table, each, report, label):
    """Compares (communicator, operation, number) of the collectives in each rank's trace. All ranks must have
    the same ones, except those that the window cuts."""
    keys = [{c.key for c in capture.collectives} for capture in each]
    common, every = set.intersection(*keys), set.union(*keys)
    table.check(f"{label}: collectives match by communicator, operation and NCCL's number", len(common) > 0.9 * len(every) > 0,
                f"{len(common)} of {len(every)} are on all ranks; report: {report['capture']['matching']}", "nine in ten and more")
    if not common:
        return
    lengths = [{c.key: c.kernel.dur for c in capture.collectives} for capture in each]
    longest = max(common, key=lambda key: lengths[0][key] - lengths[LATE_RANK][key])
    same = [key for key in common if key[:2] == longest[:2]]
    table.fact(f"{label}: median length of its collectives by rank",
               [f"{statistics.median(of_rank[key] for key in same) / 1e6:.2f} ms" for of_rank in lengths])


def nccl(setup, table):
    if not setup.simulate and not setup.has("torch"):
        table.left_out("NCCL's plugin", "this Python has no PyTorch")
        return
    with Session(setup, "nccl") as session:
        start(setup, session, 2, "all-reduce", late_ms=0)
        if under_way(setup, table, session, 2):
            fact_version(table, session)
            found = {}
            for name, kinds in (("first", DEFAULT_KINDS), ("with channels", DEFAULT_KINDS + ",nccl-channels"), ("again", DEFAULT_KINDS)):
                code, folder, output = session.trace(f"capture-{name.replace(' ', '-')}", "--activities", kinds, "--formats", "none",
                                                   "--duration", "700ms" if setup.simulate else "1500ms")
                if table.check(f"capture {name}", code == 0, f"exit {code}: {why(output)}", "exit 0"):
                    found[name] = captures.totals(folder)[0], captures.window(folder)
                time.sleep(0.5)
            judge_plugin(table, found)
            fact_step_times(table, session.workloads[0].events("step"), found)
    with Session(setup, "nccl-static") as session:
        start(setup, session, 2, "all-reduce", late_ms=0, run_args=() if setup.simulate else ("--preload",),
              env={"NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN"})
        if under_way(setup, table, session, 2):
            code, folder, output = session.trace("capture", "--duration", "700ms", "--formats", "none")
            rows = captures.totals(folder)[0] if code == 0 else {}
            table.check("STATIC_PLUGIN under LD_PRELOAD: NCCL reports collectives",
                        joined(rows.get("collective", 0), rows.get("external_correlation", 0)), f"exit {code}: {why(output)} {dict(rows)}",
                        "collectives, and their launches")


def joined(collectives, joins):
    """Each of the two ranks may call one collective inside the window and launch it after the window's end."""
    return 0 < collectives <= joins + 2


def fact_version(table, session):
    """Reports the lines of NCCL_DEBUG=INFO about the profiler plugin."""
    text = (session.folder / "rank0.out").read_text(errors="replace")
    lines = [line.split("NCCL INFO")[-1].strip() for line in text.splitlines() if re.search(r"NCCL INFO.*(PROFILER|Profiler)", line)]
    table.fact("NCCL's messages about its profiler plugin", "; ".join(lines[:4]) or "nothing")


def judge_plugin(table, found):
    for name, (rows, _) in found.items():
        collectives, joins = rows["collective"], rows["external_correlation"]
        table.check(f"capture {name}: collectives are joined to their launches", joined(collectives, joins),
                    f"{collectives} collectives, {joins} external correlations", "as many")
    channels = {name: rows["kernel_channel"] for name, (rows, _) in found.items()}
    only_then = channels.get("with channels", 0) > 0 and not any(n for name, n in channels.items() if name != "with channels")
    table.check("channel times come when they are asked for, and only then", only_then, channels, "in one capture of three")


def fact_step_times(table, steps, found):
    """Reports step times with the event mask at 0, on, and on with channels."""
    def median(inside):
        values = [s["ns"] for s in steps if inside(s)]
        return f"{statistics.median(values) / 1e3:.0f} us ({len(values)})" if values else "none"

    windows = {name: window for name, (_, window) in found.items()}
    if steps and windows:
        def lies(step, low, high):
            return low < step["start_ns"] and step["start_ns"] + step["ns"] < high

        times = {name: median(lambda s, w=window: lies(s, *w)) for name, window in windows.items()}
        outside = median(lambda s: all(lies(s, 0, t0 - SETTLED_NS) or lies(s, t1 + SETTLED_NS, float("inf")) for t0, t1 in windows.values()))
        table.fact("median step", f"captured {times}, between captures {outside}")
