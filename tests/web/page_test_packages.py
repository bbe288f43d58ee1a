"""Shared parts of the tests of pages: the npm packages that only they need, and the type check of the pages."""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import npm_packages


def run(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


def install(repository: pathlib.Path, build: pathlib.Path) -> pathlib.Path:
    """Installs all packages of the lock into BUILD/web-test and returns that folder. Fails if the pages have
    type errors."""
    work = build / "web-test"
    npm_packages.install(repository / "web", work)
    shutil.copytree(repository / "web/src", work / "src", dirs_exist_ok=True)
    shutil.copy(repository / "web/tsconfig.json", work)
    run("node", work / "node_modules/typescript/bin/tsc", "-p", work)
    return work
