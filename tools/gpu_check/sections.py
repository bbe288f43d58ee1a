"""The sections of the check. Each has its own folder, daemon and programs, and needs nothing of the others."""
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import threading
import time

import captures
from evidence import Gathered, last_line, run_logged
from session import Session

READY_S = 60  # a first import of PyTorch reads gigabytes


def why(stderr):
    """The line that says what went wrong, of what `lockstep trace` said."""
    for line in stderr.splitlines():
        if re.search(r": (failed|gone): ", line):
            return line.strip()[:300]
    return last_line(stderr)


def traced(table, session, label, *args, timeout=60):
    """A capture with its row in the table; None when there is none to look at."""
    began = time.monotonic()
    code, folder, said = session.trace(label.replace(" ", "-"), "--formats", "kineto", *args, timeout=timeout)
    table.check(f"{label}: `lockstep trace {' '.join(args)}`", code == 0, f"exit {code} after {time.monotonic() - began:.1f} s: {why(said)}",
                "exit 0")
    if code != 0 or not (folder / "report.json").exists():
        return None
    return captures.Capture(folder)


def registers(table, session, workload, count=1, label="the client reaches the daemon"):
    ranks, reason = session.wait_for_ranks(workload, count, READY_S)
    return table.check(label, len(ranks) == count, reason or f"rank {[r['rank'] for r in ranks]} of {ranks[0]['world_size']}, "
                       f"program {ranks[0]['program']}", f"{count} in `lockstep status`")


def cuda_loop(setup, session, name, *args, seconds=120):
    """The plain CUDA program. Simulated, it finds another libcuda."""
    return setup.script("cuda_loop.py", "--seconds", seconds, "--log", session.folder / f"{name}.jsonl", *args)


def gpu_memory(setup, session, pid):
    if setup.simulate:
        return "simulated"
    _, out, _ = run_logged(session.folder, f"nvidia-smi-memory-{time.monotonic_ns()}",
                           ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"], timeout=15)
    return " ".join(line for line in out.splitlines() if line.startswith(str(pid))) or f"not listed by nvidia-smi: {last_line(out)}"


# ---- facts ----

def facts(setup, table):
    folder = setup.work / "facts"
    for name, command in (
            ("uname", ["uname", "-a"]), ("cpu", ["lscpu"]), ("memory", ["free", "-m"]), ("shm", ["df", "-h", "/dev/shm", "/tmp"]),
            ("limits", ["bash", "-c", "ulimit -a; ulimit -l; cat /proc/self/cgroup"]), ("os", ["cat", "/etc/os-release"]),
            ("libc", ["ldd", "--version"]), ("mounts", ["cat", "/proc/mounts"]), ("kernel-log", ["dmesg", "-T"]),
            ("driver", ["bash", "-c", "cat /proc/driver/nvidia/version /proc/driver/nvidia/params; ls -l /dev/nvidia*"]),
            ("libraries", ["bash", "-c", "ldconfig -p | grep -E 'cupti|cuda|nccl|nvrtc'"]),
            ("environment", ["bash", "-c", "env | grep -E '^(CUDA|NCCL|NVIDIA|NV_|LD_|LOCKSTEP|TORCH|KINETO|PYTHON|PATH|HOME|XDG)' | sort"])):
        run_logged(folder, name, command, timeout=10)
    table.fact("machine", f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    code, out, err = run_logged(folder, "version", [setup.bundle / "bin" / "lockstep", "--version"])
    table.check("the bundle runs", code == 0, out or err, "its version")
    code, out, err = run_logged(folder, "doctor", [setup.bundle / "bin" / "lockstep", "doctor"])
    table.check("lockstep doctor", code == 0, "; ".join(line for line in out.splitlines() if not line.startswith("ok")) or last_line(out, err),
                "nothing broken")
    if setup.simulate:
        return
    code, out, err = run_logged(folder, "gpu", ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap,memory.used,clocks.sm,"
                                                "persistence_mode", "--format=csv,noheader"])
    table.check("GPU", code == 0, last_line(out, err), "a GPU")
    run_logged(folder, "nvidia-smi", ["nvidia-smi", "-q"])
    find_cupti(setup, table, folder)
    torch_facts(setup, table, folder)


def find_cupti(setup, table, folder):
    """Where CUPTI lies on this machine; setup.cupti is used for programs that bring none and whose client finds none."""
    _, out, _ = run_logged(folder, "cupti-files", ["bash", "-c", "find -L /usr/local/cuda*/ /usr/lib/x86_64-linux-gnu /opt -name 'libcupti.so*' "
                                                   "-type f 2>/dev/null | head -n 40"], timeout=20)
    _, wheels, _ = run_logged(folder, "cupti-wheels", [setup.python, "-c", "import site, glob; [print(p) for d in site.getsitepackages() "
                                                       "for p in glob.glob(d + '/nvidia/**/libcupti.so*', recursive=True)]"])
    found = [line for line in (out + wheels).splitlines() if line.startswith("/")]
    setup.cupti = next((p for p in found if re.search(r"libcupti\.so\.1[23]$", p)), found[0] if found else None)
    table.fact("libcupti on this machine", f"{len(found)}: {', '.join(found[:4]) or 'none'}")


def torch_facts(setup, table, folder):
    for name, extra in (("cupti-in-torch", {}), ("cupti-in-torch-with-kineto-daemon", {"KINETO_USE_DAEMON": "1"})):
        code, out, err = run_logged(folder, name, setup.script("cupti_facts.py"), timeout=90, env={**os.environ, **extra})
        try:
            found = json.loads(out[out.index("{"):])
        except ValueError:
            table.check(name, False, f"exit {code}: {last_line(err, out)}", "a document of facts")
            continue
        if not extra:
            setup.cupti = setup.cupti or found["cupti_path"]
            table.check("PyTorch", "device" in found, f"{found.get('torch')}, NCCL {found.get('nccl')}, import {found.get('torch_import_s')} s, "
                        f"CUDA {found.get('cuda_init_s')} s, {found.get('device')}", "PyTorch with CUDA")
            table.fact("CUPTI", f"{found.get('cupti_version')} at {found.get('cupti_loaded')}")
            table.fact("record sizes", found.get("record_bytes"))
            table.fact("first enable of the kernel kind", f"{found.get('first_enable_kernel')}, disable {found.get('disable_kernel')}, again "
                       f"{found.get('second_enable_kernel')}, {found.get('second_disable_kernel')}")
            table.fact("buffer attributes", found.get("attributes"))
        table.fact(f"{name}: clock against CLOCK_REALTIME", f"before CUDA {found.get('clock_before_cuda')}, with {found.get('clock_with_cuda')}")
        table.fact(f"{name}: cuptiSubscribe", f"returns {found.get('subscribe')} (0: free, 39: taken)")


# ---- a CUDA program ----

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
        second = traced(table, session, "capture 2", "--duration", long)
        kept = [("capture 1", capture)] + ([("capture 2", second)] if second else [])
        for number in range(3, 3 + short):
            if number == 2 + short:
                time.sleep(4)  # a capture after a rest
            code, folder, said = session.trace(f"capture-{number}", "--formats", "kineto", "--duration", "400ms")
            if code != 0:
                table.check(f"capture {number} of 400 ms", False, f"exit {code}: {why(said)}", "exit 0")
                break
            kept.append((f"capture {number}", captures.Capture(folder)))
        time.sleep(2)
        memory.append(gpu_memory(setup, session, workload.pid))
        table.fact("GPU memory of the program before, after one and after all captures", memory)
        fact_launch_cost(table, workload, kept)
        code = workload.stop()
        table.check("the program ends as ever", code == 0, f"exit {code}: {workload.said()}", "exit 0")
        for label, one in kept[:2]:
            judge_plain(table, workload, one, label)
        gathered = Gathered()
        for label, one in kept[2:]:
            judge_plain(gathered, workload, one, label)
        gathered.tell(table, f"captures 3 to {len(kept)} are as good")


def retry_with_cupti(setup, table, session, workload):
    """Tells "finds no CUPTI" from whatever else may be wrong."""
    setup.env["LOCKSTEP_CUPTI_LIB"] = setup.cupti
    session.env["LOCKSTEP_CUPTI_LIB"] = setup.cupti
    workload.stop()
    table.fact("tried again with LOCKSTEP_CUPTI_LIB", setup.cupti)
    workload = session.workload("loop-again", cuda_loop(setup, session, "loop-again"), session.under_run())
    registers(table, session, workload, label="the client reaches the daemon again")
    time.sleep(1)
    return workload


def judge_plain(table, workload, capture, label):
    captures.check_whole(table, capture, label)
    captures.check_bursts(table, capture, workload.events("burst"), label)
    if label == "capture 1":
        captures.fact_delays(table, capture, label)


def fact_launch_cost(table, workload, kept):
    """What a launch costs the host, in and between captures of one process."""
    bursts = workload.events("burst")
    if not bursts:
        return
    def per_launch(chosen):
        values = [b["submit_ns"] / b["launches"] for b in chosen]
        return f"{statistics.median(values):.0f} ns ({len(values)} bursts)" if values else "none"
    windows = [(c.t0, c.t1) for _, c in kept]
    table.fact("one launch costs the host", f"before any capture {per_launch([b for b in bursts if b['end_ns'] < windows[0][0] - 500_000_000])}, "
               f"captured {per_launch([b for b in bursts if any(t0 < b['start_ns'] and b['end_ns'] < t1 for t0, t1 in windows)])}, "
               f"after the last {per_launch([b for b in bursts if b['start_ns'] > windows[-1][1] + 1_000_000_000])}")


def threads(setup, table):
    """Four threads with a stream each, then as many launches as four threads can make."""
    for name, args in (("four", ["--threads", "4"]),
                       ("flood", ["--threads", "4", "--launches", "3000", "--copies", "0", "--cycles", "0", "--pause-ms", "0"])):
        with Session(setup, f"threads-{name}") as session:
            workload = session.workload("loop", cuda_loop(setup, session, "loop", *args), session.under_run())
            if not registers(table, session, workload, label=f"{name}: the client reaches the daemon"):
                continue
            time.sleep(1)
            capture = traced(table, session, f"{name} capture", "--duration", "1s", timeout=90)
            workload.stop()
            if capture is None:
                continue
            bursts = [b for b in workload.events("burst") if b["start_ns"] > capture.t0 and b["end_ns"] < capture.t1]
            launched = sum(b["launches"] for b in bursts)
            table.fact(f"{name}: kernels of 1 s", f"{capture.rows.get('kernel')} stored, {capture.lost} records lost, {launched} launched in whole "
                       f"bursts; losses {capture.report['capture']['losses'][:3]}")
            if name == "four":
                captures.check_bursts(table, capture, workload.events("burst"), name)
            else:
                table.check("flood: what is missing is counted as lost", capture.lost > 0 or capture.rows.get("kernel", 0) >= launched,
                            f"{capture.rows.get('kernel')} kernels, {capture.lost} lost", f"all {launched}, or a loss")


# ---- a PyTorch loop ----

def torch(setup, table):
    if setup.simulate:
        table.check("PyTorch", None, "simulated ranks run no PyTorch", "")
        return
    with Session(setup, "torch") as session:
        loop = setup.script("torch_loop.py", "--seconds", 150, "--log", session.folder / "loop.jsonl")
        workload = session.workload("loop", loop, session.under_run())
        if not registers(table, session, workload) or not workload.wait_for("step", 50, READY_S):
            table.check("the loop runs", False, workload.said(), "steps")
            return
        time.sleep(2)
        asked = time.time_ns()
        capture = traced(table, session, "capture 1", "--duration", "2s")
        if capture is None:
            torch_without_kineto(setup, table)
            return
        time.sleep(2)
        second = traced(table, session, "capture 2", "--duration", "2s")
        for label, one in (("capture 1", capture), ("capture 2", second)):
            if one is not None:
                captures.check_whole(table, one, label)
                captures.check_steps(table, one, workload.events("step"), label)
        captures.fact_delays(table, capture, "capture 1")
        fact_step_times(table, workload, capture, asked)
        torch_graph(table, session, workload)
        torch_profiler(table, session, workload)
        workload.tell("quit")
        code = workload.wait(20)
        table.check("the loop ends as ever", code == 0, f"exit {code}: {workload.said()}", "exit 0")


def torch_without_kineto(setup, table):
    """Where the first capture failed: is it because Kineto was woken too?"""
    with Session(setup, "torch-mode-cupti") as session:
        loop = setup.script("torch_loop.py", "--seconds", 60, "--log", session.folder / "loop.jsonl")
        workload = session.workload("loop", loop, session.under_run("--mode", "cupti"))
        if registers(table, session, workload, label="--mode cupti: the client reaches the daemon") and workload.wait_for("step", 50, READY_S):
            capture = traced(table, session, "mode cupti capture", "--duration", "2s")
            if capture is not None:
                captures.check_whole(table, capture, "mode cupti capture")


def fact_step_times(table, workload, capture, asked):
    steps = workload.events("step")

    def median(low, high):
        values = [s["ns"] for s in steps if low < s["start_ns"] and s["start_ns"] + s["ns"] < high]
        return f"{statistics.median(values) / 1e3:.0f} us ({len(values)})" if values else "none"

    table.fact("median step", f"before {median(asked - 2_000_000_000, asked)}, captured {median(capture.t0, capture.t1)}, "
               f"a second after {median(capture.t1 + 1_000_000_000, capture.t1 + 3_000_000_000)}")
    arming = [s["ns"] for s in steps if asked - s["ns"] < s["start_ns"] < capture.t0]
    draining = [s["ns"] for s in steps if capture.t1 <= s["start_ns"] < capture.t1 + 1_000_000_000]
    table.fact("longest step", f"while arming {max(arming, default=0) / 1e3:.0f} us, in the second behind the window "
               f"{max(draining, default=0) / 1e3:.0f} us")


def torch_graph(table, session, workload):
    workload.tell("graph")
    if not workload.wait_for("graph", 1, 30):
        table.check("CUDA graph: the loop makes one", False, (workload.events("failed") or [{"why": workload.said()}])[-1]["why"], "a graph")
        return
    time.sleep(0.5)
    for number in (1, 2):
        capture = traced(table, session, f"graph capture {number}", "--duration", "500ms")
        if capture is not None:
            table.check(f"graph capture {number}: nothing lost", capture.lost == 0, f"{capture.lost} lost; {capture.rows}", "0 lost")
            captures.check_graph(table, capture, [s for s in workload.events("step") if s["mode"] == "graph"], f"graph capture {number}")
    workload.tell("eager")


def torch_profiler(table, session, workload):
    """Whether PyTorch's own profiler still works in a process we have captured, and what happens to us after it."""
    workload.tell("profile 50")
    done = workload.wait_for("profile", 1, 60)
    failed = workload.events("failed")
    table.check("torch.profiler sees the GPU after our captures", bool(done) and done["gpu_events"] > 0,
                f"{done['gpu_events']} GPU events in {done['steps']} steps, {done['seconds']} s" if done else
                (failed[-1]["why"] if failed else "no answer within 60 s"), "more than 0")
    code, folder, said = session.trace("capture-after-profiler", "--formats", "kineto", "--duration", "500ms")
    lost = captures.Capture(folder).rows if code == 0 else ""
    table.fact("a capture after torch.profiler", f"exit {code}: {why(said)} {lost}")


# ---- what it costs ----

def cost(setup, table):
    if setup.simulate:
        table.check("step time with the idle client", None, "simulated ranks have virtual step times", "within noise")
        return
    kinds = [("bare", None), ("client", ()), ("client, --mode cupti", ("--mode", "cupti"))]
    with Session(setup, "cost") as session:
        launch_cost(setup, table, session, kinds[:2])
        medians = {name: [] for name, _ in kinds}
        began = time.monotonic()
        for turn in range(3):
            # Another turn only where there is time for one like the first.
            if turn and setup.left() < 1.3 * (time.monotonic() - began) / turn:
                break
            for name, args in kinds:
                label = f"torch-{turn}-{name.replace(', --', '-').replace(' ', '-')}"
                command = setup.script("torch_loop.py", "--seconds", 5, "--log", session.folder / f"{label}.jsonl")
                workload = session.workload(label, command, () if args is None else session.under_run(*args))
                code = workload.wait(60)
                steps = [s["ns"] for s in workload.events("step")][50:]
                if code != 0 or len(steps) < 200:
                    table.check(f"{label} runs", False, f"exit {code}, {len(steps)} steps: {workload.said()}", "200 steps and more")
                    return
                medians[name].append(statistics.median(steps))
        compare(table, "PyTorch step", medians, 1e3, "us", least=0.01)


def launch_cost(setup, table, session, kinds):
    medians = {name: [] for name, _ in kinds}
    for turn in range(3):
        for name, args in kinds:
            label = f"launch-{turn}-{name}"
            workload = session.workload(label, cuda_loop(setup, session, label, "--copies", "0", seconds=3),
                                        () if args is None else session.under_run(*args))
            workload.wait(40)
            bursts = [b["submit_ns"] / b["launches"] for b in workload.events("burst")][5:]
            if not bursts:
                table.check(f"{label} runs", False, workload.said(), "bursts")
                return
            medians[name].append(statistics.median(bursts))
    compare(table, "one launch", medians, 1, "ns", least=0.03)


def compare(table, what, medians, unit, word, least):
    """Medians of runs in turns. What runs of one kind differ by, with or without the client, is noise; less than `least` is too."""
    bare = medians["bare"]
    for name, values in medians.items():
        noise = max((max(runs) - min(runs)) / statistics.median(runs) for runs in (bare, values))
        if name != "bare":
            ratio = statistics.median(values) / statistics.median(bare)
            table.check(f"{what} with the idle {name}", ratio - 1 <= max(noise, least),
                        f"{ratio:.4f} of bare; {', '.join(f'{v / unit:.1f}' for v in values)} {word}, bare "
                        f"{', '.join(f'{v / unit:.1f}' for v in bare)} {word}",
                        f"within the runs' own spread ({noise:.4f}) or {least:.0%}")


# ---- when something dies ----

class BackgroundTrace(threading.Thread):
    def __init__(self, session, capture, duration):
        super().__init__(daemon=True)
        self.session, self.capture, self.duration = session, capture, duration
        self.began = time.monotonic()
        self.code, self.folder, self.said, self.seconds = None, session.folder / capture, "", 0.0
        self.start()

    def run(self):
        self.code, self.folder, self.said = self.session.trace(self.capture, "--duration", self.duration, "--formats", "none", timeout=45)
        self.seconds = time.monotonic() - self.began


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
            table.check("the program is killed while captured: the capture ends and is kept", trace.code in (0, 7) and trace.seconds < 25 and kept,
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


def entries(setup, table):
    """The other ways in: preloaded alone, and a daemon that `lockstep run` starts."""
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
        if registers(table, session, workload, label="a daemon started by `lockstep run`: the client reaches it"):
            code, _, said = session.trace("capture", "--duration", "500ms", "--formats", "none")
            table.check("and the rank is captured", code == 0, f"exit {code}: {why(said)}", "exit 0")
        workload.stop()
        began = time.monotonic()
        while session.stray_daemons() and time.monotonic() - began < 20:
            time.sleep(0.2)
        table.check("that daemon ends by itself", not session.stray_daemons(), f"{time.monotonic() - began:.1f} s after the last rank",
                    "10 s or so")


# ---- two ranks ----

def pair(setup, table):
    """Two ranks, one late: NCCL's plugin, matching and the verdict. On one GPU NCCL may refuse, so this is told as facts."""
    seconds = 40
    with Session(setup, "pair") as session:
        if setup.simulate:
            names = ["ranks"]
            session.workload("ranks", ["mpiexec", "--oversubscribe", "-n", "2", *session.under_run(), str(setup.simulate / "lockstep-sim-rank"),
                                       "--duration", f"{seconds}s", "--truth", str(session.folder / "truth"), "--fault", "slow_gpu", "--fault-rank", "1", "--fault-size", "0.3"],
                             env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        else:
            names = ["rank0", "rank1"]
            for rank, name in enumerate(names):
                session.workload(name, setup.script("nccl_pair.py", "--seconds", seconds, "--log", session.folder / f"{name}.jsonl"),
                                 session.under_run(), {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                                       "MASTER_PORT": "29511", "LOCAL_WORLD_SIZE": "2", "LOCKSTEP_JOB": "gpu-check-pair"})
        first = session.workloads[0]
        ranks, reason = session.wait_for_ranks(first, 2, 45)
        table.fact("ranks", reason or f"{[(r['rank'], r['rank_source']) for r in ranks]}")
        if len(ranks) < 2 or (not setup.simulate and not first.wait_for("step", 20, 45)):
            table.check("two NCCL ranks share the GPU", None, f"{first.said()}; {[w.events('ready') for w in session.workloads]}", "")
            return
        if setup.simulate:
            time.sleep(1)
        code, folder, said = session.trace("capture", "--duration", "2s")
        table.check("both are captured", code == 0, f"exit {code}: {why(said)}", "exit 0")
        if setup.simulate and code == 0:
            first.stop()
            for rank in (0, 1):
                truth = json.loads((session.folder / "truth" / f"truth-{rank}.json").read_text())
                captures.check_truth(table, captures.Capture(folder, rank), truth, f"rank {rank}")
        if code == 0:
            report = json.loads((folder / "report.json").read_text())
            table.fact("matching", report["capture"]["matching"])
            table.fact("losses", report["capture"]["losses"])
            table.fact("report", (folder / "report.txt").read_text().splitlines()[0])
            named = report["stragglers"][0] if report["stragglers"] else {"ranks": []}
            table.check("the late rank is named", named["ranks"] == [1], {k: named.get(k) for k in ("ranks", "cause", "verdict")}, "rank 1")


# name, function, seconds without which it is not begun
SECTIONS = [("facts", facts, 10), ("cuda", cuda, 25), ("torch", torch, 40), ("cost", cost, 60), ("robustness", robustness, 40),
            ("entries", entries, 25), ("threads", threads, 20), ("pair", pair, 40)]
