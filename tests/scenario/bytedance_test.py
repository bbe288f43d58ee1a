#!/usr/bin/env python3
"""Compares Lockstep's results for two of ByteDance's public job timelines with the published what-if results.
It needs ../shared beside the repository.

    bytedance_test.py FOLDER_OF_PROGRAMS"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from bytedance import convert, meta_of  # noqa: E402

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"


def check(good, what):
    if not good:
        raise SystemExit(f"bytedance: {what}")


def run(command, path, *options):
    program = pathlib.Path(sys.argv[1]) / "lockstep"
    done = subprocess.run([program, command, path, *options, "--format", "json"], capture_output=True, text=True)
    check(done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def part_of_the_way_to_their_mean(events, dp, pp):
    """Returns the strength of a fix that equals ByteDance's ideal. Their ideal gives each operation the mean
    of all stages, including the last one. Lockstep's gives it the median of the other stages."""
    compute = [0.0] * pp
    for e in events:
        if e.get("ph") == "X" and e["name"] in ("forward-compute", "backward-compute"):
            compute[e["tid"] // 5 // dp] += e["dur"]
    others = sorted(compute[:-1])
    return (compute[-1] - sum(compute) / pp) / (compute[-1] - others[len(others) // 2])


class Published:
    """One of the jobs, with ByteDance's results."""

    def __init__(self, folder, name):
        read = lambda kind: json.loads((folder / f"{kind}-{name}.json").read_text())
        self.sizes = meta_of((folder / f"meta-{name}.yaml").read_text())
        self.events = json.loads(gzip.decompress((folder / f"timeline-{name}.json.gz").read_bytes()))
        self.result, self.stage, self.worker = read("result"), read("ms"), read("mw")
        self.dp, self.pp = int(self.sizes["dp_size"]), int(self.sizes["pp_size"])
        # Gains, in seconds per step, of the last stage and of the worst worker.
        self.stage_gain, self.worker_gain = (f["tori"] - f["trem"] for f in (self.stage, self.worker))

    def write(self, path):
        path.write_text("\n".join(convert(self.events, self.sizes)) + "\n")

    def check_steps(self, report):
        """Their list lacks the time between the last operation of a step and the first of the next one (0.1
        ms)."""
        ours = {s["step"]: s["duration_ns"] / 1e9 for s in report["steps"]}
        base = {int(k): v for k, v in self.result["step_t_base"].items()}
        check(len(ours) >= len(base) - 1, f"{len(ours)} of their {len(base)} steps are used")
        worst = max(abs(seconds / base[step] - 1.0) for step, seconds in ours.items())
        slow = report["slowdown"]
        print(f"{self.sizes['trial_name']}: step {slow['step_ns'] / 1e9:.4f} s, worst step off by {worst:.1e}; S {slow['ratio']:.4f} "
              f"(theirs {self.result['blocking_slowdown']:.4f}); matched {report['capture']['matching']['matched_fraction']:.4f}")
        check(worst < 3e-4, f"a step's time differs by {worst:.1e}")

    def print_entries(self, report):
        for entry in report["stragglers"]:
            print(f"  {entry['kind']} {entry['ranks']} {entry['cause']} {entry['verdict']}: {entry['gain_ns_per_step'] / 1e6:.1f} ms per step")


def check_slow_stage(job, path):
    job.write(path)
    report = run("analyze", path)
    strength = part_of_the_way_to_their_mean(job.events, job.dp, job.pp)
    last_stage = run("whatif", path, "--fix", f"stage={job.pp - 1}", "--strength", f"{strength:.4f}")["gain_ns_per_step"] / 1e9
    ranks = [run("whatif", path, "--fix", f"rank={r}")["gain_ns_per_step"] / 1e9 for r in range(job.dp * job.pp)]
    job.check_steps(report)
    # Their times exclude the delays before operations, 2 % of a step. Lockstep's include them.
    check(abs(last_stage / job.stage_gain - 1.0) < 0.06, f"fixing the last stage gains {last_stage:.3f} s, theirs {job.stage_gain:.3f} s")
    print(f"last stage at the mean of all: {last_stage * 1e3:.1f} ms per step (theirs {job.stage_gain * 1e3:.1f}), "
          f"M_S {last_stage / (job.stage['tori'] - job.stage['tideal']):.3f} (theirs {job.stage['Ms']:.3f})")
    check(max(ranks) < 0.01 * report["slowdown"]["step_ns"] / 1e9, f"one rank is said to cost {max(ranks):.4f} s; it is the stage")
    print(f"the worst single rank: {max(ranks) * 1e3:.1f} ms per step (theirs {job.worker_gain * 1e3:.1f}), "
          f"M_W {max(ranks) / (job.worker['tori'] - job.worker['tideal']):.3f} (theirs {job.worker['Mw']:.3f})")
    first = report["stragglers"][0]
    check((first["cause"], first["ranks"]) == ("stage_imbalance", [6, 7]), f"first entry: {first['kind']} {first['ranks']} {first['cause']}")
    # All that ranks 6 and 7 share belongs to the stage. They differ by less than 1 %.
    ranks = [s for s in report["stragglers"] if s["kind"] == "rank"]
    check(not ranks, f"ranks {[s['ranks'] for s in ranks]} are named beside their stage")
    job.print_entries(report)


def check_slow_worker(job, path):
    """One worker takes 2.35 times as long. The list lacks what the last stage waits for across replicas."""
    job.write(path)
    report = run("analyze", path)
    job.check_steps(report)
    first = report["stragglers"][0]
    job.print_entries(report)
    check((first["ranks"], first["verdict"]) == ([0], "sure"), f"first entry: {first['kind']} {first['ranks']} {first['verdict']}")
    step, gain = report["slowdown"]["step_ns"] / 1e9, first["gain_ns_per_step"] / 1e9
    check(abs(gain / job.worker_gain - 1.0) < 0.03, f"fixing the worker gains {gain:.2f} s, theirs {job.worker_gain:.2f} s")
    print(f"worker 0 like the others: {gain:.2f} s per step (theirs {job.worker_gain:.2f}), the step is {step / (step - gain):.3f} times as long "
          f"as without (theirs {job.worker['tori'] / job.worker['trem']:.3f}), M_W {gain / (job.worker['tori'] - job.worker['tideal']):.3f} "
          f"(theirs {job.worker['Mw']:.3f})")


def main():
    for folder, name, compare in (("bytedance_straggler", "ST", check_slow_stage), ("bytedance_fail_slow", "AR", check_slow_worker)):
        trace = SHARED / "traces" / folder
        if not trace.exists():
            print(f"{trace} is not there: nothing to compare with")
            continue
        with tempfile.TemporaryDirectory() as scratch:
            compare(Published(trace, name), pathlib.Path(scratch) / "bytedance.timeline")


if __name__ == "__main__":
    main()
