#!/usr/bin/env python3
"""read_back.py WORK FILE...: installs the npm packages of read_back.mjs into WORK and runs it."""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
import npm_packages

work = pathlib.Path(sys.argv[1])
npm_packages.install(HERE, work)
sys.exit(subprocess.run(["node", HERE / "read_back.mjs", work / "node_modules", *sys.argv[2:]]).returncode)
