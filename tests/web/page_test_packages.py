"""What the tests of pages share: the npm packages that only they need, and the check of the pages' types."""
import pathlib
import shutil
import subprocess


def run(*command, **options):
    subprocess.run([str(c) for c in command], check=True, **options)


def install(repository: pathlib.Path, build: pathlib.Path) -> pathlib.Path:
    """All of the lock into BUILD/web-test, which is returned; installed again only when the lock has changed. Fails where the pages' types do
    not agree."""
    work = build / "web-test"
    work.mkdir(parents=True, exist_ok=True)
    lock = repository / "web/package-lock.json"
    if not (work / "node_modules").exists() or (work / "package-lock.json").read_bytes() != lock.read_bytes():
        shutil.copy(repository / "web/package.json", work)
        shutil.copy(lock, work)
        run("npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error", cwd=work)
    shutil.copytree(repository / "web/src", work / "src", dirs_exist_ok=True)
    shutil.copy(repository / "web/tsconfig.json", work)
    run("node", work / "node_modules/typescript/bin/tsc", "-p", work)
    return work
