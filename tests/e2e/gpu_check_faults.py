#!/usr/bin/env python3
"""Shows that each check of gpu-check can fail: runs it on the simulated stack with planted faults.

usage: gpu_check_faults.py BINARIES [--only FAULT]... [--markdown FILE]

A fault is a fault of the simulated CUPTI, a part of the bundle that is broken, or a mistake in one of the programs that
the check runs. For each check that passes without a fault, some fault must make it fail. The run takes about ten minutes.
It ends with 1 if a check passes under every fault, or if a fault makes no check fail."""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALL = "facts,cuda,graphs,ranks,robustness,latency,nccl,entries,forks,threads,same,long,top,buffers"
PARTS = ("facts,cuda,graphs,latency,long", "entries,forks,threads,same,top,buffers", "robustness,ranks,nccl")


class Fault:
    """`cupti` is SIMGPU_CUPTI_FAULTS, `env` other variables. `edit` changes files of gpu-check: (file, old text, new text).
    `wrap` has scripts that replace programs of the bundle; @REAL@ is the program's path."""

    def __init__(self, name, what, sections, cupti=None, env=None, edit=(), wrap=None):
        self.name, self.what, self.sections, self.edit, self.wrap = name, what, sections, edit, wrap or {}
        self.env = {**(env or {}), **({"SIMGPU_CUPTI_FAULTS": cupti} if cupti else {})}


# Without this, a check waits a minute for a rank that never comes.
SHORT_WAITS = [("helpers.py", "READY_S = 60", "READY_S = 5"), ("section_ranks.py", "STARTS_WITHIN_S = 45", "STARTS_WITHIN_S = 5")]
# A daemon inside a program that does DO to it, again and again.
DAEMON = """#!/usr/bin/env python3
import os, signal, subprocess, sys, time
real = subprocess.Popen(["@REAL@", *sys.argv[1:]])
signal.signal(signal.SIGTERM, lambda *_: real.terminate())
kept, seen = [], False
while real.poll() is None:
    DO
    time.sleep(0.1)
sys.exit(real.returncode)
"""
LEAKS = DAEMON.replace("DO", 'kept.append(b"x" * (32 << 20))')
LEAVES = DAEMON.replace("DO", """ranks = subprocess.run([os.path.join(os.path.dirname(__file__), "lockstep"), "status", "--format", "json"], capture_output=True).stdout
    gone = seen and b'"rank":' not in ranks
    seen = seen or b'"rank":' in ranks
    if gone: real.terminate()""")
FAULTS = [
    Fault("no-client", "the client library does nothing", ALL, edit=SHORT_WAITS, wrap={"lib/liblockstep_client.so": None}),
    Fault("no-capture", "`lockstep trace` fails", ALL, wrap={"bin/lockstep": '[ "$1" = trace ] && { echo "failed: planted" >&2; exit 4; }'}),
    Fault("no-reports", "`lockstep report` fails", "cuda,ranks,same,graphs", wrap={"bin/lockstep": '[ "$1" = report ] && exit 4'}),
    Fault("always-0", "`lockstep` always ends with 0", "robustness", wrap={"bin/lockstep": '"@REAL@" "$@"; exit 0'}),
    Fault("no-cli", "`lockstep` does not start", "facts", wrap={"bin/lockstep": "exit 127"}),
    Fault("drop", "CUPTI drops records and counts them", ALL, cupti="drop=37"),
    Fault("vanish", "CUPTI drops records and does not count them", ALL, cupti="vanish=41"),
    Fault("vanish-many", "CUPTI drops a third of the records and does not count them", "graphs,threads", cupti="vanish=3"),
    Fault("twice", "CUPTI returns records twice", "cuda,entries,forks,same,graphs", cupti="twice=30"),
    Fault("correlation", "CUPTI gives kernels wrong correlations", "cuda,entries,forks,threads,same", cupti="correlation=20"),
    Fault("zero-stamps", "CUPTI gives kernels no stamps", "cuda,long", cupti="zero_stamps=20"),
    Fault("instant", "CUPTI gives kernels no length", "cuda,entries,forks,threads,same", cupti="instant=20"),
    Fault("early", "CUPTI's stamps are 0.5 ms early", "latency,same", cupti="early=500"),
    Fault("stretch", "CUPTI's kernels are too long", "same", cupti="stretch=50"),
    Fault("no-objects", "CUPTI does not dump existing objects", "cuda", cupti="no_objects"),
    Fault("no-external", "CUPTI gives no external correlations", "nccl,ranks", cupti="no_external"),
    Fault("lost-gpu", "the GPU is lost 0.3 s after the first capture began", "cuda,graphs,latency,long,same", cupti="device_lost=300"),
    Fault("slow-end", "`lockstep trace` ends 2.5 s late", "latency",
          wrap={"bin/lockstep": '[ "$1" = trace ] && { "@REAL@" "$@"; code=$?; sleep 2.5; exit $code; }'}),
    Fault("no-top", "`lockstep top` fails", "top", wrap={"bin/lockstep": '[ "$1" = top ] && exit 1'}),
    Fault("old-nccl", "NCCL has no profiler plugin", "nccl,ranks", env={"SIMGPU_NCCL_VERSION": "22100"}),
    Fault("gpu-times", "the program's own GPU times are wrong", "cuda,entries,forks,threads,graphs",
          edit=[("cuda_loop.py", "round(milliseconds.value * 1e6)", "round(milliseconds.value * 1.1e6)")]),
    Fault("other-late-rank", "another rank is late", "ranks", edit=[("section_ranks.py", '"SIMGPU_SLOW_RANK": f"{LATE_RANK}:1.5"',
                                                                    '"SIMGPU_SLOW_RANK": "0:1.5"')]),
    Fault("bad-end", "programs and their children end with an error", "cuda,forks,graphs,robustness,top",
          edit=[("cuda_loop.py", "        os._exit(0)", "        os._exit(3)"), ("cuda_loop.py", "    if failures:", "    sys.exit(3)\n    if failures:")]),
    Fault("no-graph", "the program makes no graph", "graphs",
          edit=[("cuda_loop.py", "if graph is None and self.make_graph.is_set():", "if False:")]),
    Fault("leaves-with-daemon", "the program ends when its daemon does", "robustness",
          edit=[("cuda_loop.py", "            burst += 1", "            burst += 1\n            if not os.path.exists(os.environ['LOCKSTEP_SOCKET']):\n"
                 "                self.end.set()"), ("section_robustness.py", "session.daemon.kill()", "session.daemon.kill(); session.socket.unlink()")]),
    Fault("daemon-leaves", "the daemon ends with its first rank", "robustness", wrap={"bin/lockstepd": LEAVES}),
    Fault("large-rings", "small rings are not small", "forks", edit=[("section_robustness.py", "SMALL_RING_BYTES = 65536", "SMALL_RING_BYTES = 1 << 26")]),
    Fault("leak", "the program leaks memory", "long",
          edit=[("cuda_loop.py", "            burst += 1", "            burst += 1\n            kept = globals().setdefault('kept', [])\n"
                 "            kept.append(b'x' * (4 << 20))")]),
    Fault("daemon-leaks", "the daemon leaks memory", "long", wrap={"bin/lockstepd": LEAKS}),
]


def kind_of(row):
    """Returns a check's name without the capture that it is about."""
    name = re.sub(r"`lockstep trace[^`]*`", "`lockstep trace`", row["check"]).split(": ")[-1]
    return re.sub(r"\b\d+\b", "N", name)


def plant(fault, bundle, folder):
    """Copies the bundle and breaks the copy."""
    copy = folder / "bundle"
    subprocess.run(["cp", "-rl", bundle, copy], check=True)
    for name, old, new in fault.edit:
        path = copy / "gpu-check" / name
        text = path.read_text()
        assert old in text, f"{fault.name}: {name} lacks '{old}'"
        path.unlink()
        path.write_text(text.replace(old, new))
    for name, script in fault.wrap.items():
        path = copy / name
        if script is None:  # a library without any function
            path.unlink()
            subprocess.run(["gcc", "-shared", "-o", path, "-x", "c", "/dev/null"], check=True)
            continue
        real = copy / "real" / path.name  # beside bin, because it looks for ../libexec
        real.parent.mkdir(exist_ok=True)
        path.rename(real)
        path.write_text((script if script.startswith("#!") else f'#!/bin/sh\n{script}\nexec "@REAL@" "$@"\n').replace("@REAL@", str(real)))
        path.chmod(0o755)
    return copy


def run(bundle, binaries, sections, env, folder):
    out = folder / f"out-{sections.replace(',', '-')}"
    subprocess.run([sys.executable, bundle / "gpu-check" / "gpu_check.py", "--simulate", binaries, "--only", sections, "--limit", "400", "--out", out],
                   env={**os.environ, "TMPDIR": str(folder), **env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=500)
    return json.loads((out / "results.json").read_text())["rows"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=[f.name for f in FAULTS], help="this fault; the coverage is then not judged")
    parser.add_argument("--markdown", type=pathlib.Path, help="writes the table there")
    args = parser.parse_args()
    binaries = args.binaries.resolve()
    faults = [f for f in FAULTS if not args.only or f.name in args.only]
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-faults-"))
    try:
        subprocess.run(["bash", ROOT / "tools/dev/bundle.sh", "--built", binaries.parent, "--out", work, "--level", "1"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
        bundle = next(work.glob("lockstep-*-x86_64"))
        clean, failed, jobs = set(), collections.defaultdict(dict), []
        for part in PARTS if not args.only else ():
            jobs.append((None, part))
        for fault in faults:
            wanted = set(fault.sections.split(","))
            jobs += [(fault, ",".join(s for s in part.split(",") if s in wanted)) for part in PARTS if wanted & set(part.split(","))]

        def one(job):
            fault, sections = job
            folder = pathlib.Path(tempfile.mkdtemp(prefix="f", dir=work))
            planted = plant(fault, bundle, folder) if fault else bundle
            rows = run(planted, binaries, sections, fault.env if fault else {}, folder)
            shutil.rmtree(folder, ignore_errors=True)
            return job, rows

        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for (fault, sections), rows in pool.map(one, jobs):
                bad = sorted({(row["section"], kind_of(row)) for row in rows if row["verdict"] == "FAIL"})
                print(f"{fault.name if fault else 'no fault'}, {sections}: {len(bad)} of {len(rows)} fail", flush=True)
                if fault is None:
                    assert not bad, f"without a fault: {bad}"
                    clean |= {(row["section"], kind_of(row)) for row in rows if row["verdict"] == "PASS"}
                for check in bad:
                    failed[check][fault.name] = True
    finally:
        shutil.rmtree(work, ignore_errors=True)
    useless = [f.name for f in faults if not any(f.name in names for names in failed.values())]
    never = sorted(check for check in clean if check not in failed)
    print(*(f"{section}: {check}: {', '.join(names)}" for (section, check), names in sorted(failed.items())), sep="\n")
    if args.markdown:
        kinds = collections.defaultdict(lambda: (set(), {}))
        for section, check in clean:
            kinds[check][0].add(section)
            kinds[check][1].update(failed.get((section, check), {}))
        lines = ["| check | sections | faults that make it fail |", "|---|---|---|"]
        lines += [f"| {check} | {', '.join(sorted(sections))} | {', '.join(names) or '**none**'} |" for check, (sections, names) in sorted(kinds.items())]
        lines += ["", "| fault | planted |", "|---|---|"] + [f"| {f.name} | {f.what} |" for f in FAULTS]
        args.markdown.write_text("\n".join(lines) + "\n")
    print(f"{len(clean)} checks, {len(never)} of them never failed" + "".join(f"\n  never: {s}: {c}" for s, c in never))
    print(f"{len(useless)} faults made nothing fail: {useless}" if useless else "each fault made some check fail")
    sys.exit(1 if never or useless else 0)


if __name__ == "__main__":
    main()
