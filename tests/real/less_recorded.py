#!/usr/bin/env python3
"""Runs ../shared/tools/independent.py on copies of the independent jobs with less in their records: without step
ranges, host calls, or metadata of communicators, or with nothing but collectives, as a capture of the past. Prints how many
are right, in how many the culprits come first and nobody else is blamed, and the wrong ones.

usage: less_recorded.py LOCKSTEP"""
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
OF_COMMUNICATORS = ("Collective name", "In msg nelems", "Out msg nelems", "In split size", "Out split size", "Group size", "dtype",
                    "Process Group Name", "Process Group Description", "Process Group Ranks", "Src Rank", "Dst Rank", "Seq")


def without_steps(event):
    return None if event.get("name", "").startswith("ProfilerStep") else event


def without_calls(event):
    return None if event.get("cat") in ("cuda_runtime", "cuda_driver") else event


def without_communicators(event):
    if event.get("name") == "record_param_comms":
        return None
    if event.get("cat") == "kernel":
        event["args"] = {key: value for key, value in event["args"].items() if key not in OF_COMMUNICATORS}
    return event


def without_all_but_collectives(event):
    other = event.get("cat") in ("cuda_runtime", "cuda_driver", "gpu_memcpy", "gpu_memset", "ac2g", "cpu_op", "python_function")
    if other and event.get("name") != "record_param_comms":
        return None
    return None if event.get("cat") == "kernel" and "nccl" not in event["name"].lower() else event


def without_all_but_collectives_and_steps(event):
    event = without_all_but_collectives(event)
    return event and without_steps(event)


VARIANTS = {"step ranges": without_steps, "host calls": without_calls, "metadata of communicators": without_communicators,
            "all but collectives": without_all_but_collectives, "all but collectives, and step ranges": without_all_but_collectives_and_steps}


def copy_without(change, target):
    """Writes the traces to `target`, with the rows that `change` leaves."""
    for source in sorted((SHARED / "traces" / "independent_jobs").glob("*/*")):
        packed = source.suffix == ".gz"
        trace = json.loads(gzip.decompress(source.read_bytes()) if packed else source.read_bytes())
        trace["traceEvents"] = [event for event in map(change, trace["traceEvents"]) if event is not None]
        to = target / source.relative_to(SHARED)
        to.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(trace).encode()
        to.write_bytes(gzip.compress(text, 1) if packed else text)
    reference = target / "reference"
    reference.mkdir()
    (reference / "independent_jobs.json").write_bytes((SHARED / "reference" / "independent_jobs.json").read_bytes())


def main():
    if not SHARED.exists():
        sys.exit(f"{SHARED} is not there, so there is nothing to measure")
    for name, change in VARIANTS.items():
        with tempfile.TemporaryDirectory(prefix="lockstep-less-") as folder:
            copy_without(change, pathlib.Path(folder))
            done = subprocess.run([sys.executable, SHARED / "tools" / "independent.py", sys.argv[1], folder], capture_output=True, text=True)
            lines = done.stdout.splitlines()
            places = sum(not re.search(r"^\S+ +WRONG  (.*, )?(rank|blames|no report)|lead.*; says \[\(", line) for line in lines[:-1])
            print(f"without {name}: {lines[-1]}; the right ranks in {places}", *[f"  {line}" for line in lines if " WRONG " in line], sep="\n", flush=True)


if __name__ == "__main__":
    main()
