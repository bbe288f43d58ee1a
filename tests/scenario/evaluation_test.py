#!/usr/bin/env python3
"""Runs a small evaluation with a fixed seed, to detect regressions. ./dev eval runs the complete one.

    evaluation_test.py FOLDER_OF_PROGRAMS"""
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import table  # noqa: E402
from evaluate import _line, run_job  # noqa: E402

SEED = 20


def _job(number, topology, ranks, fault=None, **more):
    return {"seed": SEED + number, "topology": topology, "ranks": ranks, "noise": 0.01, "steps": 8, "faults": [fault] if fault else [],
            "metadata": "nccl", "loss": 0.0, "missing": 0.0, "clock_ms": 1.0, "drift_ppm": 50.0, "collectives": True, "parameters": {"sync": True}, **more}


JOBS = [
    _job(0, "dp", 8, ("slow_gpu", 0.3, 5, "whole")),
    _job(1, "hybrid", 16, ("slow_gpu", 0.3, 9, "whole")),
    _job(2, "fsdp", 16, ("slow_gpu", 0.1, 11, "whole")),
    _job(3, "experts", 16, ("loader", 0.4, 2, "whole")),
    _job(4, "context", 16, ("slow_gpu", 0.3, 7, "whole")),
    _job(5, "dp", 16, ("copies", 10.0, 3, "whole")),
    _job(6, "pipeline", 16, ("slow_gpu", 0.3, 13, "whole")),
    _job(7, "hybrid", 16),
    _job(8, "fsdp", 16),
    _job(9, "dp", 16, metadata="group", loss=0.02),
]


def check(good, what):
    if not good:
        raise SystemExit(f"evaluation: {what}")


def commands_of(text):
    """Returns the commands that the report recommends: lines that begin with TRY, joined with their
    continuation lines."""
    lines = []
    for line in text.splitlines():
        if line.startswith("  ") and lines:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return [line.removeprefix("TRY ") for line in lines if line.startswith("TRY ")]


def check_commands(binaries, path):
    """Runs every command that the report prints. Returns their number."""
    report = subprocess.run([pathlib.Path(binaries) / "lockstep", "analyze", path], capture_output=True, text=True)
    check(report.returncode == 0, f"analyze ended with {report.returncode}: {report.stderr}")
    commands = commands_of(report.stdout)
    for command in commands:
        words = shlex.split(command)
        check(words[0] == "lockstep", f"the report names a program that is not ours: {command}")
        done = subprocess.run([pathlib.Path(binaries) / "lockstep", *words[1:]], capture_output=True, text=True)
        check(done.returncode == 0 and done.stdout.startswith("STEP"), f"'{command}' ended with {done.returncode}: {done.stderr}{done.stdout[:200]}")
    return len(commands)


def main():
    results = []
    commands = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, job in enumerate(JOBS):
            results.append(run_job("small", number, job, sys.argv[1], folder, True))
            print(_line(results[-1]), flush=True)
            path = pathlib.Path(folder) / f"small-{number:04}.timeline"
            commands += check_commands(sys.argv[1], path)
            path.unlink()
    check(commands >= 3, f"only {commands} commands were printed")
    print(f"{commands} commands that the reports print were run")
    check(not any(r["failed"] for r in results), "a timeline could not be analysed")
    sick = [r for r in results if r["faults"] and r["effect"] >= 0.03]
    check(len(sick) >= 5, f"only {len(sick)} faults cost 3 % of the step")
    right = sum(r["right_place"] for r in sick)
    print(f"right place {right} of {len(sick)}, right cause {sum(r['right_cause'] for r in sick)}")
    check(right >= len(sick) - 1, f"the right rank is named first in {right} of {len(sick)} jobs")
    broken = [r["number"] for r in results if r["broken_bounds"]]
    check(not broken, f"clock bounds do not hold in jobs {broken}")
    for r in results:
        check(r.get("additivity", 0.0) <= 1e-6, f"the parts of the lost time do not add up in job {r['number']}: {r.get('additivity')}")
        check(r["wrong"] == 0, f"{r['wrong']} collectives of job {r['number']} are matched with others")
        check(not r["faults"] or r["step_error"] is None or abs(r["step_error"]) < 2e-3, f"step time of job {r['number']} is {r['step_error']} off")
    errors = [r["gain_error"] for r in sick if r["gain_error"] is not None]
    check(table.quantile(errors, 0.5) <= 0.30, f"median error of the culprit's ms {table.quantile(errors, 0.5)}")
    waits = [e for r in results for e in r["errors"]]
    print(f"median error of the culprit's ms {table.quantile(errors, 0.5):.3f}; wait error p99 {table.quantile(waits, 0.99) / 1e3:.1f} us "
          f"over {len(waits)} waits; clock error {max(r['clock_error'] for r in results) / 1e3:.1f} us")
    check(table.quantile(waits, 0.99) <= 60e3, "waits are wrong by more than 60 us")


if __name__ == "__main__":
    main()
