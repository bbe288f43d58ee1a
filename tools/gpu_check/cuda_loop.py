"""A CUDA program without a toolkit: launches bursts of one small kernel through the driver and says what it did.

Every burst is one JSON line {"event": "burst", "thread", "burst", "start_ns", "end_ns", "launches", "copies", "sets", "submit_ns",
"gpu_ns"}: start and end are CLOCK_REALTIME, submit_ns is what the host spent launching, gpu_ns what CUDA events measured around the
kernels. A checker compares a capture with it.
Needs libcuda.so.1 and a GPU; nothing else. SIGTERM ends it after the burst at hand.
"""
import argparse
import ctypes
import json
import signal
import sys
import threading
import time

# Spins for so many clock cycles: a loop without a look at the clock would be computed away.
PTX = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry lockstep_probe(.param .u64 out, .param .u64 cycles)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [cycles];
  mov.u64 %rd3, %clock64;
turn:
  mov.u64 %rd4, %clock64;
  sub.u64 %rd5, %rd4, %rd3;
  setp.lt.u64 %p1, %rd5, %rd2;
  @%p1 bra turn;
  cvta.to.global.u64 %rd6, %rd1;
  st.global.u64 [%rd6], %rd5;
  ret;
}
"""
COPY_BYTES = 4096


class Driver:
    """libcuda, with a sentence for every call that fails."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            code = function(*args)
            if code != 0:
                text = ctypes.c_char_p()
                self.lib.cuGetErrorString(code, ctypes.byref(text))
                raise SystemExit(f"cuda_loop: {name} returned {code} ({(text.value or b'?').decode()})")
        return call


class Lane(threading.Thread):
    """One thread with a stream of its own."""

    def __init__(self, cuda, context, function, number, args, report, end):
        super().__init__(daemon=True)
        self.cuda, self.context, self.function, self.number, self.args = cuda, context, function, number, args
        self.report, self.end, self.failure = report, end, None

    def run(self):
        try:
            self.loop()
        except BaseException as error:  # noqa: B902  (SystemExit of the driver's calls too: it is told by the main thread)
            self.failure = str(error)

    def loop(self):
        cuda, args = self.cuda, self.args
        cuda.cuCtxSetCurrent(self.context)
        memory, stream = ctypes.c_uint64(), ctypes.c_void_p()
        cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(COPY_BYTES))
        cuda.cuStreamCreate(ctypes.byref(stream), ctypes.c_uint(1))
        begin, finish = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (begin, finish):
            cuda.cuEventCreate(ctypes.byref(event), ctypes.c_uint(0))
        cycles = ctypes.c_uint64(args.cycles)
        parameters = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p),
                                           ctypes.cast(ctypes.byref(cycles), ctypes.c_void_p))
        host = ctypes.create_string_buffer(COPY_BYTES)
        launch = cuda.lib.cuLaunchKernel
        one, zero, size = ctypes.c_uint(1), ctypes.c_uint(0), ctypes.c_size_t(COPY_BYTES)
        burst, milliseconds = 0, ctypes.c_float()
        while not self.end.is_set():
            start_ns = time.time_ns()
            for _ in range(args.copies):
                cuda.cuMemcpyHtoDAsync_v2(memory, host, size, stream)
                cuda.cuMemsetD8Async(memory, ctypes.c_ubyte(1), size, stream)
            cuda.cuEventRecord(begin, stream)
            submit = time.perf_counter_ns()
            for _ in range(args.launches):
                code = launch(self.function, one, one, one, one, one, one, zero, stream, parameters, None)
                if code != 0:
                    raise SystemExit(f"cuda_loop: cuLaunchKernel returned {code}")
            submit = time.perf_counter_ns() - submit
            cuda.cuEventRecord(finish, stream)
            cuda.cuStreamSynchronize(stream)
            cuda.cuEventElapsedTime(ctypes.byref(milliseconds), begin, finish)
            self.report({"event": "burst", "thread": self.number, "burst": burst, "start_ns": start_ns, "end_ns": time.time_ns(),
                         "launches": args.launches, "copies": args.copies, "sets": args.copies,
                         "submit_ns": submit, "gpu_ns": round(milliseconds.value * 1e6)})
            burst += 1
            time.sleep(args.pause_ms / 1000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--launches", type=int, default=300, help="per burst")
    parser.add_argument("--copies", type=int, default=5, help="per burst, and as many memory sets")
    parser.add_argument("--cycles", type=int, default=30000, help="of the GPU's clock, for each kernel")
    parser.add_argument("--pause-ms", type=float, default=20, help="between bursts, so that none straddles its neighbour's stamps")
    parser.add_argument("--log", required=True)
    args = parser.parse_args()

    cuda = Driver()
    began = time.monotonic()
    cuda.cuInit(ctypes.c_uint(0))
    init_s = time.monotonic() - began
    device, context = ctypes.c_int(), ctypes.c_void_p()
    cuda.cuDeviceGet(ctypes.byref(device), ctypes.c_int(0))
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuModuleLoadData(ctypes.byref(module), PTX)
    cuda.cuModuleGetFunction(ctypes.byref(function), module, b"lockstep_probe")

    end, lock = threading.Event(), threading.Lock()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    with open(args.log, "w") as log:
        def report(event):
            with lock:
                log.write(json.dumps(event) + "\n")
                log.flush()

        report({"event": "ready", "cuinit_s": round(init_s, 3), "at_ns": time.time_ns()})
        lanes = [Lane(cuda, context, function, n, args, report, end) for n in range(args.threads)]
        for lane in lanes:
            lane.start()
        deadline = time.monotonic() + args.seconds
        while time.monotonic() < deadline and not end.is_set() and all(lane.is_alive() for lane in lanes):
            end.wait(0.1)
        end.set()
        for lane in lanes:
            lane.join(30)
        report({"event": "end", "at_ns": time.time_ns()})
    failures = [lane.failure for lane in lanes if lane.failure]
    if failures:
        sys.exit(failures[0])


if __name__ == "__main__":
    main()
