#!/usr/bin/env python3
"""Compares verdict, page and first action of the reports of recorded jobs with tests/golden/first_lines/recordings.txt, if
../shared/traces is there. LOCKSTEP_UPDATE_GOLDEN=1 writes the file again.

usage: first_lines_test.py LOCKSTEP"""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACES = ROOT.parent / "shared" / "traces"
GOLDEN = ROOT / "tests" / "golden" / "first_lines" / "recordings.txt"


def first_lines(lockstep, recording):
    """Returns the verdict, the page and the first action of a report, each as one line."""
    done = subprocess.run([lockstep, "analyze", recording], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 7):
        sys.exit(f"analyze {recording} ended with {done.returncode}: {done.stderr}")
    paragraphs = []
    for line in done.stdout.splitlines():
        if line.startswith(" ") and paragraphs:
            paragraphs[-1] += " " + line.strip()
        else:
            paragraphs.append(line)
    return paragraphs[:2] + [p for p in paragraphs if p.startswith(("DO ", "TUNE "))][:1]


def main():
    wanted = GOLDEN.read_text()
    names = [line[2:] for line in wanted.splitlines() if line.startswith("# ")]
    if not TRACES.exists():
        print(f"not tested: {TRACES} is not there")
        return
    parts = []
    for name in names:
        parts.append("\n".join([f"# {name}", *first_lines(sys.argv[1], TRACES / name)]) + "\n")
    found = "\n".join(parts)
    if os.environ.get("LOCKSTEP_UPDATE_GOLDEN"):
        GOLDEN.write_text(found)
        return
    if found != wanted:
        for name, was, is_now in zip(names, wanted.split("\n\n"), found.split("\n\n")):
            if was.strip() != is_now.strip():
                print(f"{name}\n  expected {was}\n  found    {is_now}")
        sys.exit("first lines changed; LOCKSTEP_UPDATE_GOLDEN=1 writes them again")
    print(f"{len(names)} first lines are as expected")


if __name__ == "__main__":
    main()
