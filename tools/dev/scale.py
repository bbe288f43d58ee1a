#!/usr/bin/env python3
"""Measures the analysis at scale, and stores all its outputs for a comparison of two builds.

  scale.py jobs FOLDER                     writes a small and a large job of 64 ranks
  scale.py measure LOCKSTEP FILE...        prints time and peak memory of `lockstep analyze`; with --memory
                                           SIZE, under that limit
  scale.py outputs LOCKSTEP FOLDER         stores reports, what-ifs and exports of many jobs; with --memory
                                           SIZE, each under that limit

`diff -r` of two folders of `outputs` shows if two builds give the same bytes. The jobs are those of
tests/golden and tests/corpus, generated ones, and the recorded ones of ../shared/traces where it exists.
"""
import argparse
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "tests/scenario/generate.py"
SIZES = {"small": 40, "large": 375}  # steps; a step of 64 ranks has 25,000 records
TOPOLOGIES = ("dp", "fsdp", "hybrid", "pipeline", "interleaved", "experts", "context")
FAULTS = ("slow_gpu", "host_gap", "link", "pause", "contention", "copies", "common")
FORMATS = ("kineto", "perfetto", "nsys-sqlite", "scenario", "otf2", "csv", "parquet")
POLL_S = 0.004  # between two looks at anonymous memory
ROWS = b"kczmar"  # kernels, copies, calls and ranges of a timeline


def generate(path, *arguments):
    subprocess.run([sys.executable, GENERATOR, "-o", path, *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)


def write_jobs(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, steps in SIZES.items():
        generate(folder / f"{name}.timeline", "--ranks", 64, "--steps", steps, "--fault", "slow_gpu")


def count_rows(path):
    with open(path, "rb") as file:
        return sum(1 for line in file if line[0] in ROWS and line[1:2] == b" ")


def anonymous_bytes(pid):
    """Memory of the process that is in no file. 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return 1024 * sum(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))
    except OSError:
        return 0


def run(command):
    """Returns wall seconds, processor seconds, and the peaks of all memory and of anonymous memory in bytes."""
    begin = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ)
    anonymous, ended = 0, 0
    while not ended:
        anonymous = max(anonymous, anonymous_bytes(pid))
        time.sleep(POLL_S)
        ended, status, usage = os.wait4(pid, os.WNOHANG)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, 1024 * usage.ru_maxrss, anonymous


def measure(lockstep, files, options):
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/report.json"
        command = [lockstep, "analyze", "--format", "json", "-o", out]
        empty = run(command + [str(ROOT / "tests/golden/timeline/every_statement_v1.timeline")])
        for file in files:
            rows = count_rows(file)
            wall, processor, peak, anonymous = run(command + options + [file])
            print(f"{file}: {rows} rows, {wall:.2f} s, {processor:.2f} s of processor time, {peak >> 20} MiB, {(peak - empty[2]) / rows:.1f} bytes per row; "
                  f"anonymous {anonymous >> 20} MiB, {(anonymous - empty[3]) / rows:.1f} bytes per row")


def jobs_of(folder):
    """Yields names and paths of all jobs for `outputs`. Writes the generated ones into the folder."""
    yield "golden", ROOT / "tests/golden/timeline/every_statement_v1.timeline"
    for path in sorted((ROOT / "tests/corpus/records").iterdir()) + sorted((ROOT / "tests/corpus/timeline").iterdir()):
        yield f"corpus_{path.name}", path
    traces = ROOT.parent / "shared/traces"
    if traces.is_dir():
        for path in sorted(p for p in traces.iterdir() if p.is_dir() and p.name != "independent_jobs"):
            yield path.name, path
        for path in sorted((traces / "independent_jobs").iterdir()):
            yield path.name, path
    for i, topology in enumerate(TOPOLOGIES):
        for fault in (FAULTS[i], FAULTS[(i + 3) % len(FAULTS)]):
            name = f"{topology}_{fault}"
            generate(folder / f"{name}.timeline", "--topology", topology, "--fault", fault, "--seed", i, "--steps", 12, "--clock-ms", i % 3,
                     "--metadata", ("nccl", "seq", "group", "none")[i % 4], "--loss", 0.002 * (i % 2))
            yield name, folder / f"{name}.timeline"
    for topology in ("hybrid", "fsdp"):
        generate(folder / f"{topology}_512.timeline", "--topology", topology, "--ranks", 512, "--fault", "slow_gpu", "--fault", "host_gap", "--steps", 5)
        yield f"{topology}_512", folder / f"{topology}_512.timeline"


def store(path, command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    path.write_bytes(done.stdout + b"\nstatus %d\n" % done.returncode + done.stderr)


def digest(path):
    # The anchor file of OTF2 has a random number.
    files = sorted(p for p in path.rglob("*") if p.is_file() and p.name != "traces.otf2") if path.is_dir() else [path]
    return "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()} {f.relative_to(path.parent)}\n" for f in files)


def store_outputs(lockstep, folder, formats, options):
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        # The generated jobs have the same path in each run, because reports name it.
        inputs = pathlib.Path(tempfile.gettempdir()) / "lockstep-scale-jobs"
        inputs.mkdir(exist_ok=True)
        for name, job in jobs_of(inputs):
            for kind in ("json", "text", "html"):
                store(folder / f"{name}.{kind}", [lockstep, "analyze", job, "--format", kind, *options])
            for i, fix in enumerate((("--fix", "rank=0"), ("--fix", "op=.*", "--scale", "0.9"), ("--fix", "rank=1,rank=2"))):
                store(folder / f"{name}.whatif{i}", [lockstep, "whatif", job, *fix, *options])
            for form in formats:
                out = pathlib.Path(scratch) / f"{name}.{form}"
                done = subprocess.run([lockstep, "export", job, "--format", form, "-o", out, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                (folder / f"{name}.{form}").write_text(digest(out) if out.exists() else f"status {done.returncode}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("jobs").add_argument("folder", type=pathlib.Path)
    of = verbs.add_parser("measure")
    of.add_argument("lockstep")
    of.add_argument("files", nargs="+")
    of.add_argument("--memory", help="limit of the analysis, as in 512MiB")
    of = verbs.add_parser("outputs")
    of.add_argument("lockstep")
    of.add_argument("folder", type=pathlib.Path)
    of.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS)
    of.add_argument("--memory", help="limit of each run; a job that does not fit gives a refusal or fewer steps")
    args = parser.parse_args()
    options = ["--memory", args.memory] if getattr(args, "memory", None) else []
    if args.verb == "jobs":
        write_jobs(args.folder)
    elif args.verb == "measure":
        measure(os.path.abspath(args.lockstep), args.files, options)
    else:
        store_outputs(os.path.abspath(args.lockstep), args.folder, args.formats, options)


if __name__ == "__main__":
    main()
