#!/usr/bin/env python3
"""report_page_test.py REPOSITORY BUILD: prepares and runs report_page_test.mjs. It makes the jobs, installs the npm packages, and
checks the page's types. Screenshots go to BUILD/web-test/out."""
import pathlib
import sys

import model_trace
from page_test_packages import install, run

repository, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
work = install(repository, build)
jobs, out = work / "jobs", work / "out"
for folder in (jobs, out):
    folder.mkdir(parents=True, exist_ok=True)

generate = repository / "tests/scenario/generate.py"
run(sys.executable, generate, "-o", jobs / "healthy.timeline", "--topology", "hybrid", "--ranks", "16", "--steps", "12", "--seed", "3")
run(sys.executable, generate, "-o", jobs / "straggling.timeline", "--topology", "hybrid", "--ranks", "16", "--steps", "12", "--seed", "4",
    "--fault", "slow_gpu:0.2")
run(sys.executable, generate, "-o", jobs / "many.timeline", "--topology", "hybrid", "--ranks", "64", "--steps", "8", "--seed", "5",
    "--fault", "slow_gpu:0.2")
run(sys.executable, generate, "-o", jobs / "partial.timeline", "--topology", "hybrid", "--ranks", "16", "--steps", "10", "--seed", "6",
    "--fault", "slow_gpu:0.2", "--missing", "0.2", "--loss", "0.01")
model_trace.write(jobs / "model.pt.trace.json")
run("node", "--test-reporter=spec", repository / "tests/web/report_page_test.mjs", work / "node_modules", build / "bin/lockstep",
    build / "bin/large_page", jobs, out, repository / "docs/glossary.md")
