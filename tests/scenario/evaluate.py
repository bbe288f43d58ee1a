#!/usr/bin/env python3
"""Measures how often the report is right. It generates jobs with a known truth, analyses them with `lockstep
analyze`, and compares. It prints the table of docs/evaluation.md: measured value, floor and aim of each
metric."""
import argparse
import collections
import concurrent.futures
import gc
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import plan  # noqa: E402
import score  # noqa: E402
import table  # noqa: E402
from generate import generate  # noqa: E402

# Number of jobs in each group for --jobs 200.
GROUPS = {"small": 190, "thousand": 24, "healthy": 250, "pairs": 200, "two": 60, "clocks": 40, "matching": 40, "links": 40, "speed": 1}


def jobs_of(group, seed, jobs, large):
    count = max(1, round(GROUPS[group] * jobs / 200))
    if group == "speed":
        return list(plan.speed(seed, large))
    if group == "thousand":
        return list(plan.thousand(seed, count)) + (list(plan.thousand(seed, max(1, count // 12), 10000)) if large else [])
    return list(getattr(plan, group)(seed, count))


def _program(binaries, name):
    path = pathlib.Path(binaries) / name
    if not path.exists():
        sys.exit(f"{path} is missing; build it first")
    return str(path)


def run_job(group, number, job, binaries, folder, keep):
    """Generates, analyses and scores one job. It runs in its own process."""
    path = pathlib.Path(folder) / f"{group}-{number:04}.timeline"
    job = dict(job)
    timed = job.pop("timed", False)
    begun = time.monotonic()
    gc.disable()  # a job has millions of objects, which all live until its end
    truth = generate(path, **job)
    gc.enable()
    gc.collect()
    generated = time.monotonic() - begun
    begun = time.monotonic()
    done = subprocess.run([_program(binaries, "lockstep"), "analyze", str(path), "--format", "json"], capture_output=True, text=True, timeout=900)
    out = {"group": group, "number": number, "topology": job["topology"], "ranks": job["ranks"], "noise": job["noise"], "seed": job["seed"],
           "faults": [(f["kind"], f["size"], f["span"], f["level"]) for f in truth["faults"]], "metadata": job["metadata"], "loss": job["loss"],
           "clock_ms": job.get("clock_ms", 0.0), "stepped": bool(job.get("clock_step_ms")), "generate_s": generated, "analyze_s": time.monotonic() - begun,
           "failed": None}
    if done.returncode not in (0, 7):
        out["failed"] = done.stderr.strip()[-300:] or f"exit code {done.returncode}"
        return out
    report = json.loads(done.stdout)
    out.update(score.verdict(report, truth))
    out["links_not_judged"] = any("links" in row["what"] for row in report["not_judged"]) and not report["verdict"].startswith("HEALTHY")
    out["first"] = [(e["kind"], e["cause"], e["ranks"][:8], e["verdict"], round(e["gain_ns_per_step"])) for e in report["stragglers"][:3]]
    out["broken_bounds"], out["bounds"], out["clock_error"], stated = score.clock_violations(report, truth)
    out["bound"] = max(stated) if stated else None
    out["matched_fraction"] = report["capture"]["matching"]["matched_fraction"]
    if job.get("collectives"):
        listing = subprocess.run([_program(binaries, "list_collectives"), str(path)], capture_output=True, text=True, timeout=900)
        if listing.returncode:
            out["failed"] = listing.stderr.strip()[-300:]
            return out
        out.update(score.collectives(listing.stdout, truth))
    if timed:
        times = subprocess.run([_program(binaries, "list_collectives"), "--times", str(path)], capture_output=True, text=True, timeout=900)
        out.update({line.split()[0]: float(line.split()[1]) for line in times.stdout.splitlines()})
        out["steps"] = job["steps"]
    if not keep:
        path.unlink()
        path.with_name(path.name + ".truth.json").unlink()
    return out


def _line(result):
    faults = ", ".join(f"{kind} {size:g} {span}" for kind, size, span, _ in result["faults"]) or "none"
    what = f"{result['group']:9} {result['number']:3} {result['topology']:11} {result['ranks']:5} ranks  {faults}"
    if result["failed"]:
        return f"{what}: FAILED: {result['failed']}"
    predicted = "; ".join(f"{kind} {cause} {ranks} {verdict}" for kind, cause, ranks, verdict, _ in result["first"][:1]) or "none"
    mark = "" if result["right_place"] is None else ("ok  " if result["right_place"] and result["right_cause"] else "place " if result["right_place"] else "MISS ")
    return f"{what} ({result['effect'] * 100:.1f} %): {mark}{predicted}"


def evaluate(groups, seed, jobs, binaries, folder, keep=False, large=False, workers=2, progress=True):
    """Returns the result of every job of these groups, in their order."""
    results = []
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        waiting = []
        for group in groups:
            # Speed is measured later, with no other job running.
            if group != "speed":
                waiting += [pool.submit(run_job, group, n, job, binaries, folder, keep) for n, job in enumerate(jobs_of(group, seed, jobs, large))]
        for future in waiting:
            results.append(future.result())
            if progress:
                print(f"[{len(results)}/{len(waiting)}] {_line(results[-1])}", file=sys.stderr, flush=True)
    if "speed" in groups:
        for n, job in enumerate(jobs_of("speed", seed, jobs, large)):
            results.append(run_job("speed", n, job, binaries, folder, keep))
            if progress:
                print(_line(results[-1]), file=sys.stderr, flush=True)
    return results


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(prog="./dev eval", description=__doc__, epilog="./dev eval --live --help, ./dev eval --predict --help: jobs on the simulated CUPTI instead")
    parser.add_argument("--jobs", type=int, default=200, help="how many; the groups keep their shares (%(default)s)")
    parser.add_argument("--seed", type=int, help="of everything drawn; without it a new one, which is printed")
    parser.add_argument("--only", choices=GROUPS, action="append", metavar="GROUP", help="one group: " + ", ".join(GROUPS))
    parser.add_argument("--large", action="store_true", help="also jobs of 10,000 ranks")
    parser.add_argument("--keep", metavar="DIR", help="leave timelines and truths there")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--binaries", default=str(root / "build" / "bin"), help=argparse.SUPPRESS)
    parser.add_argument("-o", metavar="FILE", help="results as JSON")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else int.from_bytes(os.urandom(3), "big")
    print(f"seed {seed}, {args.jobs} jobs", flush=True)
    folder = args.keep or tempfile.mkdtemp(prefix="lockstep-eval-")
    os.makedirs(folder, exist_ok=True)
    try:
        results = evaluate(args.only or list(GROUPS), seed, args.jobs, args.binaries, folder, bool(args.keep), args.large, args.workers)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    if args.o:
        pathlib.Path(args.o).write_text(json.dumps({"seed": seed, "jobs": args.jobs, "results": results}, indent=1) + "\n")
    print(table.table(results))
    failures = collections.Counter(r["failed"] for r in results if r["failed"])
    for text, count in failures.items():
        print(f"{count} jobs could not be analysed: {text}")
    sys.exit(1 if failures or not table.floors_hold(results) else 0)


if __name__ == "__main__":
    main()
