"""What a machine with a GPU has to show, run from the bundle. Needs python3 and nothing of ours but the bundle.

Writes OUT/results.md (the table), OUT/results.json, and OUT/gpu_check.tar.gz (at most 16 MB) with every log, report and capture. Ends by
itself within --limit seconds, whatever hangs. Exit 1 when a check failed. With --simulate DIR the programs are simulated ranks, so
that the check itself is tested where no GPU is; the table then says so in its first line.
"""
import argparse
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from evidence import OutOfTime, Table, broken, run_logged, write_archive
from section_cuda import cuda, entries, threads
from section_facts import facts
from section_pair import pair
from section_robustness import robustness
from section_torch import cost, torch
from session import Setup

# name, function, seconds without which it is not begun
SECTIONS = [("facts", facts, 10), ("cuda", cuda, 25), ("torch", torch, 40), ("cost", cost, 60), ("robustness", robustness, 40),
            ("entries", entries, 25), ("threads", threads, 20), ("pair", pair, 40)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent,
                        help="the unpacked bundle (the one this lies in)")
    parser.add_argument("--out", required=True, type=pathlib.Path, help="folder for the table and the archive")
    parser.add_argument("--simulate", type=pathlib.Path, metavar="DIR", help="folder with lockstep-sim-rank")
    parser.add_argument("--only", help="sections, by comma: " + ", ".join(name for name, _, _ in SECTIONS))
    parser.add_argument("--limit", type=float, default=440, help="seconds for all of it (%(default)s)")
    args = parser.parse_args()
    known = [name for name, _, _ in SECTIONS]
    args.only = args.only.split(",") if args.only else known
    unknown = [name for name in args.only if name not in known]
    if unknown:
        parser.error(f"--only {','.join(unknown)}: the sections are {', '.join(known)}")
    if not (args.bundle / "bin" / "lockstep").exists():
        parser.error(f"--bundle {args.bundle}: there is no bin/lockstep in it")
    return args


def out_of_time(*_):
    raise OutOfTime("the time is up")


def run_sections(args, setup, table):
    for name, section, least in SECTIONS:
        if name not in args.only:
            continue
        table.section = name
        if setup.left() < least:
            table.check("section", None, f"{setup.left():.0f} s are left, it needs {least} and more", "")
            continue
        try:
            section(setup, table)
        except Exception:
            table.check("the section runs to its end", False, broken(setup.work / name, "broken"), "no exception")


def main():
    args = parse()
    out = args.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))
    setup = Setup(args.bundle.resolve(), work, args.simulate.resolve() if args.simulate else None)
    setup.deadline = time.monotonic() + args.limit
    table = Table(out, bool(args.simulate))
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, args.limit)
    try:
        run_sections(args, setup, table)
    except (OutOfTime, KeyboardInterrupt) as end:
        table.check("the run ends in time", False, f"{end or 'interrupted'}; the archive has what there is", f"within {args.limit:.0f} s")
        broken(work, "out-of-time")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # A driver that reported a fault said so there.
        run_logged(work / "facts", "kernel-log-at-the-end", ["bash", "-c", "dmesg -T | tail -n 200"], timeout=5)
        archive = out / "gpu_check.tar.gz"
        size, left_out = write_archive(archive, work, [out / "results.md", out / "results.json"])
        shutil.rmtree(work, ignore_errors=True)
    print(f"table: {out / 'results.md'}   archive: {archive} ({size // 1000} kB" +
          (f", {len(left_out)} files did not fit: left_out.txt in it" if left_out else "") + ")")
    sys.exit(0 if table.good() else 1)


if __name__ == "__main__":
    main()
