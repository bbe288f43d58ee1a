#!/usr/bin/env python3
"""report_page_test.py REPOSITORY BUILD: makes the jobs and installs the npm packages that report_page_test.mjs wants, checks the
page's types, and runs it. Screenshots are left in BUILD/web-test/out."""
import pathlib
import shutil
import subprocess
import sys

repository, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
work = build / "web-test"
jobs, out = work / "jobs", work / "out"
for folder in (jobs, out):
    folder.mkdir(parents=True, exist_ok=True)


def run(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


# All of the lock, with what only tests need.
lock = repository / "web/package-lock.json"
if not (work / "node_modules").exists() or (work / "package-lock.json").read_bytes() != lock.read_bytes():
    shutil.copy(repository / "web/package.json", work)
    shutil.copy(lock, work)
    run("npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", cwd=work)
shutil.copytree(repository / "web/src", work / "src", dirs_exist_ok=True)
shutil.copy(repository / "web/tsconfig.json", work)
run("node", work / "node_modules/typescript/bin/tsc", "-p", work)

generate = repository / "tests/scenario/generate.py"
run(sys.executable, generate, "-o", jobs / "healthy.timeline", "--topology", "hybrid", "--ranks", "16", "--steps", "12", "--seed", "3")
run(sys.executable, generate, "-o", jobs / "straggling.timeline", "--topology", "hybrid", "--ranks", "16", "--steps", "12", "--seed", "4",
    "--fault", "slow_gpu:0.2")
run("node", "--test-reporter=spec", repository / "tests/web/report_page_test.mjs", work / "node_modules", build / "bin/lockstep",
    build / "bin/large_page", jobs, out)
