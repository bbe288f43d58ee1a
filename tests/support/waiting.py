"""Waiting for what another process does."""
import time


def wait_until(condition, what, detail=lambda: "", seconds=30):
    """`detail` is asked only where it did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s\n{detail()}")
        time.sleep(0.05)
