"""A program without a GPU that uses lockstep.h from Python as docs/triggers.md shows: it marks steps and
receives callbacks.

usage: steps_program.py EVERY END

In every EVERY steps it calls the profiler for five steps. It ends when the file END appears."""
import ctypes
import os
import sys
import time

library = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])  # set by `lockstep run`
library.lockstep_step_begin.argtypes = [ctypes.c_uint64]
library.lockstep_range_push.argtypes = [ctypes.c_char_p]
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
heard = []
on_start = Callback(lambda _: heard.append("start"))
on_stop = Callback(lambda _: heard.append("stop"))
assert library.lockstep_on_capture(on_start, on_stop, None) == 1
assert library.lockstep_on_capture(on_start, on_stop, None) == 0, "once per process"
assert library.lockstep_start() == 1
every, end = int(sys.argv[1]), sys.argv[2]
recording = step = 0
while not os.path.exists(end):
    library.lockstep_step_begin(step)
    if step % every == 0:
        begun = time.monotonic_ns()
        library.lockstep_profiler_start()
    library.lockstep_range_push(b"work")
    time.sleep(0.02)
    library.lockstep_range_pop()
    recording += library.lockstep_capturing()
    if step % every == 4:
        library.lockstep_profiler_stop()
        print("profiled for", time.monotonic_ns() - begun, "ns", flush=True)
    library.lockstep_step_end()
    step += 1
print("heard:", " ".join(heard), "recording in", recording, "steps", flush=True)
