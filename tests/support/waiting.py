"""Waits for another process."""
import time

SECONDS = 60


def wait_until(condition, what, detail=lambda: "", seconds=SECONDS):
    """Waits until `condition` is true, and returns its value. `detail` is called only after a timeout."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s\n{detail()}")
        time.sleep(0.05)
    return found


def wait_for_check(check, seconds=SECONDS):
    """Calls `check` until it raises no AssertionError, and returns its value. After a timeout, the last error
    is raised. For values that another process writes a little later than the test can read them."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)
