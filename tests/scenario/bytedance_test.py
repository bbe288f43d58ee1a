#!/usr/bin/env python3
"""Compares Lockstep's results for ByteDance's public job timeline with the published what-if results. It
needs ../shared beside the repository.

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
TRACE = SHARED / "traces" / "bytedance_straggler"


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


def main():
    if not TRACE.exists():
        print(f"{TRACE} is not there: nothing to compare with")
        return
    sizes = meta_of((TRACE / "meta-ST.yaml").read_text())
    events = json.loads(gzip.decompress((TRACE / "timeline-ST.json.gz").read_bytes()))
    theirs = json.loads((TRACE / "result-ST.json").read_text())
    dp, pp = int(sizes["dp_size"]), int(sizes["pp_size"])
    lines = convert(events, dp, pp)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bytedance.timeline"
        path.write_text("\n".join(lines) + "\n")
        report = run("analyze", path)
        strength = part_of_the_way_to_their_mean(events, dp, pp)
        last_stage = run("whatif", path, "--fix", f"stage={pp - 1}", "--strength", f"{strength:.4f}")["gain_ns_per_step"] / 1e9
        ranks = [run("whatif", path, "--fix", f"rank={r}")["gain_ns_per_step"] / 1e9 for r in range(dp * pp)]

    # Compares the steps. Their list lacks the time between the last operation of a step and the first of the
    # next one (0.1 ms).
    ours = {s["step"]: s["duration_ns"] / 1e9 for s in report["steps"]}
    base = {int(k): v for k, v in theirs["step_t_base"].items()}
    check(len(ours) >= len(base) - 1, f"{len(ours)} of their {len(base)} steps are used")
    worst = max(abs(seconds / base[step] - 1.0) for step, seconds in ours.items())
    check(worst < 3e-4, f"a step's time differs by {worst:.1e}")

    slow = report["slowdown"]
    shared = json.loads((SHARED / "reference" / "bytedance_what_if.json").read_text())["sets"]["bytedance_straggler"]
    print(f"step {slow['step_ns'] / 1e9:.4f} s, worst step off by {worst:.1e}; S {slow['ratio']:.4f} (theirs {shared['blocking_slowdown']:.4f}); "
          f"matched {report['capture']['matching']['matched_fraction']:.4f}")
    ms, mw = (json.loads((TRACE / f"{name}-ST.json").read_text()) for name in ("ms", "mw"))
    # Their times exclude the delays before operations, 2 % of a step. Lockstep's include them.
    check(abs(last_stage / (ms["tori"] - ms["trem"]) - 1.0) < 0.06, f"fixing the last stage gains {last_stage:.3f} s, theirs {ms['tori'] - ms['trem']:.3f} s")
    print(f"last stage at the mean of all: {last_stage * 1e3:.1f} ms per step (theirs {(ms['tori'] - ms['trem']) * 1e3:.1f}), "
          f"M_S {last_stage / (ms['tori'] - ms['tideal']):.3f} (theirs {ms['Ms']:.3f})")
    check(max(ranks) < 0.01 * slow["step_ns"] / 1e9, f"one rank is said to cost {max(ranks):.4f} s; it is the stage")
    print(f"the worst single rank: {max(ranks) * 1e3:.1f} ms per step (theirs {(mw['tori'] - mw['trem']) * 1e3:.1f}), "
          f"M_W {max(ranks) / (mw['tori'] - mw['tideal']):.3f} (theirs {mw['Mw']:.3f})")
    first = report["stragglers"][0]
    check((first["cause"], first["ranks"]) == ("stage_imbalance", [6, 7]), f"first entry: {first['kind']} {first['ranks']} {first['cause']}")
    for entry in report["stragglers"]:
        print(f"  {entry['kind']} {entry['ranks']} {entry['cause']} {entry['verdict']}: {entry['gain_ns_per_step'] / 1e6:.1f} ms per step")


if __name__ == "__main__":
    main()
