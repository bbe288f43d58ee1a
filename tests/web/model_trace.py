"""Writes a Kineto trace of one rank with the modules of a model and the memory of PyTorch's allocator, as
torch.profiler does with with_modules=True and profile_memory=True."""
import json
import pathlib

STEPS = 4
STEP_US = 10_000
FIRST_US = 1_700_000_000_000_000
PROCESS, THREAD, STREAM = 4242, 1, 7
MIB = 1 << 20
# module, start and duration in its step, kernel's duration, bytes that it allocates
LAYERS = [("Linear_0", 1_000, 800, 1_500, 300 * MIB), ("Linear_1", 2_000, 900, 2_500, 100 * MIB)]


class Trace:
    def __init__(self):
        self.rows = []
        self.python_ids = 0
        self.correlations = 0

    def add(self, category, name, start_us, duration_us, thread=THREAD, process=PROCESS, **args):
        self.rows.append({"ph": "X", "cat": category, "name": name, "pid": process, "tid": thread, "ts": FIRST_US + start_us,
                          "dur": duration_us, "args": args})

    def module(self, name, parent, start_us, duration_us):
        self.python_ids += 1
        self.add("python_function", f"nn.Module: {name}", start_us, duration_us,
                 **{"Python id": self.python_ids, "Python parent id": parent, "Python module id": 0})
        return self.python_ids

    def kernel(self, name, launch_us, start_us, duration_us):
        self.correlations += 1
        self.add("cuda_runtime", "cudaLaunchKernel", launch_us, 5, cbid=211, correlation=self.correlations)
        self.add("kernel", name, start_us, duration_us, STREAM, 0, device=0, stream=STREAM, correlation=self.correlations,
                 grid=[128, 1, 1], block=[256, 1, 1])

    def memory(self, at_us, address, size):
        self.rows.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": PROCESS, "tid": THREAD,
                          "ts": FIRST_US + at_us, "args": {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size}})

    def step(self, number):
        begin = number * STEP_US
        self.add("user_annotation", f"ProfilerStep#{number}", begin, STEP_US - 1)
        net = self.module("Net_0", None, begin + 500, 4_000)
        gpu = begin + 1_500
        for k, (name, start, duration, kernel, size) in enumerate(LAYERS):
            self.module(name, net, begin + start, duration)
            self.add("cpu_op", f"aten::layer{k}", begin + start + 50, duration - 100)
            self.memory(begin + start + 60, 4096 * (k + 1), size)
            self.kernel(f"void gemm<float, {k}>(Params)", begin + start + 100, gpu, kernel)
            gpu += kernel + 10
        for k, layer in enumerate(LAYERS):
            self.memory(begin + 9_000 + k, 4096 * (k + 1), -layer[4])


def write(path: pathlib.Path):
    trace = Trace()
    for number in range(STEPS):
        trace.step(number)
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": trace.rows}))
