"""Installs npm packages that only tests need, from a lock file (docs/decisions/0005-report-page-from-npm.md)."""
import pathlib
import shutil
import subprocess


def install(source: pathlib.Path, work: pathlib.Path):
    """Installs the packages of SOURCE/package-lock.json into WORK/node_modules. It installs again if the lock
    has changed."""
    work.mkdir(parents=True, exist_ok=True)
    lock = source / "package-lock.json"
    # npm writes the second file last, so that an interrupted install is not accepted.
    if (work / "node_modules/.package-lock.json").exists() and (work / "package-lock.json").read_bytes() == lock.read_bytes():
        return
    shutil.copy(source / "package.json", work)
    shutil.copy(lock, work)
    command = ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"]
    # npm prints the number of added packages. Callers would take that line for a failed check, so that it is
    # shown only on failure.
    made = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: status {made.returncode}\n{made.stdout}")
