"""Gathers the part of a run for the repository: the table, and a few small captures that tests can read."""
import datetime
import re
import shutil
import time

from evidence import REPOSITORY, run_logged

MOST_BYTES = 2 << 20  # per capture
MOST_CAPTURES = 8
MOST_SECONDS = 40  # for reading them again, after the end of the run


def slug(table):
    gpu = "simulated" if table.simulated else table.machine.get("GPU", "no-gpu").split(",")[0]
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-") + f"-{datetime.date.today().isoformat()}"


def gather(setup, table):
    """Copies the files to work/repository, under their paths in the repository, and checks that the captures
    can be read there. Returns a sentence with the next command for the user. Never raises an exception,
    because other parts of the run may have failed."""
    root, name = setup.work / REPOSITORY, slug(table)
    table.section, table.id = "repository", "A1"
    kept = []
    try:
        golden = root / "tests" / "golden" / "gpu" / name
        began = time.monotonic()
        for capture, folder in setup.kept[:MOST_CAPTURES]:
            if time.monotonic() - began < MOST_SECONDS:
                keep(setup, table, capture, folder, golden / capture, kept)
            else:
                table.left_out(f"{capture} is kept as test data", f"reading the others again took {MOST_SECONDS} s")
        results = root / "docs" / "gpu-results" / f"{name}.md"
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(table.text())
    except OSError as error:
        table.check("files for the repository are collected", False, error, "the table and some captures")
    return (f"in the archive, {REPOSITORY}/ is what belongs into the repository, docs/gpu-results/{name}.md and "
            f"{len(kept)} captures in tests/golden/gpu/{name}/; from its root: tar -xzf gpu_check.tar.gz --strip-components=2 "
            f"gpu_check/{REPOSITORY}")


def keep(setup, table, capture, folder, target, kept):
    files = [path for path in (folder / "records").iterdir() if path.is_file()] if (folder / "records").is_dir() else []
    size = sum(path.stat().st_size for path in files)
    if not files or size > MOST_BYTES:
        table.left_out(f"{capture} is kept as test data", f"its records are {size} bytes, at most {MOST_BYTES} are kept" if files else
                       "there are no records of it")
        return
    (target / "records").mkdir(parents=True)
    for path in files:
        shutil.copy(path, target / "records" / path.name)
    # Reads only the copy, as a test will.
    code, out, err = run_logged(setup.work / "repository-check", capture,
                                [setup.bundle / "bin" / "lockstep", "report", target, "--format", "json"], timeout=20)
    if table.check(f"{capture} can be read again", code == 0 and '"schema"' in out,
                   f"exit {code}, {size} bytes of records: {err.strip()[:200]}", "a report"):
        kept.append(capture)
        (target / "report.json").write_text(out)
    else:
        shutil.rmtree(target)
