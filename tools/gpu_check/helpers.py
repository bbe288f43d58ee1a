"""Shared functions of the sections: a capture with its row in the table, a rank that registers, a capture in
the background."""
import re
import threading
import time

import captures
from evidence import broken, last_line, run_logged

READY_S = 60  # the first import of PyTorch reads gigabytes


def why(stderr):
    """Returns the line of `lockstep trace`'s output that states the error."""
    for line in stderr.splitlines():
        if re.search(r": (failed|gone): ", line):
            return line.strip()[:300]
    return last_line(stderr)


def traced(table, session, label, *args, timeout=60):
    """Makes a capture with its row in the table. Returns None if it failed."""
    began = time.monotonic()
    name = re.sub(r"[^\w.]+", "-", label)
    code, folder, output = session.trace(name, "--formats", "kineto", *args, timeout=timeout)
    answered_ns = time.time_ns()
    table.check(f"{label}: `lockstep trace {' '.join(args)}`", code == 0,
                f"exit {code} after {time.monotonic() - began:.1f} s: {why(output)}", "exit 0")
    if code != 0:
        return None
    try:
        capture = captures.Capture(folder)
        capture.answered_ns = answered_ns
        return capture
    except Exception:
        reason = broken(session.folder, f"{name}-unreadable")
        table.check(f"{label} can be read back", False, reason, "report, records, trace")
        return None


def registers(table, session, workload, count=1, label="the client reaches the daemon"):
    ranks, reason = session.wait_for_ranks(workload, count, READY_S)
    return table.check(label, len(ranks) == count, reason or f"rank {[r['rank'] for r in ranks]} of {ranks[0]['world_size']}, "
                       f"program {ranks[0]['program']}", f"{count} in `lockstep status`")


def cuda_loop(setup, session, name, *args, seconds=120):
    """Returns the command of the plain CUDA program. In a simulation it loads another libcuda."""
    return setup.script("cuda_loop.py", "--seconds", seconds, "--log", session.folder / f"{name}.jsonl", *args)


def train_loop(setup, *args):
    """Returns the command of the program of tests/cuda, or None if it does not exist."""
    names = [setup.simulate / "lockstep_train_loop_nvcc", setup.simulate / "lockstep_train_loop"] if setup.simulate else \
        [setup.bundle / "gpu-check" / "train_loop"]
    found = next((name for name in names if name.exists()), None)
    return found and [str(found), *map(str, args)]


def gpu_libraries(setup):
    """Returns the environment for libcudart and libnccl: the simulated ones, the system's, or those of
    Python's wheels. Returns None if there are none."""
    if setup.simulate:
        return {"LD_LIBRARY_PATH": str(setup.simulate.parent / "lib" / "sim_stack")}
    script = ("import glob, os, site, sys; roots = [d + '/nvidia' for d in site.getsitepackages() + [site.getusersitepackages()]] + "
              "['/usr/local/cuda/lib64', '/usr/lib/x86_64-linux-gnu']\n"
              "for name in ('libcudart.so.13', 'libnccl.so.2'):\n"
              "  found = [p for r in roots for p in glob.glob(r + '/**/' + name, recursive=True)]\n"
              "  print(os.path.dirname(found[0]) if found else '')")
    _, out, _ = run_logged(setup.work / "facts", "cudart-and-nccl", [setup.python, "-c", script])
    folders = out.split()
    return {"LD_LIBRARY_PATH": ":".join(folders)} if len(folders) == 2 else None


def cupti_of(session):
    ranks, _ = session.status()
    return [rank.get("cupti_version") for rank in ranks]


def gpu_memory(setup, session, pid):
    if setup.simulate:
        return "simulated"
    _, out, _ = run_logged(session.folder, f"nvidia-smi-memory-{time.monotonic_ns()}",
                           ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader"], timeout=15)
    return " ".join(line for line in out.splitlines() if line.startswith(str(pid))) or f"not listed by nvidia-smi: {last_line(out)}"


class BackgroundTrace(threading.Thread):
    def __init__(self, session, capture, *args, timeout=60):
        super().__init__(daemon=True)
        self.session, self.capture, self.args, self.timeout = session, capture, args, timeout
        self.began = time.monotonic()
        self.code, self.folder, self.output, self.seconds = None, session.folder / capture, "", 0.0
        self.start()

    def run(self):
        self.code, self.folder, self.output = self.session.trace(self.capture, "--formats", "none", *self.args, timeout=self.timeout)
        self.seconds = time.monotonic() - self.began
