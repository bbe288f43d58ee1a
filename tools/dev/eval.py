"""Measures how often the report is right, live. Each job has eight simulated ranks and is captured mid-job.
Its result is compared with the same seed without the fault. 30 jobs have faults of all kinds, on all
ranks, with sizes of 5 to 30 % of the step. 10 jobs are healthy."""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from live_job import LiveJob, report_of, truths_of  # noqa: E402
from verdict import gain_error, injected_text, reported_text, right_cause, right_rank  # noqa: E402

KINDS = ("slow_gpu", "host_stall", "slow_link", "copy")


def plan(faults, healthy):
    """Returns jobs with every kind and every rank. The sizes are evenly spread over 5 to 30 %."""
    jobs = []
    for i in range(faults):
        size = 0.05 + 0.25 * ((i * 7) % faults) / max(1, faults - 1)
        jobs.append((KINDS[i % len(KINDS)], (i * 3 + i // len(KINDS)) % 8, round(size, 3)))
    jobs += [("none", 0, 0.0)] * healthy
    return jobs


def run_one(number, kind, rank, size, work, duration):
    shutil.rmtree(work, ignore_errors=True)
    rank_args = ["--forever", "--seed", 1000 + number, "--fault", kind]
    if kind != "none":
        rank_args += ["--fault-rank", rank, "--fault-size", size]
    with LiveJob(ROOT / "build" / "bin", work, rank_args=rank_args) as job:
        job.wait_for_ranks()
        time.sleep(0.5)
        done = job.trace(work / "capture", "--duration", duration)
        if done.returncode != 0:
            raise RuntimeError(f"trace ended with {done.returncode}: {done.stderr[-500:]}")
    return report_of(work / "capture"), truths_of(job.truth)[0]


def main():
    parser = argparse.ArgumentParser(prog="./dev eval", description=__doc__)
    parser.add_argument("--live", action="store_true", help="run the jobs (without it, ./dev eval scores generated timelines)")
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--healthy", type=int, default=10)
    parser.add_argument("--duration", default="2s", help="of each capture (%(default)s)")
    parser.add_argument("-o", metavar="FILE", help="results as JSON")
    args = parser.parse_args()
    if not args.live:
        parser.error("say --live")

    rows, errors = [], []
    for number, (kind, rank, size) in enumerate(plan(args.faults, args.healthy)):
        report, truth = run_one(number, kind, rank, size, ROOT / "build" / "eval-job", args.duration)
        ok, cause, error = right_rank(report, truth), right_cause(report, truth), gain_error(report, truth)
        if error is not None:
            errors.append(abs(error))
        rows.append({"kind": kind, "rank": rank, "size": size, "right_rank": ok, "right_cause": cause, "gain_error": error,
                     "truth_ns": truth["lost_ns_per_step"], "injected": injected_text(truth), "reported": reported_text(report)})
        print(f"{number + 1:3}  {'ok  ' if ok else 'MISS'} {'' if cause else '(cause) '}injected {injected_text(truth)}; "
              f"reported {reported_text(report)}" + (f"; error {error * 100:+.1f} %" if error is not None else ""), flush=True)

    faulty = [r for r in rows if r["kind"] != "none"]
    healthy = [r for r in rows if r["kind"] == "none"]
    print(f"right rank {sum(r['right_rank'] for r in faulty)} of {len(faulty)}, right cause "
          f"{sum(r['right_cause'] for r in faulty)} of {len(faulty)}, healthy jobs blamed "
          f"{sum(not r['right_rank'] for r in healthy)} of {len(healthy)}")
    if errors:
        print(f"error of the culprit's ms per step: median {statistics.median(errors) * 100:.1f} %, worst {max(errors) * 100:.1f} %")
    if args.o:
        pathlib.Path(args.o).write_text(json.dumps(rows, indent=1) + "\n")
    good = all(r["right_rank"] for r in rows) and all(e <= 0.15 for e in errors) and len(errors) == len(faulty)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
