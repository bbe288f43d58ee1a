"""Namespaces for a test. Its remaining processes end with them, and its mounts and names stay inside."""
import os
import shutil
import subprocess
import sys

SYSTEM = ":/usr/sbin:/sbin"

HOW = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "--kill-child"]


def impossible(programs, probe):
    """Returns why this machine allows no namespaces in which the shell command `probe` works, or an empty text."""
    missing = [program for program in programs if not shutil.which(program, path=os.environ["PATH"] + SYSTEM)]
    if missing or os.geteuid() != 0:
        return f"needs root, {', '.join(missing)}"
    if subprocess.run([*HOW, "sh", "-c", probe], capture_output=True).returncode != 0:
        return f"this machine allows root no namespaces of its own in which this works: {probe}"
    return ""


def enter(variable, programs, probe, install):
    """Runs the calling script again as the first process of new namespaces. Inside them `variable` is set,
    and it returns. `probe` is a shell command that must work there. Exits with 77, ctest's "skipped",
    without root, a program or a namespace."""
    os.environ["PATH"] += SYSTEM
    if os.environ.get(variable):
        return
    if why := impossible(programs, probe):
        print(f"not tested: {why} ({install})")
        sys.exit(77)
    os.environ[variable] = "1"
    sys.exit(subprocess.run([*HOW, sys.executable, *sys.argv]).returncode)
