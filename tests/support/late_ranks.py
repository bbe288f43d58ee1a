"""Keeps a busy machine from spoiling captures of simulated ranks. Simulated ranks run in virtual time, which
follows the wall clock. On a busy machine they fall behind it. Their records then come too late for the
capture and count as lost, or all ranks wait at a step, which looks like a pause of a host. The ranks report
both on stderr."""
import contextlib
import functools
import re
import time

ATTEMPTS = 8
# With these arguments, eight ranks keep up on two processors beside two busy processes. A step takes 0.3 s.
# With more microbatches, a stream would be silent for 0.3 s in a step. The client counts a kernel that it
# awaits for so long as lost.
RANK_ARGS = ("--time-scale", "4", "--microbatches", "2")
# For a repeated attempt. A step takes 0.3 s and has half of the records.
RANK_ARGS_AGAIN = ("--time-scale", "6", "--microbatches", "1")
LATE = re.compile("ms behind the wall clock|the machine is too slow for these ranks")


def late_reports(output):
    """Returns how often the ranks have reported that they are late, in the text that they printed."""
    return len(LATE.findall(output))


def repeat_when_late(attempt, output):
    """Calls `attempt(rank_args)` and returns its value. If it fails an assertion and its ranks have reported that
    they are late, the load of the machine may be the reason. It is then called again with arguments for slower
    ranks, at most eight times in all. A failure without such a report is raised. `output` returns the text that
    the ranks of the latest attempt printed."""
    for number in range(1, ATTEMPTS + 1):
        try:
            return attempt(RANK_ARGS if number == 1 else RANK_ARGS_AGAIN)
        except AssertionError as failure:
            # The launcher forwards a report a little later than the rank prints it.
            deadline = time.monotonic() + 1
            while not late_reports(output()) and time.monotonic() < deadline:
                time.sleep(0.05)
            if not late_reports(output()) or number == ATTEMPTS:
                raise
            print(f"\nattempt {number} failed while ranks were behind the wall clock, and is repeated: {str(failure)[:300]}", flush=True)
    raise AssertionError("not reached")


class SharedJob:
    """A job that the tests of a class share. `start(rank_args)` returns a job that a `with` block starts."""

    def __init__(self, start):
        self.start, self.pace, self.job, self.running = start, None, None, contextlib.ExitStack()

    def ensure(self, pace):
        """Starts the job, or starts a slower one in its place."""
        if pace == self.pace or (self.pace and pace == RANK_ARGS):
            return
        self.close()
        self.pace = pace
        self.job = self.running.enter_context(self.start(pace))
        self.job.wait_for_ranks()

    def close(self):
        self.running.close()


def repeated_when_late(test):
    """Decorates a test of a class that has a SharedJob in `shared`, for repeat_when_late."""
    @functools.wraps(test)
    def repeated(self):
        def attempt(pace):
            self.shared.ensure(pace)
            self.job = self.shared.job
            test(self)
        repeat_when_late(attempt, lambda: self.shared.job.output())
    return repeated
