#!/usr/bin/env python3
"""ByteDance's public job timeline and their published what-if results, against ours. Needs ../shared beside the repository.

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


def main():
    if not TRACE.exists():
        print(f"{TRACE} is not there: nothing to compare with")
        return
    sizes = meta_of((TRACE / "meta-ST.yaml").read_text())
    events = json.loads(gzip.decompress((TRACE / "timeline-ST.json.gz").read_bytes()))
    theirs = json.loads((TRACE / "result-ST.json").read_text())
    lines = convert(events, int(sizes["dp_size"]), int(sizes["pp_size"]))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bytedance.timeline"
        path.write_text("\n".join(lines) + "\n")
        done = subprocess.run([pathlib.Path(sys.argv[1]) / "lockstep", "analyze", str(path), "--format", "json"], capture_output=True, text=True)
    check(done.returncode == 0, f"analyze ended with {done.returncode}: {done.stderr}")
    report = json.loads(done.stdout)

    # Steps, against theirs. What lay between the last op of one and the first of the next (0.1 ms) is not in their list.
    ours = {s["step"]: s["duration_ns"] / 1e9 for s in report["steps"]}
    base = {int(k): v for k, v in theirs["step_t_base"].items()}
    check(len(ours) >= len(base) - 1, f"{len(ours)} of their {len(base)} steps are used")
    worst = max(abs(seconds / base[step] - 1.0) for step, seconds in ours.items())
    check(worst < 3e-4, f"a step's time differs by {worst:.1e}")

    slow = report["slowdown"]
    shared = json.loads((SHARED / "reference" / "bytedance_what_if.json").read_text())["sets"]["bytedance_straggler"]
    print(f"step {slow['step_ns'] / 1e9:.4f} s, worst step off by {worst:.1e}; S {slow['ratio']:.4f} (theirs {shared['blocking_slowdown']:.4f}); "
          f"matched {report['capture']['matching']['matched_fraction']:.4f}")
    for entry in report["stragglers"]:
        print(f"  {entry['kind']} {entry['ranks']} {entry['cause']} {entry['verdict']}: {entry['gain_ns_per_step'] / 1e6:.1f} ms per step")


if __name__ == "__main__":
    main()
