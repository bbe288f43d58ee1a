#!/usr/bin/env python3
"""ByteDance's public job timeline (StragglerAnalysis, Chrome events of operations) as a timeline of the product.

    bytedance.py timeline-ST.json.gz meta-ST.yaml OUT.timeline

Eight workers in two replicas of four stages. A worker's threads come in fives: compute, pipeline, tensor, data, other. Their list holds
sampled steps with what lay between them left out but for a gap; here a step begins where the one before it ended."""
import collections
import gzip
import json
import sys

EPOCH = 1_700_000_000_000_000_000
COMPUTE = ("forward-compute", "backward-compute", "optimizer", "layernorm-grads-all-reduce")  # one tensor rank: nobody to reduce with
GROUPED = {"params-all-gather": ("dp", "all_gather"), "grads-reduce-scatter": ("dp", "reduce_scatter"),
           "embedding-grads-all-reduce": ("embedding", "all_reduce"), "optimizer-clip-main-grad": ("world", "all_reduce")}
MESSAGES = {"forward-send": ("send", 1), "forward-recv": ("receive", -1), "backward-send": ("send", -1), "backward-recv": ("receive", 1)}
THREADS = 5


def meta_of(text):
    return {key.strip(): value.strip() for key, value in (line.split(":", 1) for line in text.splitlines() if ":" in line)}


def convert(events, dp, pp):
    """The lines of the timeline."""
    rows = [e for e in events if e.get("ph") == "X" and e["dur"] > 0]
    workers = dp * pp
    stage = lambda worker: worker // dp
    groups = [("world", list(range(workers)))]
    number = {"world": [0] * workers, "dp": [-1] * workers, "embedding": [-1] * workers, "pp": [-1] * workers}

    def group(kind, key, members):
        groups.append((key, members))
        for member in members:
            number[kind][member] = len(groups) - 1

    for s in range(pp):
        group("dp", f"dp.{s}", [s * dp + d for d in range(dp)])
    for d in range(dp):
        group("embedding", f"embedding.{d}", [d, (pp - 1) * dp + d])
        group("pp", f"pp.{d}", [s * dp + d for s in range(pp)])
    names = sorted({e["name"] for e in rows})
    out = ["lockstep-timeline 1", "job bytedance-ST", f"world {workers}", "note operation-level%20timeline%20by%20ByteDance"]
    out += ["host cluster"] + [f"group {key} {key.split('.')[0]} {','.join(map(str, members))}" for key, members in groups]
    out += [f"name {name}" for name in names]

    span = {}
    for e in rows:
        begin, end = span.get(e["args"]["step"], (e["ts"], 0.0))
        span[e["args"]["step"]] = (min(begin, e["ts"]), max(end, e["ts"] + e["dur"]))
    shift, at = {}, 0.0
    for step in sorted(span):
        begin, end = span[step]
        shift[step] = (at - begin, at, at + end - begin)
        at += end - begin
    ns = lambda us: round(us * 1000.0)

    for worker in range(workers):
        out += [f"rank {worker} host=0 device={worker}", f"base {EPOCH}"]
        out += [f"s {step} {ns(begin)} {ns(end) - ns(begin)}" for step, (_, begin, end) in sorted(shift.items())]
        own = sorted((e for e in rows if e["tid"] // THREADS == worker), key=lambda e: (e["ts"], e["tid"]))
        counts = collections.Counter()
        above = None  # a message kernel that may hold a second message
        for e in own:
            begin = e["ts"] + shift[e["args"]["step"]][0]
            start, duration = ns(begin), ns(begin + e["dur"]) - ns(begin)
            head = f"{e['tid'] % THREADS} {names.index(e['name'])} {start} {duration}"
            if e["name"] in COMPUTE:
                out.append(f"k {head}")
            elif e["name"] in GROUPED:
                kind, operation = GROUPED[e["name"]]
                g = number[kind][worker]
                counts[g] += 1
                out.append(f"c {head} {g} {operation} seq={counts[g]}")
            elif e["name"] in MESSAGES:
                operation, direction = MESSAGES[e["name"]]
                peer = stage(worker) + direction
                what = f"{number['pp'][worker]} {operation} peer={peer}"
                # Grouped: one kernel, listed once for each of its two messages.
                out.append(f"+ {what}" if above == (e["tid"], e["ts"], e["dur"]) else f"c {head} {what}")
                above = (e["tid"], e["ts"], e["dur"])
                continue
            above = None
    return out + ["end"]


def main():
    timeline, meta, target = sys.argv[1:4]
    with gzip.open(timeline) as file:
        events = json.load(file)
    with open(meta) as file:
        sizes = meta_of(file.read())
    if sizes["tp_size"] != "1" or sizes["vpp_size"] != "1":
        sys.exit(f"{meta}: only jobs without tensor parallelism and virtual stages")
    with open(target, "w") as file:
        file.write("\n".join(convert(events, int(sizes["dp_size"]), int(sizes["pp_size"]))) + "\n")


if __name__ == "__main__":
    main()
