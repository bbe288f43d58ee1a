"""The functions of CUDA's driver that these programs need, through ctypes, without a toolkit or PyTorch.
Needs libcuda.so.1 and a GPU."""
import ctypes

# Spins for a number of clock cycles. Without the read of the clock, the compiler would remove the loop.
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
PROBE = b"lockstep_probe"
NON_BLOCKING = ctypes.c_uint(1)
THREAD_LOCAL = ctypes.c_int(1)  # calls of other threads do not break such a capture
GLOBAL = ctypes.c_int(0)  # some calls of any thread break it; it is CUDA's default


class Driver:
    """libcuda. Each failed call raises an error with its text."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.lib, name)

        def call(*args):
            code = function(*args)
            if code != 0:
                text = ctypes.c_char_p()
                self.lib.cuGetErrorString(code, ctypes.byref(text))
                raise SystemExit(f"CUDA: {name} returned {code} ({(text.value or b'?').decode()})")
        return call


class Device:
    """Device 0 with its primary context current, and the kernel."""

    def __init__(self):
        self.cuda = cuda = Driver()
        cuda.cuInit(ctypes.c_uint(0))
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        cuda.cuDeviceGet(ctypes.byref(device), ctypes.c_int(0))
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device)
        cuda.cuCtxSetCurrent(self.context)
        module, self.probe = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.cuModuleLoadData(ctypes.byref(module), PTX)
        cuda.cuModuleGetFunction(ctypes.byref(self.probe), module, PROBE)

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return free.value

    def leave(self, free_bytes):
        """Allocates memory in ever smaller pieces until about `free_bytes` are left. Returns the number of
        free bytes."""
        piece, memory = 1 << 30, ctypes.c_uint64()
        while piece >= 1 << 20:
            before = self.free_bytes()
            taken = before > free_bytes + piece and self.cuda.lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(piece)) == 0
            # A piece that does not reduce the free memory would be allocated forever.
            if not taken or self.free_bytes() >= before:
                piece //= 2
        return self.free_bytes()


class Stream:
    """Launches kernels of `cycles` GPU clock cycles on its own stream. Only the thread that made it may use
    it."""

    def __init__(self, device, cycles):
        self.device, self.cuda = device, device.cuda
        self.cuda.cuCtxSetCurrent(device.context)
        self.memory, self.handle = ctypes.c_uint64(), ctypes.c_void_p()
        self.cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(4096))
        self.cuda.cuStreamCreate(ctypes.byref(self.handle), NON_BLOCKING)
        self.cycles = ctypes.c_uint64(cycles)
        self.parameters = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.byref(self.memory), ctypes.c_void_p),
                                                ctypes.cast(ctypes.byref(self.cycles), ctypes.c_void_p))

    def launch(self, count):
        launch = self.cuda.lib.cuLaunchKernel
        one, none, probe, handle, parameters = ctypes.c_uint(1), ctypes.c_uint(0), self.device.probe, self.handle, self.parameters
        for _ in range(count):
            code = launch(probe, one, one, one, one, one, one, none, handle, parameters, None)
            if code != 0:
                raise SystemExit(f"CUDA: cuLaunchKernel returned {code}")

    def graph(self, count, mode=THREAD_LOCAL):
        """Returns an executable graph with `count` launches."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.cuStreamBeginCapture_v2(self.handle, mode)
        self.launch(count)
        self.cuda.cuStreamEndCapture(self.handle, ctypes.byref(graph))
        self.cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0))
        self.cuda.cuGraphDestroy(graph)
        return executable

    def destroy(self, executable):
        self.cuda.cuGraphExecDestroy(executable)

    def replay(self, executable):
        self.cuda.cuGraphLaunch(executable, self.handle)

    def synchronize(self):
        self.cuda.cuStreamSynchronize(self.handle)
