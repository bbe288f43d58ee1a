#!/usr/bin/env python3
"""Writes one job's timeline and a file with its truth."""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from faults import KINDS  # noqa: E402
from job import SHAPES, Job, draw  # noqa: E402
from nuisance import Clocks, missing_ranks  # noqa: E402
from timeline import Writer, true_collectives  # noqa: E402

TRUTH = "lockstep.scenario_truth/1"


def mean(values):
    return sum(values) / len(values)


def generate(path, seed, topology="hybrid", ranks=8, steps=10, noise=0.01, faults=(), fine=None, clock_ms=0.0, drift_ppm=0.0, clock_step_ms=0.0,
             loss=0.0, missing=0.0, metadata="nccl", collectives=False, parameters=None):
    """Writes `path` and `path`.truth.json, and returns the truth. `faults`: [(kind, size, place, span)].
    Times of the truth are on one true clock that begins with the job. A host's stamp is EPOCH + true time
    + its clock's error."""
    drawn = draw(seed, topology, ranks, steps, noise, fine)
    drawn.update(parameters or {})
    if drawn.get("host_bound"):
        drawn["think"] = drawn["host_bound_think"]
    if "input_factor" in drawn:
        drawn["input_bytes"] = int(drawn["input_bytes"] * drawn["input_factor"])
    job = Job(drawn, list(faults))
    healthy = job.run(()) if faults else None
    without = []  # step times with one fault removed each
    if len(faults) > 1:
        without = [job.run([j for j in range(len(faults)) if j != i]).step_ns for i in range(len(faults))]
    result = job.run()
    base = healthy.step_ns if healthy else result.step_ns
    clocks = Clocks(seed, job.layout.hosts, clock_ms, drift_ppm, result.ends[-1], clock_step_ms)
    absent = missing_ranks(seed, ranks, missing)
    writer = Writer(result, clocks, metadata, drawn["fine"], loss, absent, seed)
    writer.write(path)
    for fault in result.faults:
        # The range of the data loader is the only evidence of it, and coarse jobs have none.
        if fault["kind"] == "loader" and not drawn["fine"]:
            fault["cause"] = "host_pause"
    numbers = list(range(drawn["first_step"] + 1, drawn["first_step"] + steps + 1))
    truth = {"schema": TRUTH, "seed": seed, "parameters": drawn, "metadata": metadata, "record_loss": loss, "missing_ranks": absent,
             "hosts": [job.layout.ranks_of_host(h) for h in range(job.layout.hosts)] if ranks <= 1024 else [],
             "faults": result.faults, "steps": numbers, "step_ns": result.step_ns, "healthy_step_ns": base,
             "lost_ns_per_step": mean(result.step_ns) - mean(base),
             "gain_ns": [[a - b for a, b in zip(result.step_ns, w)] for w in without] if without else
             [[a - b for a, b in zip(result.step_ns, base)]] * len(faults),
             "clocks": clocks.describe(), "window_true_ns": [writer.window, result.ends[-1]], "records_lost": writer.loss.lost}
    if collectives:
        truth["collectives"] = true_collectives(writer)
        truth["collective_sizes"] = {c.number: c.size for c in job.collectives.all}
    pathlib.Path(str(path) + ".truth.json").write_text(json.dumps(truth) + "\n")
    return truth


def fault_of(text):
    """Parses KIND[:SIZE[:PLACE[:SPAN]]]."""
    parts = text.split(":")
    if parts[0] not in KINDS:
        raise argparse.ArgumentTypeError(f"no fault {parts[0]}; there are {', '.join(KINDS)}")
    parts += [""] * (4 - len(parts))
    return (parts[0], float(parts[1]) if parts[1] else None, int(parts[2]) if parts[2] else None, parts[3] or "whole")


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog="faults: " + ", ".join(KINDS))
    parser.add_argument("-o", metavar="FILE", required=True, help="the timeline; .gz compresses it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--topology", choices=SHAPES, default="hybrid")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--noise", type=float, default=0.01, help="relative, of one operation (%(default)s)")
    parser.add_argument("--fault", type=fault_of, action="append", default=[], metavar="KIND[:SIZE[:PLACE[:SPAN]]]", help="SPAN: whole, episode, intermittent")
    parser.add_argument("--clock-ms", type=float, default=0.0)
    parser.add_argument("--drift-ppm", type=float, default=0.0)
    parser.add_argument("--clock-step-ms", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0, help="share of the records")
    parser.add_argument("--missing", type=float, default=0.0, help="share of the ranks")
    parser.add_argument("--metadata", choices=("nccl", "seq", "group", "none"), default="nccl")
    parser.add_argument("--collectives", action="store_true", help="true waits and matches into the truth as well")
    args = parser.parse_args()
    if args.ranks not in SHAPES[args.topology]:
        parser.error(f"{args.topology} has shapes for {', '.join(map(str, SHAPES[args.topology]))} ranks")
    truth = generate(args.o, args.seed, args.topology, args.ranks, args.steps, args.noise, args.fault, None, args.clock_ms, args.drift_ppm,
                     args.clock_step_ms, args.loss, args.missing, args.metadata, args.collectives)
    for fault in truth["faults"]:
        print(f"{fault['kind']} {fault['size']} on {fault['level']} {str(fault['ranks'])[:40]}: {truth['lost_ns_per_step'] / 1e6:.3f} ms per step of "
              f"{mean(truth['healthy_step_ns']) / 1e6:.3f}", file=sys.stderr)


if __name__ == "__main__":
    main()
