#!/usr/bin/env python3
"""Runs clang-tidy 14 with .clang-tidy over the sources, by the commands of preset `lint`, which must be configured. It compiles nothing: it
builds only the generated headers. `./dev lint` calls it.

  tidy.py                                    every source
  tidy.py --changed [--files N] [--seconds N]  at most N sources that changed since the last tag, the newest first
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/lint"
COMMITS_WITHOUT_TAG = 30


def output(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def build_generated_headers():
    targets = re.findall(r"^([^/\s]\S*\.pb\.h): CUSTOM_COMMAND$", output("ninja", "-C", str(BUILD), "-t", "targets", "all"), re.MULTILINE)
    subprocess.run(["ninja", "-C", str(BUILD), *targets], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def changed_since() -> str:
    """The commit since which changes count. Says which one it is."""
    tag = output("git", "describe", "--tags", "--abbrev=0").strip()
    if tag:
        print(f"lint: checks what changed since {tag}", flush=True)
        return tag
    commits = output("git", "rev-list", "--first-parent", f"--max-count={COMMITS_WITHOUT_TAG + 1}", "HEAD").split()
    print(f"lint: there is no tag, so it checks what the last {len(commits) - 1} commits changed", flush=True)
    return commits[-1]


def changed_files() -> list:
    """Files that differ from the last tag, the newest change first."""
    since = changed_since()
    names = output("git", "diff", "--name-only", "HEAD").split("\n") + output("git", "ls-files", "-o", "--exclude-standard").split("\n")
    names += output("git", "log", "--format=", "--name-only", f"{since}..HEAD").split("\n")
    return [name for name in dict.fromkeys(names) if name and (ROOT / name).exists()]


def sources_of(changed: list, sources: list) -> list:
    """The changed sources, and for a changed header the source that shows its faults: its own, or else one that includes it."""
    found = {}
    for name in changed:
        if name in sources:
            found[name] = None
        elif name.endswith((".h", ".def")):
            own = name.rpartition(".")[0]
            own = next((s for s in (own + ".cc", own + "_test.cc") if s in sources), None)
            found[own or next((s for s in sources if f'"{name}"' in (ROOT / s).read_text()), None)] = None
    found.pop(None, None)
    return list(found)


def tidy(name: str) -> tuple:
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(BUILD), str(ROOT / name)], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout.strip() or done.stderr


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--changed", action="store_true")
    arguments.add_argument("--files", type=int, default=60)
    arguments.add_argument("--seconds", type=int, default=180, help="begins no further source after this time")
    options = arguments.parse_args()
    build_generated_headers()
    listed = {os.path.relpath(one["file"], ROOT) for one in json.loads((BUILD / "compile_commands.json").read_text())}
    sources = [name for name in output("git", "ls-files", "-co", "--exclude-standard", "*.cc").split() if name in listed]
    chosen = sources_of(changed_files(), sources) if options.changed else sources
    ends = time.monotonic() + options.seconds
    late = lambda: options.changed and time.monotonic() > ends
    checked = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda name: None if late() else tidy(name), chosen[:options.files] if options.changed else chosen):
            if result is None:
                continue
            checked += 1
            failed += result[0] != 0
            if result[0] != 0:
                print(result[1].strip(), flush=True)
    print(f"lint: checked {checked} sources, {failed} with findings" + (f", left out {len(chosen) - checked}" if checked < len(chosen) else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
