"""Waits for another process."""
import time

SECONDS = 60


def wait_until(condition, what, detail=lambda: "", seconds=SECONDS):
    """Waits until `condition` is true, and returns its value. `detail` is called only after a timeout."""
    deadline = time.monotonic() + seconds
    attempts = 0
    while True:
        # A machine that stands still for a while takes the time of the other process, too.
        last = time.monotonic() > deadline
        if found := condition():
            return found
        attempts += 1
        if last:
            raise AssertionError(f"{what}: not within {seconds} s, {attempts} attempts\n{detail()}")
        time.sleep(0.05)


def wait_for_check(check, seconds=SECONDS):
    """Calls `check` until it raises no AssertionError, and returns its value. After a timeout, the last error
    is raised. For values that another process writes a little later than the test can read them."""
    deadline = time.monotonic() + seconds
    while True:
        last = time.monotonic() > deadline
        try:
            return check()
        except AssertionError:
            if last:
                raise
        time.sleep(0.05)
