"""A capture that has ended, and the checks that hold for each."""
import dataclasses
import json
import pathlib

from accounting import NEVER_NS, accounts_of
from live_job import report_of

WHOLE, PARTIAL = 0, 7
# A window may be shorter by this at its ends (capture/store/completeness.h).
SLACK_NS = 50_000_000


@dataclasses.dataclass
class Capture:
    """A finished `lockstep trace`. `folder` need not exist."""
    folder: pathlib.Path
    code: int
    text: str
    seconds: float
    victim: int  # its number among the processes that were rank 2

    def __str__(self):
        missing = report_of(self.folder)["capture"]["incomplete"] if self.code == PARTIAL else ""
        return f"{self.folder.name} exit {self.code} after {self.seconds:.1f} s: {missing or self.text[-700:]}"

    def word(self):
        return {WHOLE: "whole", PARTIAL: "partial"}.get(self.code, f"exit {self.code}")

    def has_report(self):
        return self.code in (WHOLE, PARTIAL)

    def began_late(self):
        """Says whether only the load of the machine cut it: ranks received the start after T0, and the report says so."""
        return self.code == PARTIAL and all(" late" in part["reason"] for part in report_of(self.folder)["capture"]["incomplete"])

    def window(self):
        """Returns begin, end and requested length, in ns of the aggregator's clock."""
        manifest = json.loads((self.folder / "records" / "manifest.json").read_text())
        return manifest["t0_ns"], manifest["t1_ns"], manifest["requested_ns"]

    def check_report(self):
        """The exit code, the first line and report.json agree."""
        assert (self.folder / "report.json").exists(), f"no report: {self}"
        partial = report_of(self.folder)["capture"]["partial"]
        assert partial == (self.code == PARTIAL), f"report.json has partial {partial}: {self}"
        first = (self.folder / "report.txt").read_text().splitlines()[0]
        assert first.startswith("PARTIAL ") == partial, f"the first line is '{first}': {self}"

    def check_window(self, ranks):
        """A whole capture has every rank, and the window that was requested."""
        manifest = json.loads((self.folder / "records" / "manifest.json").read_text())
        states = {process["rank"]: process["state"] for process in manifest["processes"]}
        assert states == dict.fromkeys(range(ranks), "done"), f"{states}: {self}"
        t0, t1, requested = self.window()
        assert t1 - t0 >= requested - SLACK_NS, f"a window of {t1 - t0} ns: {self}"

    def check_balance(self, truths):
        """Checks produced = stored + lost. A partial capture may have lost more than it can count, and its window may have
        ended before its last record, but it holds nothing that was not produced. Returns the number of stored records."""
        stored = 0
        for entry in accounts_of(self.folder, truths, None if self.code == WHOLE else NEVER_NS):
            stored += entry.stored
            if self.code == WHOLE:
                assert entry.balanced(), f"{entry}, in a capture that is called whole: {self}"
            else:
                assert entry.stored <= entry.produced, f"{entry}, more than was produced: {self}"
        return stored
