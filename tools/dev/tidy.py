#!/usr/bin/env python3
"""Runs clang-tidy 14 with .clang-tidy over the sources, by the commands of preset `lint`, which must be configured. It compiles nothing: it
builds only the generated headers. `./dev lint` calls it.

Most of clang-tidy's time goes into headers, so sources of a target are checked together, as preset `lint` compiles them.

  tidy.py                                    every source
  tidy.py --changed [--files N] [--seconds N]  at most N sources that changed since the last tag, the newest first
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/lint"
DATABASE = BUILD / "tidy"
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


def unity_sources(sources: list) -> dict:
    """Groups the sources by the unity source of the build that contains them. Returns the files to check, each with its sources. They
    are in DATABASE, with one compile command each: clang-tidy repeats a source for each of its commands, and four targets contain the
    client's."""
    unit_of = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        text = pathlib.Path(entry["file"]).read_text() if "/Unity/" in entry["file"] else f'#include "{entry["file"]}"\n'
        for member in re.findall(r'^#include "(/[^"]+)"$', text, re.MULTILINE):
            unit_of.setdefault(os.path.relpath(member, ROOT), entry)
    members = {}
    for name in sources:
        if name in unit_of:
            members.setdefault(unit_of[name]["file"], []).append(name)
    # In another order than the build's, equal names of two sources may be ambiguous.
    place = {name: number for number, name in enumerate(unit_of)}
    for names in members.values():
        names.sort(key=place.get)
    shutil.rmtree(DATABASE, ignore_errors=True)
    DATABASE.mkdir()
    files, commands = {}, []
    for unit, names in members.items():
        path = str(ROOT / names[0]) if len(names) == 1 else str(DATABASE / f"{len(files)}.cc")
        if len(names) > 1:
            # The texts follow each other instead of being included, because misc-unused-alias-decls checks only the main file.
            pathlib.Path(path).write_text("".join((ROOT / name).read_text() for name in names))
        files[path] = names
        entry = unit_of[names[0]]
        commands.append({**entry, "file": path, "command": entry["command"].replace(unit, path)})
    (DATABASE / "compile_commands.json").write_text(json.dumps(commands))
    return files


def own_lines(text: str, path: str, names: list) -> str:
    """Replaces lines of a file with several sources by those of the sources."""
    places = [f"{ROOT / name}:{line}:" for name in names for line, _ in enumerate((ROOT / name).read_text().splitlines(), 1)]
    return re.sub(f"^{re.escape(path)}:(\\d+):", lambda found: places[int(found[1]) - 1], text, flags=re.MULTILINE)


def tidy(path: str, names: list) -> tuple:
    done = subprocess.run(["clang-tidy-14", "--quiet", "-p", str(DATABASE), path], cwd=ROOT, capture_output=True, text=True)
    text = done.stdout.strip() or done.stderr
    return done.returncode, own_lines(text, path, names) if len(names) > 1 else text


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--changed", action="store_true")
    arguments.add_argument("--files", type=int, default=60)
    arguments.add_argument("--seconds", type=int, default=90, help="begins no further source after this time")
    options = arguments.parse_args()
    build_generated_headers()
    sources = output("git", "ls-files", "-co", "--exclude-standard", "*.cc").split()
    if options.changed:
        sources = sources_of(changed_files(), sources)
    chosen = unity_sources(sources[:options.files] if options.changed else sources)
    ends = time.monotonic() + options.seconds
    late = lambda: options.changed and time.monotonic() > ends
    checked = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda path: None if late() else tidy(path, chosen[path]), chosen)
        for names, result in zip(chosen.values(), results):
            if result is None:
                continue
            checked += len(names)
            failed += result[0] != 0
            if result[0] != 0:
                print(result[1].strip(), flush=True)
    print(f"lint: checked {checked} of {len(sources)} sources" + ("" if failed else ", without a finding"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
