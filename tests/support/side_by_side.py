"""Runs the tests of one class in parallel. The tests must mostly wait, and each must have its own processes."""
import concurrent.futures
import sys
import time
import unittest


class _Outcome(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.began = time.monotonic()

    def text(self, name):
        bad = [trace for _, trace in [*self.errors, *self.failures]]
        word = "FAILED" if bad or self.unexpectedSuccesses else f"skipped: {self.skipped[0][1]}" if self.skipped else "ok"
        return "\n".join([f"{name} ({time.monotonic() - self.began:.1f} s) ... {word}", *bad])


def _run(case):
    outcome = _Outcome()
    case.run(outcome)
    print(outcome.text(case.id().rsplit(".", 1)[-1]), file=sys.stderr, flush=True)
    return outcome


def main(test_class, names, workers):
    """`names` are the tests to run, in unittest's form; an empty list means all. Exits with 1 if one fails."""
    known = unittest.defaultTestLoader.getTestCaseNames(test_class)
    chosen = [n.rsplit(".", 1)[-1] for n in names] or known
    unknown = [n for n in chosen if n not in known]
    if unknown:
        sys.exit(f"unknown test: {', '.join(unknown)}")
    began = time.monotonic()
    try:
        test_class.setUpClass()
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            outcomes = list(pool.map(_run, [test_class(n) for n in chosen]))
    finally:
        test_class.doClassCleanups()
    failed = sum(not outcome.wasSuccessful() for outcome in outcomes)
    print(f"{len(chosen)} tests in {time.monotonic() - began:.1f} s, {failed} failed", file=sys.stderr)
    sys.exit(1 if failed else 0)
