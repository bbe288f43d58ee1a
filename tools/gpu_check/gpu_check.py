"""What a machine with a GPU has to show, run from the bundle. Needs python3 and nothing of ours but the bundle.

Writes OUT/results.md (the table), OUT/results.json, and OUT/gpu_check.tar.gz with every capture, log and report.
Exit 1 when a check failed. With --simulate DIR the workloads are simulated ranks, so the check itself is tested where no
GPU is; the table then says so in its first line.
"""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Checks:
    def __init__(self):
        self.rows = []

    def add(self, name, ok, measured, expected):
        """ok None: could not be checked here, `measured` says why."""
        verdict = {True: "pass", False: "FAIL", None: "not run"}[ok]
        self.rows.append({"check": name, "verdict": verdict, "measured": measured, "expected": expected})
        print(f"{verdict:8} {name}: {measured}  (expected: {expected})", flush=True)

    def failed(self):
        return any(r["verdict"] == "FAIL" for r in self.rows)


class Session:
    """One workload at a time, with Lockstep's socket in a private folder."""

    def __init__(self, bundle, out, simulate):
        self.bundle, self.out, self.simulate = bundle, out, simulate
        self.sockets = tempfile.TemporaryDirectory(prefix="lk-")
        self.env = dict(os.environ, LOCKSTEP_SOCKET=f"{self.sockets.name}/client.sock",
                        XDG_STATE_HOME=str(out / "state"))
        self.lockstep = str(bundle / "bin" / "lockstep")

    def command(self, kind, log, seconds):
        """The workload's command line. Simulated: one rank without neighbours."""
        if self.simulate:
            return [str(self.simulate / "lockstep-sim-rank"), "--duration", f"{seconds}s"]
        script = {"cuda": "cuda_loop.py", "torch": "torch_loop.py"}[kind]
        return [sys.executable, str(HERE / script), "--seconds", str(seconds), "--log", str(log)]

    def start(self, kind, log, seconds, wrapped=True):
        command = self.command(kind, log, seconds)
        if wrapped:
            command = [self.lockstep, "run", "--", *command]
        output = open(f"{log}.out", "w")
        return subprocess.Popen(command, env=self.env, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                start_new_session=True)

    def cli(self, *args, timeout=120):
        return subprocess.run([self.lockstep, *map(str, args)], env=self.env, text=True, capture_output=True, timeout=timeout)

    def wait_for_rank(self, process, timeout=90):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and process.poll() is None:
            done = self.cli("status", "--format", "json")
            if done.returncode == 0:
                ranks = [r for d in json.loads(done.stdout).get("daemons", []) for r in d.get("ranks", [])]
                if ranks:
                    return ranks[0]
            time.sleep(0.25)
        return None


def stop(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


def rows_of(capture):
    """Events of the one per-rank trace in a capture folder."""
    files = list((capture / "traces").glob("*.json.gz"))
    if not files:
        return None, []
    document = json.load(gzip.open(files[0], "rt"))
    return document, document["traceEvents"]


def ns(value):
    return int(round(value * 1000))


def check_capture(checks, session, kind):
    log = session.out / f"{kind}.jsonl"
    process = session.start(kind, log, seconds=30)
    try:
        rank = session.wait_for_rank(process)
        checks.add(f"{kind}: the client reaches the daemon", rank is not None,
                   f"rank seen, cupti {rank.get('cupti_version')}" if rank else "no rank within 90 s", "one rank in status")
        if rank is None:
            return
        time.sleep(2)
        for number in (1, 2):
            capture = session.out / f"capture_{kind}_{number}"
            done = session.cli("trace", "--duration", "2s", "-o", capture)
            checks.add(f"{kind}: capture {number} mid-run", done.returncode == 0,
                       f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ''}", "exit 0")
            if done.returncode == 0:
                check_counts(checks, session, kind, number, capture, log)
    finally:
        stop(process)


def check_counts(checks, session, kind, number, capture, log):
    document, events = rows_of(capture)
    if document is None:
        checks.add(f"{kind}: capture {number} has a trace", False, "no file in traces/", "one per rank")
        return
    base = int(document.get("baseTimeNanoseconds", 0))
    kernels = [e for e in events if e.get("cat") == "kernel"]
    launches = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver") and "Launch" in e.get("name", "")]
    report = json.loads((capture / "report.json").read_text())
    lost = sum(loss["records"] for loss in report["capture"]["losses"])
    checks.add(f"{kind}: capture {number} loses nothing", lost == 0, f"{lost} lost, {len(kernels)} kernels", "0 lost")

    # A launch near an edge may have its kernel outside the window; those further in must all have exactly one.
    t0 = base + ns(min(e["ts"] for e in launches)) if launches else 0
    t1 = base + ns(max(e["ts"] for e in launches)) if launches else 0
    margin = (t1 - t0) // 10
    by_correlation = {}
    for e in kernels:
        by_correlation[e["args"]["correlation"]] = by_correlation.get(e["args"]["correlation"], 0) + 1
    # A runtime call and the driver call under it share their correlation: one launch.
    inner = {e["args"]["correlation"] for e in launches if t0 + margin < base + ns(e["ts"]) < t1 - margin}
    wrong = [c for c in inner if by_correlation.get(c, 0) != 1]
    checks.add(f"{kind}: capture {number}: every launch has its kernel", bool(inner) and not wrong,
               f"{len(inner) - len(wrong)} of {len(inner)}", "all, and more than none")

    if kind == "cuda" and not session.simulate:
        bursts = [json.loads(line) for line in log.read_text().splitlines()]
        inside = [b for b in bursts if b["start_ns"] > t0 + margin and b["end_ns"] < t1 - margin]
        starts = sorted(base + ns(e["ts"]) for e in kernels)
        differ = [b["burst"] for b in inside
                  if sum(b["start_ns"] - 20000 <= s <= b["end_ns"] + 20000 for s in starts) != b["launches"]]
        checks.add(f"cuda: capture {number}: kernels equal the program's own count", bool(inside) and not differ,
                   f"{len(inside) - len(differ)} of {len(inside)} bursts", "all bursts")


def check_idle_cost(checks, session):
    """Step time with the client loaded and idle against without, ABAB."""
    if session.simulate:
        checks.add("torch: step time with the idle client", None, "simulated ranks have virtual step times", "within noise")
        return
    medians = {True: [], False: []}
    for turn in range(4):
        for wrapped in (False, True):
            log = session.out / f"idle_{turn}_{'client' if wrapped else 'bare'}.jsonl"
            process = session.start("torch", log, seconds=8, wrapped=wrapped)
            process.wait(120)
            steps = [json.loads(line)["ns"] for line in log.read_text().splitlines()][20:]
            if steps:
                medians[wrapped].append(statistics.median(steps))
    if not medians[True] or not medians[False]:
        checks.add("torch: step time with the idle client", False, "the loop wrote no steps", "within noise")
        return
    bare, client = statistics.median(medians[False]), statistics.median(medians[True])
    noise = (max(medians[False]) - min(medians[False])) / bare
    ratio = client / bare
    checks.add("torch: step time with the idle client", abs(ratio - 1) <= max(noise, 0.01),
               f"bare {bare / 1e3:.1f} us, client {client / 1e3:.1f} us, ratio {ratio:.4f}",
               f"within the runs' own spread ({noise:.4f}) or 1 %")


def check_facts(checks, session):
    if session.simulate:
        checks.add("GPU", None, "simulated", "a GPU")
        return
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], text=True, capture_output=True)
    checks.add("GPU", done.returncode == 0, (done.stdout or done.stderr).strip(), "a GPU")
    try:
        done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.nccl.version())"],
                              text=True, capture_output=True, timeout=120)
        checks.add("PyTorch", done.returncode == 0, (done.stdout or done.stderr).strip().splitlines()[-1], "PyTorch with CUDA")
    except (subprocess.TimeoutExpired, IndexError):
        checks.add("PyTorch", False, "import did not end", "PyTorch with CUDA")


def write_results(checks, out, simulated):
    title = "# gpu-check" + (" (simulated ranks: says nothing about a GPU)" if simulated else "")
    lines = [title, "", "| check | verdict | measured | expected |", "|---|---|---|---|"]
    lines += [f"| {r['check']} | {r['verdict']} | {r['measured']} | {r['expected']} |" for r in checks.rows]
    (out / "results.md").write_text("\n".join(lines) + "\n")
    (out / "results.json").write_text(json.dumps({"simulated": simulated, "rows": checks.rows}, indent=1) + "\n")
    shutil.rmtree(out / "state", ignore_errors=True)
    archive = out / "gpu_check.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(out.iterdir()):
            if path != archive:
                tar.add(path, arcname=path.name)
    print(f"table: {out / 'results.md'}   archive: {archive} ({archive.stat().st_size // 1000} kB)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", required=True, type=pathlib.Path, help="the unpacked bundle")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the table and the archive")
    parser.add_argument("--simulate", type=pathlib.Path, help="folder with lockstep-sim-rank")
    args = parser.parse_args()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    checks = Checks()
    session = Session(args.bundle.resolve(), out, args.simulate.resolve() if args.simulate else None)
    check_facts(checks, session)
    for kind in ("cuda", "torch"):
        check_capture(checks, session, kind)
    check_idle_cost(checks, session)
    write_results(checks, out, bool(args.simulate))
    sys.exit(1 if checks.failed() else 0)


if __name__ == "__main__":
    main()
