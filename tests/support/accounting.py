"""Compares what simulated ranks produced with what a capture holds. It shares no code with the product.

produced    records that the simulation wrote into CUPTI buffers inside the window, from its truth files
stored      counted in records/ by count_records.py
lost        the losses in the report
incomplete  kernels that a late rank launched in the window, and had not run when the capture ended. The client
            counts them as lost. The truth file also lists those launched after the window, so this is a bound."""
import bisect
import dataclasses
import json
import pathlib

from count_records import count_capture
from live_job import report_of

# Maps the simulation's names of kinds to the report's.
KIND = {"kernel": "kernel", "memcpy": "memcpy", "memset": "memset", "runtime": "api", "driver": "api",
        "synchronization": "sync", "external_correlation": "external_correlation", "cuda_event": "cuda_event"}

NEVER_NS = 1 << 63


@dataclasses.dataclass
class Entry:
    """The records of one kind of one rank."""
    rank: int
    kind: str
    produced: int = 0
    stored: int = 0
    lost: int = 0
    incomplete: int = 0

    @property
    def excess(self):
        return self.stored + self.lost - self.produced

    def balanced(self):
        return 0 <= self.excess <= self.incomplete


def inside(stamps, t0, t1):
    """Returns the number of sorted stamps in the window."""
    return bisect.bisect_left(stamps, t1) - bisect.bisect_left(stamps, t0)


def accounts_of(capture, truths, end_ns=None):
    """Returns the entries of a capture's folder, for the ranks in `truths` (live_job.truths_of). `end_ns` replaces
    the windows' ends. Records that CUPTI dropped are not in the entries, because CUPTI counts them without a kind."""
    records = pathlib.Path(capture) / "records"
    last, first = records / "manifest.json", records / "manifest.open.json"
    manifest = json.loads((last if last.exists() else first).read_text())
    losses, counted = report_of(capture)["capture"]["losses"], count_capture(capture)
    found = []
    for process in manifest["processes"]:
        rank, truth = process["rank"], truths.get(process["rank"])
        if truth is None:
            continue
        t0, t1 = process["t0_host_ns"], end_ns or process["t1_host_ns"]
        entries = {kind: Entry(rank, kind) for kind in KIND.values()}
        for file in process["files"]:
            for kind, rows in counted[file["name"]].items():
                entries.setdefault(kind, Entry(rank, kind)).stored += rows
        for name, stamps in truth.get("written", {}).items():
            if name in KIND:
                entries[KIND[name]].produced += inside(sorted(stamps), t0, t1)
        for loss in losses:
            if loss["rank"] == rank and loss["stage"] != "cupti" and loss.get("kind") in entries:
                entries[loss["kind"]].lost += loss["records"]
        entries["kernel"].incomplete = len(truth.get("incomplete", {}).get("kernel", []))
        found += [entries[kind] for kind in sorted(set(KIND.values()))]
    return found
