"""./dev one: builds one test with its dependencies and runs it."""
import argparse
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
CASE = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)")


def fail(message: str):
    sys.exit(f"dev one: {message}")


def configure():
    if not (BUILD / "build.ninja").exists():
        done = subprocess.run(["cmake", "--preset", "dev"], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            fail(f"cmake --preset dev failed:\n{done.stdout}{done.stderr}")


def listed_tests() -> dict:
    """Returns the command of every test that ctest lists, by name."""
    text = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, capture_output=True, text=True, check=True).stdout
    return {test["name"]: test.get("command", []) for test in json.loads(text)["tests"]}


def program_of(source: str, tests: dict) -> str:
    """Returns the test program that contains a test's source file."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        if entry["file"] == str(ROOT / source):
            match = re.search(r"CMakeFiles/(\w+)\.dir/", entry.get("output") or entry["command"])
            if match and match.group(1) in tests:
                return match.group(1)
    fail(f"{source} is not compiled into a test of the dev build")


def find_cases(pattern: str) -> dict:
    """Returns the source files and test cases that match `pattern` (Suite.Case, with wildcards)."""
    found = {}
    files = subprocess.run(["git", "ls-files", "*_test.cc"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for file in files:
        for suite, case in CASE.findall((ROOT / file).read_text()):
            name = f"{suite}.{case}"
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(suite, pattern):
                found.setdefault(file, []).append(name)
    return found


def choose(name: str, tests: dict):
    """Returns the tests to run, each with the arguments that select its cases, and the targets that they need."""
    if name in tests:
        return [(name, [])], [name] if name.startswith("lockstep_") else ["e2e_programs"]
    if name.endswith(".cc"):
        files = subprocess.run(["git", "ls-files", name, f"**/{name}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        if len(files) != 1:
            fail(f"{name}: {'no such file' if not files else 'which of ' + ', '.join(files) + '?'}")
        suites = sorted({suite for suite, _ in CASE.findall((ROOT / files[0]).read_text())})
        cases = {files[0]: [f"{suite}.*" for suite in suites]}
    else:
        cases = find_cases(name)
    if not cases:
        fail(f"no test, test file or test case is called {name}; `ctest --preset dev -N` lists the tests")
    runs = []
    for file, filters in cases.items():
        program = program_of(file, tests)
        runs.append((program, [f"--gtest_filter={':'.join(filters)}"]))
    return runs, [program for program, _ in runs]


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev one", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Builds one test, and runs it.",
                                     epilog="Examples:\n  ./dev one lockstep_base_test\n  ./dev one steps_test.cc\n"
                                            "  ./dev one 'StepsTest.*'\n  ./dev one e2e_metrics --repeat 30 --busy 2")
    parser.add_argument("name", metavar="NAME", help="a test as ctest lists it, a test's source file, or SUITE.CASE with * and ?")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run it N times; every run counts, also after a failure")
    parser.add_argument("--busy", type=int, default=0, metavar="K", help="keep K other processes busy")
    options = parser.parse_args()
    configure()
    runs, targets = choose(options.name, listed_tests())
    built = subprocess.run(["ninja", "-C", str(BUILD), *sorted(set(targets))], capture_output=True, text=True)
    if built.returncode:
        print(built.stdout[-6000:], end="", file=sys.stderr)
        return 1
    tests = listed_tests()  # ctest knows the command of a test once its program is built
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.busy)]
    failed = 0
    try:
        for turn in range(options.repeat):
            started = time.monotonic()
            for name, cases in runs:
                command = [*tests[name], *cases] if cases else ["ctest", "--output-on-failure", "-R", f"^{re.escape(name)}$"]
                bad = subprocess.run(command, cwd=BUILD).returncode != 0
                failed += bad
                if options.repeat > 1:
                    print(f"run {turn + 1} of {options.repeat}: {name} {'FAILED' if bad else 'passed'} in {time.monotonic() - started:.1f} s",
                          flush=True)
    finally:
        for process in busy:
            process.kill()
    if options.repeat > 1:
        print(f"{options.repeat * len(runs) - failed} of {options.repeat * len(runs)} runs passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
