"""Full and failing disks."""
import os
import shutil
import subprocess

from cluster import fill
from live_job import report_of
from row import Row

FAILED = 1
FULL = "No space left on device"
# A capture of one second with its report needs less than this.
CAPTURE_BYTES = 600_000


def check_refusal(turn, capture, files):
    """A capture under a full disk is whole, partial, or fails with the system's words. What a failed one leaves is called partial."""
    if not capture.has_report():
        assert capture.code == FAILED, str(capture)
        assert FULL in capture.text, f"the error does not say '{FULL}': {capture}"
        if capture.folder.exists():
            assert report_of(capture.folder)["capture"]["partial"], f"left {capture.folder}, called whole: {capture}"
    turn.count(capture.word())
    for name in files:
        turn.site.processes[name].poll()
        assert turn.site.processes[name].returncode is None, f"the {name} ended: {turn.site.errors(name)}"


def full_folder(choose):
    """Returns a row's function: the file system of a folder fills up at a random point of the capture's bytes."""
    def run(turn):
        site = turn.site
        filler = fill(choose(site), turn.draw.choice((0, turn.draw.randrange(CAPTURE_BYTES))))
        try:
            with site.fault():
                capture = site.capture("1s")
        finally:
            filler.unlink()
        check_refusal(turn, capture, ("daemon", "aggregator"))
        remains = [path for path in choose(site).rglob("*.partial-*")]
        turn.most("folders named .partial", len(remains))
        for path in remains:
            shutil.rmtree(path)
        site.recovered()
    return run


def failing_writes(turn):
    """libfiu makes a part of the aggregator's writes fail, for the length of a capture."""
    error, name = turn.draw.choice((28, 5)), turn.draw.choice(("posix/io/rw/write", "posix/io/rw/pwrite", "posix/io/sync/*", "posix/io/oc/open", "posix/io/dir/*"))
    site = turn.site
    command = f"enable_random name={name},probability={turn.draw.choice((0.02, 0.2, 1))},failinfo={error}"
    pid = site.pid("aggregator")
    # fiu-ctrl finds the process by the pipe that FIU_CTRL_FIFO names.
    tell = lambda words: subprocess.run(["fiu-ctrl", "-f", str(site.work / "fiu"), "-c", words, str(pid)], check=True, capture_output=True, timeout=10)  # noqa: E731
    tell(command)
    try:
        with site.fault():
            capture = site.capture("1s")
    finally:
        if site.processes["aggregator"].poll() is None:
            tell(f"disable name={name}")
    assert site.processes["aggregator"].poll() is None, f"the aggregator ended under '{command}': {site.errors('aggregator')}"
    turn.count(capture.word())
    if not capture.has_report():
        assert os.strerror(error) in capture.text, f"the error does not say '{os.strerror(error)}' under '{command}': {capture}"
    site.recovered()


KEEP = ("--keep-captures", "3")


def small(folder):
    return {"small_disks": (folder,), "aggregator_args": KEEP}


ROWS = [
    Row("disk-full-state", "the disk of the aggregator's captures fills up at a random byte of a capture", full_folder(lambda site: site.state), 20, small("state"),
        short=True, needs=("namespaces",)),
    Row("disk-full-output", "the disk of `-o` fills up at a random byte of a capture", full_folder(lambda site: site.outputs), 20, small("out"), needs=("namespaces",)),
    Row("disk-full-logs", "the disk of the logs and of the daemon's audit log is full", full_folder(lambda site: site.logs), 10,
        small("log"), needs=("namespaces",)),
    Row("failing-writes", "2 %, 20 % or all of the aggregator's calls of write, pwrite, fsync, open or of folders fail with EIO or ENOSPC (libfiu)", failing_writes, 30,
        {"aggregator_args": KEEP, "injected": True}, needs=("fiu-ctrl",)),
]
