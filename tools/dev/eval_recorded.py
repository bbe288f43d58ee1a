"""Measures how often the report is right on recorded jobs that are perturbed, live. Each recording is exported
to a scenario, which simulated ranks repeat, with and without a fault. So the mix of kernels, their overlap
and their differences from step to step are real. The job is captured while it runs, and the report is
compared with the same scenario without the fault.

A recording may have a straggler of its own. It is captured once without a fault, and what the report says
then counts as right in later captures too.

If all ranks share one communicator, no record can place a slow link. As with generated jobs, such a fault is
not scored as one of a rank. The report must then say that links were not judged, and blame nobody."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tests" / "scenario"))
from live_job import LiveJob, report_of, truths_of  # noqa: E402
from table import quantile, quantile_interval, share_interval  # noqa: E402
from verdict import CAUSES  # noqa: E402

KINDS = ("slow_gpu", "host_stall", "slow_link", "copy")
SIZES = (0.1, 0.3)
RECORDINGS = ROOT.parent / "shared" / "traces"
# Recordings of several ranks. Of two ranks that differ, no figure shows which one is slow, so recordings of
# two ranks are not here.
NAMES = ("param_dlrm_8rank", "independent_jobs/a_healthy_pp4", "independent_jobs/d_healthy_touching", "independent_jobs/h_healthy_interleaved",
         "independent_jobs/l_fsdp_contention", "independent_jobs/o_input_bound")
BELIEVED = ("sure", "likely")
# An effect below this share of the step is not scored.
VISIBLE = 0.03
TRIES = 4


def export(binaries, recording, target):
    done = subprocess.run([binaries / "lockstep", "export", recording, "--format", "scenario", "--force", "-o", target], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{recording} cannot be exported: {done.stderr.strip()}")
    # A loop begins each turn at a time of its own. A healthy job would wait for that time, which is in no
    # record, and a fault would not cost that much.
    target.write_text(re.sub(r"^pacing loop \d+$", "pacing chain", target.read_text(), count=1, flags=re.MULTILINE))


def one_communicator(scenario):
    """Returns whether all communication of the scenario is among the same ranks."""
    return len(set(re.findall(r"^group .*(members=\S+)$", scenario.read_text(), flags=re.MULTILINE))) == 1


def ranks_of(binaries, recording):
    done = subprocess.run([binaries / "lockstep", "analyze", recording, "--format", "json"], capture_output=True, text=True, check=True)
    return len(json.loads(done.stdout)["ranks"])


def steps_of(scenario):
    """Returns the number of steps in a turn of the scenario: a step's name is ProfilerStep#{step:STEPS:INDEX}."""
    counts = re.findall(r"\{step:(\d+):\d+\}", scenario.read_text())
    return int(counts[0]) if counts else 1


def run(binaries, scenario, ranks, work, fault, duration, scale):
    """Returns the report and the truth. `fault`: kind, rank and size, or None. All durations of the job are
    `scale` times as long, because recorded jobs do more than a small machine can simulate in time."""
    shutil.rmtree(work, ignore_errors=True)
    args = ["--scenario", scenario, "--forever", "--hold-when-late", "1000s", "--time-scale", scale]
    if fault:
        args += ["--fault", fault[0], "--fault-rank", fault[1], "--fault-size", fault[2]]
    with LiveJob(binaries, work, ranks=ranks, rank_args=args) as job:
        job.wait_for_ranks()
        done = job.trace(work / "capture", "--duration", duration)
        if done.returncode != 0:
            raise RuntimeError(f"trace ended with {done.returncode}: {done.stderr[-500:]}")
    return report_of(work / "capture"), truths_of(job.truth)[0]


def capture(*arguments):
    """Returns report, truth, and how often it was repeated. A machine that is too busy runs the ranks behind
    time, and a capture then holds few records."""
    for repeats in range(TRIES):
        report, truth = run(*arguments)
        if report["slowdown"]["step_ns"] is not None:
            return report, truth, repeats
    raise RuntimeError(f"{TRIES} captures hold no whole steps: this machine is too busy")


def place(entry):
    return (entry["kind"], tuple(sorted(entry["ranks"])))


def score(report, truth, fault, known, steps, placed=True):
    """`known`: places of the entries without a fault. `steps`: number of steps in a turn of the scenario.
    `placed`: whether a record can tell where the fault is."""
    entries = [e for e in report["stragglers"] if e["verdict"] in BELIEVED]
    out = {"fault": fault, "load": os.getloadavg()[0], "step_ns": report["slowdown"]["step_ns"], "entries": [(e["kind"], e["ranks"][:8], e["cause"], e["verdict"]) for e in entries[:3]]}
    new = [e for e in entries if place(e) not in known or (fault and e["ranks"] == [fault[1]])]
    if not fault:
        return {**out, "blamed": bool(new)}
    lost = truth["lost_ns_per_step"] / steps
    of_rank = [e for e in new if e["ranks"] == [fault[1]]]
    # A recording's rank may have an entry for its own slowness besides the one for the fault.
    own = next((e for e in of_rank if e["cause"] in CAUSES[fault[0]]), of_rank[0] if of_rank else None)
    first = new[0] if new else None
    silent = any(n["what"].split()[0] in ("links", "everything") for n in report["not_judged"]) and not [e for e in new if place(e) not in known]
    return {**out, "effect": lost / (out["step_ns"] - lost), "placed": placed, "silent": silent, "rank": first is not None and first["ranks"] == [fault[1]],
            "cause": own is not None and own["cause"] in CAUSES[fault[0]], "named": first is not None,
            "error": abs(own["gain_ns_per_step"] / lost - 1) if own and lost else None}


def text(name, row):
    fault = row["fault"]
    what = f"{fault[0]} on rank {fault[1]}, size {fault[2]}" if fault else "no fault"
    said = "; ".join(f"{kind} {ranks} {cause} {verdict}" for kind, ranks, cause, verdict in row["entries"][:2]) or "nothing"
    if not fault:
        return f"{'BAD ' if row['blamed'] else 'ok  '} {name}: {what}: {said}"
    if row["effect"] >= VISIBLE and not row["placed"]:
        return f"{'ok  ' if row['silent'] else 'BAD '} {name}: {what} ({row['effect'] * 100:.1f} %), which no record can place: {said}"
    state = "-   " if row["effect"] < VISIBLE else "ok  " if row["rank"] and row["cause"] else "MISS" if not row["rank"] else "cause"
    error = f"; gain off by {row['error'] * 100:.1f} %" if row["error"] is not None else ""
    return f"{state} {name}: {what} ({row['effect'] * 100:.1f} %): {said}{error}"


def shown(name, values):
    if not values:
        return f"{name:52}        -"
    low, high = share_interval(values)
    return f"{name:52} {sum(values) / len(values):8.3f}  {low:.3f}..{high:.3f}  n {len(values)}"


def main():
    parser = argparse.ArgumentParser(prog="./dev eval --recorded", description=__doc__)
    parser.add_argument("--recorded", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--recordings", metavar="DIR", type=pathlib.Path, default=RECORDINGS, help="folder with the recordings (%(default)s)")
    parser.add_argument("--only", action="append", metavar="NAME", help="one recording: " + ", ".join(NAMES))
    parser.add_argument("--healthy", type=int, default=3, help="captures without a fault of each recording, besides the first one (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the ranks with a fault (%(default)s)")
    parser.add_argument("--duration", default="6s", help="of each capture (%(default)s)")
    parser.add_argument("--time-scale", type=int, default=4, help="factor on all durations of the jobs (%(default)s)")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build" / "bin", help=argparse.SUPPRESS)
    parser.add_argument("-o", metavar="FILE", help="results as JSON")
    args = parser.parse_args()
    names = [n for n in args.only or NAMES if (args.recordings / n).exists()]
    if not names:
        sys.exit(f"{args.recordings} has none of the recordings; --recordings names another folder")
    draw, rows = random.Random(args.seed), []
    with tempfile.TemporaryDirectory(prefix="lockstep-recorded-") as folder:
        work = pathlib.Path(folder)
        for name in names:
            recording, scenario = args.recordings / name, work / "job.scenario"
            export(args.binaries, recording, scenario)
            ranks = ranks_of(args.binaries, recording)
            faults = [(kind, draw.randrange(ranks), size) for kind in KINDS for size in SIZES] + [None] * args.healthy
            first, _, _ = capture(args.binaries, scenario, ranks, work / "job", None, args.duration, args.time_scale)
            known = {place(e) for e in first["stragglers"]}
            for fault in faults:
                report, truth, repeats = capture(args.binaries, scenario, ranks, work / "job", fault, args.duration, args.time_scale)
                placed = not (fault and fault[0] == "slow_link" and one_communicator(scenario))
                rows.append({"recording": name, "ranks": ranks, "repeats": repeats, **score(report, truth, fault, known, steps_of(scenario), placed)})
                print(text(name, rows[-1]), flush=True)
    loads = [r["load"] for r in rows]
    visible = [r for r in rows if r["fault"] and r["effect"] >= VISIBLE]
    faulty = [r for r in visible if r["placed"]]
    print(f"\n{len(rows)} captures of {len(names)} recordings, {sum(r['repeats'] for r in rows)} repeated; load of the machine {min(loads):.1f} to {max(loads):.1f}")
    print(shown("rank named first, effect >= 3 % of the step", [r["rank"] for r in faulty]))
    print(shown("cause right, effect >= 3 % of the step", [r["cause"] for r in faulty]))
    print(shown("captures without a fault in which a rank is blamed", [r["blamed"] for r in rows if not r["fault"]]))
    print(shown("slow links that no record can place: said so", [r["silent"] for r in visible if not r["placed"]]))
    errors = [r["error"] for r in faulty if r["error"] is not None]
    for q, label in ((0.5, "median"), (0.9, "p90")):
        if errors:
            interval = quantile_interval(errors, q)
            between = f"{interval[0]:.3f}..{interval[1]:.3f}" if interval and None not in interval else "too few for an interval"
            print(f"{'predicted gain, relative error, ' + label:52} {quantile(errors, q):8.3f}  {between}  n {len(errors)}")
    if args.o:
        pathlib.Path(args.o).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
