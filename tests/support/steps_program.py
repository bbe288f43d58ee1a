"""A program without a GPU that uses lockstep.h from Python, as docs/triggers.md shows it: marks steps, hears of captures."""
import ctypes
import os
import sys
import time

library = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])  # `lockstep run` has set it
library.lockstep_step_begin.argtypes = [ctypes.c_uint64]
library.lockstep_range_push.argtypes = [ctypes.c_char_p]
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
heard = []
on_start = Callback(lambda _: heard.append("start"))
on_stop = Callback(lambda _: heard.append("stop"))
assert library.lockstep_on_capture(on_start, on_stop, None) == 1
assert library.lockstep_on_capture(on_start, on_stop, None) == 0, "once per process"
assert library.lockstep_start() == 1
profile_at, until = int(sys.argv[1]), float(sys.argv[2])
recording = 0
end = time.monotonic() + until
step = 0
while time.monotonic() < end:
    library.lockstep_step_begin(step)
    if step == profile_at:
        library.lockstep_profiler_start()
    library.lockstep_range_push(b"work")
    time.sleep(0.02)
    library.lockstep_range_pop()
    recording += library.lockstep_capturing()
    if step == profile_at + 4:
        library.lockstep_profiler_stop()
    library.lockstep_step_end()
    step += 1
print("heard:", " ".join(heard), "recording in", recording, "steps", flush=True)
