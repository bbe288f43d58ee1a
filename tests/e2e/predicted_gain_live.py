"""Compares predicted gains with real ones, live on the simulated CUPTI. It captures a job with a fault
mid-run. `lockstep whatif` predicts its step with half of the fault removed and with all of it. Both jobs
then run with the same seed and are captured too."""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from live_job import LiveJob, report_of  # noqa: E402

# On a slow machine, ranks fall behind and their records come too late for the capture. All times are then
# stretched.
STRETCHED, SLOWEST = 4, 16
FEWEST_MATCHED = 0.95
FEWEST_STEPS = 10
KINDS = ("slow_gpu", "host_stall", "slow_link", "copy")
WORK = ROOT / "build" / "predict-job"


def plan(faults):
    """Returns the faults: each kind in turn, on changing ranks, with sizes evenly spread over 8 to 30 % of
    the step."""
    return [(KINDS[i % len(KINDS)], (i * 3 + i // len(KINDS)) % 8, round(0.08 + 0.22 * ((i * 5) % faults) / max(1, faults - 1), 3))
            for i in range(faults)]


def fix_of(kind, rank):
    """Returns the fix that removes the fault."""
    return f"{'link' if kind == 'slow_link' else 'rank'}={rank}"


class TooBusy(Exception):
    pass


def run_one(seed, kind, rank, size, folder, scale, bin_dir):
    """Runs and captures one job. Returns the duration of each step in ns, and the predicted gain in each
    step."""
    shutil.rmtree(folder, ignore_errors=True)
    rank_args = ["--forever", "--seed", seed, "--time-scale", scale, "--fault", kind if size > 0 else "none"]
    if size > 0:
        rank_args += ["--fault-rank", rank, "--fault-size", size]
    with LiveJob(bin_dir, folder, rank_args=rank_args) as job:
        job.wait_for_ranks()
        time.sleep(0.5 * scale)
        done = job.trace(folder / "capture", "--duration", f"{2 * scale}s")
        if done.returncode != 0:
            raise RuntimeError(f"trace ended with {done.returncode}: {done.stderr[-500:]}")
        report = report_of(folder / "capture")
        if (report["capture"]["matching"]["matched_fraction"] or 0) < FEWEST_MATCHED or report["capture"]["steps"] < FEWEST_STEPS:
            raise TooBusy()
        predicted = {}
        if size > 0:
            for part in (0.5, 1.0):
                answer = job.cli("whatif", folder / "capture", "--fix", fix_of(kind, rank), "--strength", part, "--format", "json")
                if answer.returncode != 0:
                    raise RuntimeError(f"whatif ended with {answer.returncode}: {answer.stderr[-500:]}")
                predicted[part] = dict(zip(lasted(report), json.loads(answer.stdout)["gain_ns_by_step"], strict=True))
    return lasted(report), predicted


def lasted(report):
    return {step["step"]: step["duration_ns"] for step in report["steps"]}


def median_over(steps, by_step):
    return statistics.median(by_step(step) for step in steps)


def predict_one(number, kind, rank, size, scale, bin_dir):
    seed = 2000 + number
    faulty, predicted = run_one(seed, kind, rank, size, WORK / "fault", scale, bin_dir)
    half, _ = run_one(seed, kind, rank, size / 2, WORK / "half", scale, bin_dir)
    healthy, _ = run_one(seed, kind, rank, 0, WORK / "healthy", scale, bin_dir)
    rows = []
    for part, fixed in ((0.5, half), (1.0, healthy)):
        # Hosts pause in the same steps of all three jobs, so that only common steps are compared. The median
        # removes pauses of the real machine.
        both = sorted(faulty.keys() & fixed.keys())
        if len(both) < FEWEST_STEPS:
            raise TooBusy()
        step = median_over(both, faulty.__getitem__)
        truth = median_over(both, lambda k: faulty[k] - fixed[k])
        gain = median_over(both, predicted[part].__getitem__)
        rows.append({"kind": kind, "rank": rank, "size": size, "removed": part, "steps": len(both), "step_ns": step, "predicted_ns": gain,
                     "true_ns": truth, "error": gain / truth - 1})
    return rows


def main():
    parser = argparse.ArgumentParser(prog="./dev eval", description=__doc__)
    parser.add_argument("--predict", action="store_true", help="run these jobs")
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--time-scale", type=int, default=1, help="everything takes this many times as long, for slow machines (%(default)s)")
    parser.add_argument("--bin", default=str(ROOT / "build" / "bin"), metavar="DIR", help="the programs (%(default)s)")
    parser.add_argument("-o", metavar="FILE", help="results as JSON")
    args = parser.parse_args()

    rows = []
    print("fault        rank   size    step ms  removed   predicted ms   true ms    error", flush=True)
    for number, (kind, rank, size) in enumerate(plan(args.faults)):
        while True:
            try:
                found = predict_one(number, kind, rank, size, args.time_scale, args.bin)
                break
            except TooBusy:
                if args.time_scale >= SLOWEST:
                    sys.exit("this machine is too busy for jobs of eight ranks: captures lack what the ranks wrote too late")
                args.time_scale *= STRETCHED
                print(f"this machine is too busy for the ranks' pace: from here on everything takes {args.time_scale} times as long", file=sys.stderr)
        for row in found:
            rows.append(row)
            print(f"{kind:11}  {rank:4}  {size * 100:4.1f} %  {row['step_ns'] / 1e6:9.2f}  {row['removed'] * 100:4.0f} %    "
                  f"{row['predicted_ns'] / 1e6:12.2f}  {row['true_ns'] / 1e6:8.2f}  {row['error'] * 100:+6.1f} %", flush=True)
    errors = sorted(abs(r["error"]) for r in rows)
    print(f"error of the predicted gain over {len(errors)} predictions: median {statistics.median(errors) * 100:.1f} %, "
          f"p90 {errors[int(0.9 * (len(errors) - 1))] * 100:.1f} %, worst {errors[-1] * 100:.1f} %")
    if args.o:
        pathlib.Path(args.o).write_text(json.dumps(rows, indent=1) + "\n")
    # The required accuracy is a median of 3 % and a p90 of 8 %.
    sys.exit(0 if statistics.median(errors) <= 0.03 and errors[int(0.9 * (len(errors) - 1))] <= 0.08 else 1)


if __name__ == "__main__":
    main()
