"""Checks a machine with a GPU, from the bundle. It needs only python3 and the bundle.

It writes OUT/results.md (the table), OUT/results.json, and OUT/gpu_check.tar.gz (at most 16 MB). The
archive has every log, report and capture, and the files for the repository (docs/gpu-check.md).

Checks are independent: one that fails, hangs or breaks becomes a row, and the next one begins. The run
ends within --limit seconds plus a short cleanup. The exit code is 1 if a check failed. With --simulate DIR
the programs run on simulated GPUs, to test the check itself without a GPU. The first line of the table
then says so.
"""
import argparse
import collections
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from evidence import OutOfTime, Table, broken, run_logged, write_archive
from for_repository import gather
from machine import Setup
from section_buffers import buffers
from section_cuda import cuda, entries, threads
from section_facts import facts
from section_graphs import graphs
from section_jax import jax
from section_latency import latency
from section_long import long_capture
from section_overhead import overhead
from section_processes import processes, top
from section_ranks import nccl, ranks
from section_robustness import forks, robustness
from section_same import same_program
from section_torch import torch

# `least` is the time in seconds that a section needs to begin. After `limit` seconds it is stopped.
Section = collections.namedtuple("Section", "name id function least limit")
# The most important sections come first. A section without enough time is left out, and its row says so.
SECTIONS = [
    Section("facts", "A1", facts, 10, 90), Section("cuda", "A3", cuda, 25, 90), Section("graphs", "A5", graphs, 20, 80),
    Section("overhead", "A7", overhead, 40, 190), Section("ranks", "A10", ranks, 40, 110), Section("torch", "A6", torch, 30, 90),
    Section("processes", "A17", processes, 40, 110), Section("robustness", "A13", robustness, 40, 80), Section("latency", "A8", latency, 10, 30), Section("nccl", "A11", nccl, 30, 80),
    Section("entries", "A2", entries, 20, 40), Section("forks", "A13", forks, 10, 40), Section("threads", "A8", threads, 20, 50),
    Section("same", "A15", same_program, 15, 40), Section("long", "A16", long_capture, 25, 60), Section("top", "A18", top, 15, 80), Section("jax", "A14", jax, 15, 60),
    Section("buffers", "A19", buffers, 40, 110)]


# Time of one call. The rest of ten minutes is for the first imports, and for the archive.
CALL_S = 480


def plan(limit):
    """Returns lists of sections. Each section is in the first list in which its limit fits, so that the most important ones
    come first."""
    calls, used = [], []
    for section in SECTIONS:
        fits = next((i for i, seconds in enumerate(used) if seconds + section.limit <= limit), len(calls))
        if fits == len(calls):
            calls.append([])
            used.append(0)
        calls[fits].append(section.name)
        used[fits] += section.limit
    return calls


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the unpacked bundle (the one this lies in)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the table and the archive")
    parser.add_argument("--simulate", type=pathlib.Path, metavar="DIR", help="folder with lockstep-sim-rank")
    parser.add_argument("--only", help="sections, by comma: " + ", ".join(section.name for section in SECTIONS))
    parser.add_argument("--limit", type=float, default=CALL_S, help="total time in seconds, without the first imports (%(default)s)")
    parser.add_argument("--plan", action="store_true", help="run nothing: print calls that fit into the limit each, and together run "
                        "every section")
    args = parser.parse_args()
    if args.plan:
        for names in plan(args.limit):
            print(f"./dev gpu-check --bundle BUNDLE --out OUT --limit {args.limit:.0f} --only {','.join(names)}")
        sys.exit(0)
    if not args.out:
        parser.error("--out is missing")
    known = [section.name for section in SECTIONS]
    args.only = args.only.split(",") if args.only else known
    unknown = [name for name in args.only if name not in known]
    if unknown:
        parser.error(f"--only {','.join(unknown)}: the sections are {', '.join(known)}")
    if not (args.bundle / "bin" / "lockstep").exists():
        parser.error(f"--bundle {args.bundle}: there is no bin/lockstep in it")
    return args


def out_of_time(*_):
    raise OutOfTime("the time is up")


def terminated(*_):
    signal.setitimer(signal.ITIMER_REAL, 0)
    raise KeyboardInterrupt("ended from outside")


def run_section(section, setup, table):
    table.section, table.id = section.name, section.id
    if setup.left() < section.least:
        table.left_out("section", f"not run: out of time, {max(setup.left(), 0):.0f} s are left, it needs {section.least} and more")
        return
    limit = min(section.limit, setup.left())
    setup.section_deadline = time.monotonic() + limit
    try:
        signal.setitimer(signal.ITIMER_REAL, limit)
        section.function(setup, table)
    except OutOfTime:
        broken(setup.work / section.name, "out-of-time")
        table.check("the section ends in time", False, "timed out; the archive has its stack", f"within {limit:.0f} s")
    except Exception:
        table.check("the section runs to its end", False, broken(setup.work / section.name, "broken"), "no exception")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def warm(setup, table):
    table.section, table.id = "facts", "A1"
    if setup.simulate:
        return
    for module, seconds in setup.warm(["torch", "jax"]).items():
        table.fact(f"first import of {module}", f"{seconds:.1f} s" if seconds else "missing, or too slow")


def main():
    args = parse()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    setup = Setup(args.bundle.resolve(), work, args.simulate.resolve() if args.simulate else None)
    table = Table(out, bool(args.simulate))
    warm(setup, table)
    setup.deadline = time.monotonic() + args.limit
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, terminated)
    try:
        for section in SECTIONS:
            if section.name in args.only:
                run_section(section, setup, table)
    except KeyboardInterrupt as end:
        table.check("the run ends by itself", False, f"{end or 'interrupted'}; the archive has all results so far", f"within {args.limit:.0f} s")
        broken(work, "interrupted")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A driver reports a fault in the kernel's log.
        run_logged(work / "facts", "kernel-log-at-the-end", ["bash", "-c", "dmesg -T | tail -n 200"], timeout=5)
        gathered = gather(setup, table)
        archive = out / "gpu_check.tar.gz"
        size, left_out = write_archive(archive, work, [out / "results.md", out / "results.json"])
        shutil.rmtree(work, ignore_errors=True)
    print(f"table: {out / 'results.md'}   archive: {archive} ({size // 1000} kB" +
          (f", {len(left_out)} files did not fit: left_out.txt in it" if left_out else "") + ")")
    print(gathered)
    sys.exit(0 if table.good() else 1)


if __name__ == "__main__":
    main()
