"""Namespaces for a test. Its remaining processes end with them, and its mounts and names stay inside."""
import os
import shutil
import subprocess
import sys


def enter(variable, programs, probe, install):
    """Runs the calling script again as the first process of new namespaces. Inside them `variable` is set,
    and it returns. `probe` is a shell command that must work there. Exits with 77, ctest's "skipped",
    without root, a program or a namespace."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.environ.get(variable):
        return
    missing = [program for program in programs if not shutil.which(program)]
    if missing or os.geteuid() != 0:
        print(f"not tested: needs root, {', '.join(missing)} ({install})")
        sys.exit(77)
    how = ["unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*how, "sh", "-c", probe], capture_output=True).returncode != 0:
        print(f"not tested: this machine allows root no namespaces of its own in which this works: {probe}")
        sys.exit(77)
    os.environ[variable] = "1"
    sys.exit(subprocess.run([*how, sys.executable, *sys.argv]).returncode)
