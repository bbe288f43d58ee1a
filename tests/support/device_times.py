"""Computes a rank's device times from a Kineto trace by interval algebra on integer nanoseconds. Tests
compare the product's numbers with these. It shares no code with the product."""
import gzip
import json
import pathlib
from decimal import Decimal

DEVICE = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy"}


def union(intervals):
    merged = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def length(merged):
    return sum(end - start for start, end in merged)


def intersection(a, b):
    """Returns the length of the intersection of two unions."""
    i = j = total = 0
    while i < len(a) and j < len(b):
        total += max(0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return total


class RankTrace:
    """One trace file. Stamps are in ns of the host's clock. `rows` are (start, end, kind), with kind compute,
    communication or copy. `calls` are (start, end) of the CUDA runtime and driver. `steps` is {number:
    (start, end)}."""

    def __init__(self, path):
        path = pathlib.Path(path)
        with (gzip.open(path, "rt") if path.suffix == ".gz" else open(path)) as file:
            document = json.load(file, parse_float=Decimal)
        self.rank = document["distributedInfo"]["rank"]
        base = int(document.get("baseTimeNanoseconds", 0))
        self.rows, self.calls, self.steps = [], [], {}
        for event in document["traceEvents"]:
            if event.get("ph") != "X":
                continue
            category, name = event.get("cat", ""), event.get("name", "")
            start = base + int(event["ts"] * 1000)
            end = start + int(event["dur"] * 1000)
            if category in DEVICE:
                kind = DEVICE[category]
                if kind == "kernel":
                    kind = "communication" if "nccl" in name else "compute"
                self.rows.append((start, end, kind))
            elif category in ("cuda_runtime", "cuda_driver"):
                self.calls.append((start, end))
            elif category == "user_annotation" and name.startswith("ProfilerStep#"):
                self.steps[int(name.partition("#")[2])] = (start, end)
        self.rows.sort()


def figures(rows):
    """Returns the partition of `rows` and the number of rows, by the names of the report."""
    of = {kind: [(s, e) for s, e, k in rows if k == kind] for kind in ("compute", "communication", "copy")}
    compute, communication, memory = (union(of[kind]) for kind in ("compute", "communication", "copy"))
    span = max(e for _, e, _ in rows) - min(s for s, _, _ in rows)
    return {
        "span_ns": span,
        "idle_ns": span - length(union((s, e) for s, e, _ in rows)),
        "compute_ns": length(compute),
        "communication_ns": length(communication),
        "memory_ns": length(memory),
        "overlap_ns": intersection(compute, communication),
        "kernels": len(of["compute"]) + len(of["communication"]),
        "communication_kernels": len(of["communication"]),
        "copies": len(of["copy"]),
    }


def latest_start_waits(communication):
    """`communication` has each rank's communication kernels (start, end) on one clock. The i-th kernels of
    all ranks are one collective. Returns per rank its waiting for the last member, and the others' waiting
    that it caused as the last member."""
    ranks = range(len(communication))
    waits, caused = [0 for _ in ranks], [0 for _ in ranks]
    for members in zip(*communication, strict=True):
        starts = [start for start, _ in members]
        last = max(ranks, key=lambda r: starts[r])
        for r in ranks:
            waits[r] += starts[last] - starts[r]
            caused[last] += starts[last] - starts[r]
    return waits, caused
