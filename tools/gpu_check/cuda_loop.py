"""A CUDA program without a toolkit: launches bursts of one small kernel through the driver and says what it did.

Every burst is written as one JSON line {"burst", "start_ns", "end_ns", "launches"} (CLOCK_REALTIME), so a checker can
compare the kernels in a capture with the launches made. Needs libcuda.so.1 and a GPU; nothing else.
"""
import argparse
import ctypes
import json
import sys
import time

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry lockstep_probe(.param .u64 p0, .param .u32 p1)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p0];
  ld.param.u32 %r1, [p1];
  mov.u32 %r2, 0;
loop:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, %r1;
  @%p1 bra loop;
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], %r2;
  ret;
}
"""


class Driver:
    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            code = function(*args)
            if code != 0:
                raise RuntimeError(f"{name} returned {code}")
        return call


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--launches", type=int, default=500, help="per burst")
    parser.add_argument("--spin", type=int, default=2000, help="loop turns of the kernel")
    parser.add_argument("--pause-ms", type=float, default=20, help="between bursts, so that none straddles its neighbour's stamps")
    parser.add_argument("--log", required=True)
    args = parser.parse_args()

    cuda = Driver()
    cuda.cuInit(0)
    device = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    context = ctypes.c_void_p()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cuModuleLoadData(ctypes.byref(module), PTX)
    cuda.cuModuleGetFunction(ctypes.byref(function), module, b"lockstep_probe")
    memory = ctypes.c_uint64()
    cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))
    stream = ctypes.c_void_p()
    cuda.cuStreamCreate(ctypes.byref(stream), 1)
    spin = ctypes.c_uint32(args.spin)
    parameters = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p),
                                       ctypes.cast(ctypes.byref(spin), ctypes.c_void_p))
    launch = cuda.lib.cuLaunchKernel
    one = ctypes.c_uint(1)
    zero = ctypes.c_uint(0)

    end = time.monotonic() + args.seconds
    burst = 0
    with open(args.log, "w") as log:
        while time.monotonic() < end:
            start_ns = time.time_ns()
            for _ in range(args.launches):
                code = launch(function, one, one, one, one, one, one, zero, stream, parameters, None)
                if code != 0:
                    sys.exit(f"cuLaunchKernel returned {code}")
            cuda.cuStreamSynchronize(stream)
            log.write(json.dumps({"burst": burst, "start_ns": start_ns, "end_ns": time.time_ns(), "launches": args.launches}) + "\n")
            log.flush()
            burst += 1
            time.sleep(args.pause_ms / 1000)


if __name__ == "__main__":
    main()
