"""Measures the Kineto import as a user runs it: the whole process, a warm cache, and every field of the
report.

  import_bench.py LOCKSTEP FOLDER [--hta SECONDS --zcat SECONDS]

Prints wall seconds (median of the runs), MB/s of JSON and peak memory. The floor is `zcat` of the same
files in the same run. --hta is another tool's recorded time for the same files, and --zcat is the time of
zcat on that tool's machine. The recorded time is scaled by this machine's zcat before the comparison.
"""
import argparse
import gzip
import os
import pathlib
import statistics
import subprocess
import sys
import time


def run(command, stdout=subprocess.DEVNULL):
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=stdout)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)} ended with {status}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def count_events(path):
    """Counts events piece by piece, so that this process stays small. The kernel counts the parent's memory
    for a child at exec."""
    found, tail = 0, b""
    with gzip.open(path) as text:
        while piece := text.read(1 << 20):
            found += (tail + piece).count(b'"ph"')
            tail = piece[-3:]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lockstep")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--hta", type=float)
    parser.add_argument("--zcat", type=float)
    args = parser.parse_args()
    files = sorted(map(str, args.folder.glob("*.gz")))
    raw = sum(int.from_bytes(pathlib.Path(f).read_bytes()[-4:], "little") for f in files)
    events = sum(map(count_events, files))

    zcat, ours, memory = [], [], []
    for _ in range(args.runs):  # interleaved, so that other load affects both
        zcat.append(run(["zcat", *files])[0])
        seconds, mib = run([args.lockstep, "analyze", str(args.folder), "--format", "json"])
        ours.append(seconds)
        memory.append(mib)
    floor, median = statistics.median(zcat), statistics.median(ours)
    print(f"{args.folder.name}: {len(files)} files, {raw / 1e6:.1f} MB of JSON, {events} events")
    print(f"  lockstep analyze   {median:.3f} s  (min {min(ours):.3f}, max {max(ours):.3f})   {raw / 1e6 / median:.0f} MB/s   "
          f"{events / median / 1e6:.2f} M events/s   peak {max(memory):.0f} MiB")
    print(f"  zcat (floor)       {floor:.3f} s   ours / floor = {median / floor:.2f}")
    if args.hta and args.zcat:
        scaled = args.hta * floor / args.zcat
        print(f"  HTA, recorded      {args.hta:.2f} s, scaled to this machine {scaled:.2f} s   ours is {scaled / median:.1f} x faster")


if __name__ == "__main__":
    main()
