"""Reads a capture of one rank that `lockstep trace` wrote, and checks it."""
import bisect
import collections
import decimal
import gzip
import json
import statistics

# The time stamps of GPU and host are aligned by interpolation, with an error of at most 10 us.
SLACK_NS = 20_000

Kernel = collections.namedtuple("Kernel", "start dur stream correlation name")
Call = collections.namedtuple("Call", "start dur correlation name")
# One NCCL collective: the key that its ranks share, and its kernel.
Collective = collections.namedtuple("Collective", "key kernel")


class Capture:
    """The records of one rank in a capture. Times are nanoseconds of the host's CLOCK_REALTIME."""

    def __init__(self, folder, rank=0):
        self.folder = folder
        self.report = json.loads((folder / "report.json").read_text())
        manifest = json.loads((folder / "records" / "manifest.json").read_text())
        self.process = next(p for p in manifest["processes"] if p["rank"] == rank)
        self.t0, self.t1 = self.process["t0_host_ns"], self.process["t1_host_ns"]
        self.rows = {}
        for file in self.process["files"]:
            for kind, rows in file["rows"].items():
                self.rows[kind] = self.rows.get(kind, 0) + rows
        self.lost = sum(loss["records"] for loss in self.report["capture"]["losses"] if loss.get("rank") in (rank, None))
        self._read_trace(next(p for p in sorted((folder / "traces").glob("*.json.gz")) if f"_{rank}." in p.name))

    def _read_trace(self, path):
        with gzip.open(path, "rt") as file:
            # Decimal is exact. A float of this size cannot hold nanoseconds.
            document = json.load(file, parse_float=decimal.Decimal)
        # The trace uses the job's clock.
        base = document["baseTimeNanoseconds"] - document["lockstep"]["clock"]["shifted_ns"]
        self.kernels, self.calls, self.ranges, self.copies, self.sets, self.collectives = [], [], [], [], [], []
        for e in document["traceEvents"]:
            cat, args = e.get("cat"), e.get("args", {})
            if e.get("ph") != "X" or cat is None:
                continue
            start, dur = base + round(e["ts"] * 1000), round(e["dur"] * 1000)
            if cat in ("kernel", "gpu_memcpy", "gpu_memset"):
                into = {"kernel": self.kernels, "gpu_memcpy": self.copies, "gpu_memset": self.sets}[cat]
                into.append(Kernel(start, dur, args.get("stream"), args.get("correlation"), e["name"]))
                if "NCCL Seq" in args:
                    key = args.get("Process Group Name"), args["Collective name"], args["NCCL Seq"]
                    self.collectives.append(Collective(key, into[-1]))
            elif cat in ("cuda_runtime", "cuda_driver"):
                self.calls.append(Call(start, dur, args.get("correlation"), e["name"]))
            elif cat == "user_annotation" and args.get("lockstep") != "inferred":
                self.ranges.append(Call(start, dur, None, e["name"]))
        for rows in (self.kernels, self.copies, self.sets):
            rows.sort()

    def launched_at(self):
        """Returns the sorted starts of the kernels' launch calls. They are on the host's clock, so that each
        belongs to one step. A kernel without a known call counts with its own start."""
        calls = {c.correlation: c.start for c in self.calls if "Launch" in c.name}
        return sorted(calls.get(k.correlation, k.start) for k in self.kernels)

    def launches(self):
        """Returns the correlations of launches whose kernels must have begun inside the window. Their
        distance to its end is larger than any kernel's queueing time. A runtime call and the driver call
        inside it have the same correlation."""
        calls = {c.correlation: c.start for c in self.calls if "LaunchKernel" in c.name}
        queued = max((k.start - calls[k.correlation] for k in self.kernels if k.correlation in calls), default=0)
        return {c for c, start in calls.items() if start < self.t1 - 1_000_000 - queued * 3 // 2}


def totals(folder):
    """Returns (rows by kind, losses) of all ranks of a capture without traces."""
    manifest = json.loads((folder / "records" / "manifest.json").read_text())
    rows = collections.Counter()
    for process in manifest["processes"]:
        for file in process["files"]:
            rows.update(file["rows"])
    return rows, json.loads((folder / "report.json").read_text())["capture"]["losses"]


def window(folder, rank=0):
    """Returns a rank's window on its host's clock."""
    manifest = json.loads((folder / "records" / "manifest.json").read_text())
    process = next(p for p in manifest["processes"] if p["rank"] == rank)
    return process["t0_host_ns"], process["t1_host_ns"]


def check_complete(table, capture, label):
    """Checks the rules that hold for every capture of any program."""
    table.check(f"{label}: nothing lost", capture.lost == 0, f"{capture.lost} lost of {sum(capture.rows.values())} records; {capture.rows}",
                "0 lost")
    count = collections.Counter(k.correlation for k in capture.kernels)
    launches = capture.launches()
    odd = [c for c in launches if count[c] != 1]
    table.check(f"{label}: every launch has its one kernel", bool(launches) and not odd,
                f"{len(launches) - len(odd)} of {len(launches)}" + (f"; correlations {sorted(odd)[:5]}" if odd else ""),
                "all, and more than none")
    before, cut, orphans = orphans_of(capture)
    inside = len(capture.kernels) - before - cut
    table.check(f"{label}: every kernel has its call", inside > 0 and not orphans,
                f"{inside - len(orphans)} of {inside}; {before} launched before the window, {cut} by calls that outlast it"
                + (f"; without is {orphans[0].name[:60]}, {(capture.t1 - orphans[0].start) / 1000:.0f} us before the window's end"
                   if orphans else ""), "all")
    broken = [k for k in capture.kernels if k.dur <= 0 or not k.name]
    table.check(f"{label}: kernels have names and durations", not broken, f"{len(broken)} without, of {len(capture.kernels)}", "all")


def check_device(table, capture, label):
    """Checks the objects that are older than the capture. CUPTI dumps them on request."""
    rank = capture.report["ranks"][0]
    table.check(f"{label}: the device, its context and its streams are known",
                bool(rank["device_name"]) and bool(rank["device_uuid"]) and all(capture.rows.get(k) for k in ("device", "context", "stream")),
                f"{rank['device_name']}, {rank['device_uuid']}; " + ", ".join(f"{k} {capture.rows.get(k, 0)}" for k in
                                                                              ("device", "context", "stream")), "all of them")


def orphans_of(capture):
    """Returns the number of kernels that were launched before the window, the number of kernels whose calls
    outlast it, and the other kernels without a call. A stream runs in order, so that every kernel after the
    first one with a known call must have a call. Only the last one of a stream may lack it: its thread may
    still be inside the call when the window ends."""
    known = {c.correlation for c in capture.calls}
    before, orphans, reached, last = 0, [], set(), {}
    for kernel in capture.kernels:
        last[kernel.stream] = kernel
        if kernel.correlation in known:
            reached.add(kernel.stream)
        elif kernel.stream in reached:
            orphans.append(kernel)
        else:
            before += 1
    cut = [k for k in orphans if last[k.stream] is k]
    return before, len(cut), [k for k in orphans if last[k.stream] is not k]


def launch_delays(capture):
    """Returns the sorted delays from the start of a launch call to the start of its kernel. They show the
    clocks' alignment."""
    starts = {c.correlation: c.start for c in capture.calls if "LaunchKernel" in c.name}
    return sorted(k.start - starts[k.correlation] for k in capture.kernels if k.correlation in starts)


def check_bursts(table, capture, bursts, label):
    """Compares the capture with cuda_loop.py's own counts per burst and its GPU times. Returns True if all
    agree."""
    inside = [b for b in bursts if b["start_ns"] > capture.t0 + SLACK_NS and b["end_ns"] < capture.t1 - SLACK_NS]
    streams = collections.defaultdict(list)
    for kernel in capture.kernels:
        streams[kernel.stream].append(kernel)
    differ, ratios = [], []
    for thread in sorted({b["thread"] for b in inside}):
        own = [b for b in inside if b["thread"] == thread]
        # Each thread has its own stream. Only the driver knows its number, so that the best match is taken.
        fits = [[_within(kernels, b) for b in own] for kernels in streams.values()]
        best = max(fits, key=lambda found: sum(len(f) == b["launches"] for f, b in zip(found, own)), default=[])
        for burst, kernels in zip(own, best or [[] for _ in own]):
            if len(kernels) != burst["launches"]:
                differ.append(f"burst {burst['burst']} of thread {thread}: {len(kernels)} of {burst['launches']}")
            elif burst["gpu_ns"] > 0:
                ratios.append((kernels[-1].start + kernels[-1].dur - kernels[0].start) / burst["gpu_ns"])
    good = table.check(f"{label}: kernels equal the program's own count", bool(inside) and not differ,
                       f"{len(inside) - len(differ)} of {len(inside)} bursts" + (f"; {differ[0]}" if differ else ""),
                       "all bursts, and more than none")
    if len({b["thread"] for b in inside}) == 1:
        for what, rows in (("copies", capture.copies), ("sets", capture.sets)):
            wrong = [b["burst"] for b in inside if len(_within(rows, b)) != b[what]]
            good &= table.check(f"{label}: {what} equal the program's own count", not wrong, f"{len(inside) - len(wrong)} of {len(inside)} "
                                "bursts", "all bursts")
    if ratios:
        median = statistics.median(ratios)
        good &= table.check(f"{label}: kernel time equals the time of CUDA events", abs(median - 1) <= 0.02,
                            f"first start to last end is {median:.4f} of the events' time", "within 2 %")
    return good


def _within(rows, burst):
    """Returns the rows inside a burst. `rows` are sorted by start."""
    first = bisect.bisect_left(rows, (burst["start_ns"] - SLACK_NS,))
    return rows[first:bisect.bisect_right(rows, (burst["end_ns"] + SLACK_NS,))]


def check_steps(table, capture, steps, label):
    """Compares the capture with torch_loop.py's steps. Each must have a range, and all must have equally many
    kernels."""
    inside = [s for s in steps if s["start_ns"] > capture.t0 + SLACK_NS and s["start_ns"] + s["ns"] < capture.t1 - SLACK_NS]
    ranges = {r.name: r for r in capture.ranges}
    missing = [s["step"] for s in inside if f"ProfilerStep#{s['step']}" not in ranges]
    table.check(f"{label}: every step has an NVTX range", bool(inside) and not missing,
                f"{len(inside) - len(missing)} of {len(inside)}; {len(capture.ranges)} ranges", "all, and more than none")
    launched = capture.launched_at()
    counts = collections.Counter(bisect.bisect_left(launched, s["start_ns"] + s["ns"]) - bisect.bisect_left(launched, s["start_ns"])
                                 for s in inside)
    usual = counts.most_common(1)[0] if counts else (0, 0)
    table.check(f"{label}: every step has as many kernels as the others", usual[0] > 0 and usual[1] == len(inside),
                f"kernels per step, and how many steps: {dict(counts.most_common(4))}", "one number above 0")


def check_graph(table, capture, steps, label):
    """Checks replays of a CUDA graph: each kernel must be recorded with the launch that it belongs to."""
    fact_graph_launches(table, capture, label)
    check_steps(table, capture, steps, label)


def fact_graph_launches(table, capture, label):
    graph = {c.correlation for c in capture.calls if "GraphLaunch" in c.name}
    by_graph = sum(k.correlation in graph for k in capture.kernels)
    table.fact(f"{label}: kernels that name a graph launch of this capture", f"{by_graph} of {len(capture.kernels)} kernels, "
               f"{len(graph)} graph launches")
