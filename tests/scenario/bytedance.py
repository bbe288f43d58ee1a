#!/usr/bin/env python3
"""Converts ByteDance's public job timeline (StragglerAnalysis, Chrome events of operations) to a Lockstep
timeline.

    bytedance.py timeline-ST.json.gz meta-ST.yaml OUT.timeline

A job has replicas of a pipeline. Of the ranks of a tensor-parallel group, the list has only the first, which
stands for its group. Each of these workers has five threads: compute, pipeline, tensor, data, other.
ByteDance's list has sampled steps, with a gap in place of the steps between them. In the output, a step
begins where the previous one ended.

In the list, all members of a transfer begin when the last of them was ready. In the output, each member
begins when it was ready itself, plus the delay that the last one had after its previous operation. Its
interval then includes its waiting, as a kernel's does."""
import bisect
import collections
import gzip
import json
import sys

EPOCH = 1_700_000_000_000_000_000
COMPUTE = ("forward-compute", "backward-compute", "optimizer", "gc")
GROUPED = {"layernorm-grads-all-reduce": ("tp", "all_reduce"), "params-all-gather": ("dp", "all_gather"), "grads-reduce-scatter": ("dp", "reduce_scatter"),
           "embedding-grads-all-reduce": ("embedding", "all_reduce"), "optimizer-clip-main-grad": ("world", "all_reduce")}
MESSAGES = {"forward-send": ("send", 1), "forward-recv": ("receive", -1), "backward-send": ("send", -1), "backward-recv": ("receive", 1)}
THREADS = 5
CLOSE = 200.0  # in microseconds; an operation's end may be stamped this much after the start of the next one


def meta_of(text):
    return {key.strip(): value.strip() for key, value in (line.split(":", 1) for line in text.splitlines() if ":" in line)}


class Kernel:
    """One kernel, with times in microseconds on the stitched timeline. Grouped messages are one kernel. The
    list has it once per message."""

    def __init__(self, event, start):
        self.events, self.start, self.end, self.ready = [event], start, start + event["dur"], 0.0


def _kernels(events, shift):
    kernels = []
    for e in sorted(events, key=lambda e: (e["ts"], e["tid"])):
        last = kernels[-1].events[0] if kernels else None
        if last and e["name"] in MESSAGES and last["name"] in MESSAGES and (e["ts"], e["dur"]) == (last["ts"], last["dur"]):
            kernels[-1].events.append(e)
        else:
            kernels.append(Kernel(e, e["ts"] + shift[e["args"]["step"]]))
    ended = []  # sorted
    for kernel in kernels:
        # A kernel did not wait for kernels that still run at its start.
        before = bisect.bisect_right(ended, kernel.start + CLOSE)
        kernel.ready = ended[before - 1] if before else 0.0
        bisect.insort(ended, kernel.end)
    return kernels


def _trim_ends(kernels):
    """Ends each computation at the begin of the next operation, if its end is stamped a little later."""
    for kernel, later in zip(kernels, kernels[1:]):
        if kernel.events[0]["name"] in COMPUTE and later.start < kernel.end < later.start + CLOSE:
            kernel.end = later.start


def _put_starts(kernels, dp, number):
    members = collections.defaultdict(list)
    for worker, own in enumerate(kernels):
        counts = collections.Counter()
        for kernel in own:
            for e in kernel.events:
                step, name = e["args"]["step"], e["name"]
                if name in GROUPED:
                    counts[step, name] += 1
                    members[number[GROUPED[name][0]][worker], name, step, counts[step, name]].append(kernel)
                elif name in MESSAGES:
                    operation, direction = MESSAGES[name]
                    counts[step, name] += 1
                    sender = worker if operation == "send" else worker + direction * dp
                    members[sender, name.split("-")[0], step, counts[step, name]].append(kernel)
    for same in members.values():
        last = max(kernel.ready for kernel in same)
        for kernel in same:
            # A kernel with two messages occurs twice, with the same partner. It is moved only once.
            if kernel.ready < last and kernel.start > last - CLOSE:
                kernel.start = max(kernel.ready, kernel.start - (last - kernel.ready))


def convert(events, sizes):
    """Returns the lines of the timeline. `sizes`: the job's metadata."""
    dp, pp, tp = (int(sizes[f"{kind}_size"]) for kind in ("dp", "pp", "tp"))
    rows = [e for e in events if e.get("ph") == "X" and e["dur"] > 0]
    workers = dp * pp
    stage = lambda worker: worker // dp
    groups = [("world", list(range(workers)))]
    number = {"world": [0] * workers, "dp": [-1] * workers, "embedding": [-1] * workers, "pp": [-1] * workers, "tp": [-1] * workers, "pair": [-1] * workers}

    def group(kind, key, members):
        groups.append((key, members))
        for member in members:
            number[kind][member] = len(groups) - 1

    for worker in range(workers):
        group("tp", f"tp.{worker}", [worker])  # a group of one rank
    for s in range(pp):
        group("dp", f"dp.{s}", [s * dp + d for d in range(dp)])
    for d in range(dp):
        group("embedding", f"embedding.{d}", [d, (pp - 1) * dp + d])
        group("pp", f"pp.{d}", [s * dp + d for s in range(pp)])
        for s in range(pp - 1):  # `pair` is found by its lower stage; the last stage of a replica begins no pair
            group("pair", f"pair.{d}.{s}", [(s + 1) * dp + d, s * dp + d])
    names = sorted({e["name"] for e in rows})
    out = ["lockstep-timeline 1", f"job bytedance-{sizes['trial_name']}", f"world {workers}", "note operation-level%20timeline%20by%20ByteDance"]
    out += ["host 0 -"] + [f"group {key} {key.split('.')[0]} {','.join(map(str, members))}" for key, members in groups]
    out += [f"name {name}" for name in names]

    span = {}
    for e in rows:
        begin, end = span.get(e["args"]["step"], (e["ts"], 0.0))
        span[e["args"]["step"]] = (min(begin, e["ts"]), max(end, e["ts"] + e["dur"]))
    shift, at = {}, 0.0
    for step in sorted(span):
        begin, end = span[step]
        shift[step] = at - begin
        at += end - begin
    ns = lambda us: round(us * 1000.0)

    kernels = [_kernels([e for e in rows if e["tid"] // THREADS // tp == worker], shift) for worker in range(workers)]
    for own in kernels:
        _trim_ends(own)
    _put_starts(kernels, dp, number)
    for worker in range(workers):
        out += [f"rank {worker} host=0 device={worker}", f"base {EPOCH}"]
        begin = 0.0
        for step in sorted(shift):
            end = max(k.end for k in kernels[worker] if k.events[0]["args"]["step"] == step)
            out.append(f"s {step} {ns(begin)} {ns(end) - ns(begin)}")
            begin = end
        counts = collections.Counter()
        for kernel in kernels[worker]:
            first = kernel.events[0]
            head = f"{first['tid'] % THREADS} {names.index(first['name'])} {ns(kernel.start)} {ns(kernel.end) - ns(kernel.start)}"
            if first["name"] in COMPUTE:
                out.append(f"k {head}")
            elif first["name"] in GROUPED:
                kind, operation = GROUPED[first["name"]]
                g = number[kind][worker]
                counts[g] += 1
                out.append(f"c {head} {g} {operation} seq={counts[g]}")
            else:
                operation, direction = MESSAGES[first["name"]]
                if len(kernel.events) == 1:
                    out.append(f"c {head} {number['pp'][worker]} {operation} peer={stage(worker) + direction}")
                else:  # send to and receive from the same worker in one kernel: both end only after both came
                    lower = worker if direction > 0 else worker - dp
                    out.append(f"c {head} {number['pair'][lower]} send_receive")
    return out + ["end"]


def main():
    timeline, meta, target = sys.argv[1:4]
    with gzip.open(timeline) as file:
        events = json.load(file)
    with open(meta) as file:
        sizes = meta_of(file.read())
    if sizes["vpp_size"] != "1":
        sys.exit(f"{meta}: only jobs without virtual stages")
    with open(target, "w") as file:
        file.write("\n".join(convert(events, sizes)) + "\n")


if __name__ == "__main__":
    main()
