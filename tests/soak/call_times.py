"""The times of the job's CUDA calls, with and without a fault (docs/formats/truth.md, --call-times)."""
import contextlib
import statistics
import time

MOST_SLOWER, MOST_SLOWER_NS, FEWEST_QUARTERS = 1.2, 20_000, 40


class CallTimes:
    """`folder` is that of --call-times."""

    def __init__(self, folder):
        self.folder, self.faults, self.quiet = folder, [], []

    @contextlib.contextmanager
    def noted(self, spans):
        """Adds the time of the block to `faults` or `quiet`."""
        began = time.monotonic_ns()
        yield
        spans.append((began, time.monotonic_ns()))

    def quarters(self, spans):
        """Returns the p99 of the calls of each quarter second within the spans, in ns."""
        found = []
        for path in self.folder.glob("*.calls"):
            for line in path.read_text().splitlines():
                at, _, _, p99, _ = map(int, line.split())
                if any(began + 250_000_000 <= at <= ended for began, ended in spans):
                    found.append(p99)
        return found

    def medians_ns(self):
        """Returns the medians without and with the fault, or None if there were no calls."""
        quiet, faulted = self.quarters(self.quiet), self.quarters(self.faults)
        return (statistics.median(quiet), statistics.median(faulted)) if quiet and faulted else None

    def slower(self):
        """Says whether calls took longer under the fault. With few quarters the load of the machine decides, so none is
        judged."""
        if min(len(self.quarters(spans)) for spans in (self.quiet, self.faults)) < FEWEST_QUARTERS:
            return False
        quiet, faulted = self.medians_ns()
        return faulted > max(quiet * MOST_SLOWER, quiet + MOST_SLOWER_NS)
