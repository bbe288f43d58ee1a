"""A CUDA program without a toolkit. It launches bursts of one small kernel through the driver and logs them.

Every burst is one JSON line {"event": "burst", "thread", "burst", "start_ns", "end_ns", "launches",
"graph", "copies", "sets", "submit_ns", "gpu_ns"}. start_ns and end_ns are CLOCK_REALTIME. launches is the
number of kernels; a graph starts all of them at once. submit_ns is the host's time for the launches.
gpu_ns is the time of the kernels by CUDA events. Checks compare a capture with these lines.

It needs only libcuda.so.1 and a GPU. SIGTERM ends it after the current burst.
"""
import argparse
import ctypes
import json
import os
import signal
import sys
import threading
import time

from cuda_driver import GLOBAL, Device, Stream

COPY_BYTES = 4096


class Lane(threading.Thread):
    """One thread with its own stream."""

    def __init__(self, device, number, args, report, make_graph, end):
        super().__init__(daemon=True)
        self.device, self.number, self.args = device, number, args
        self.report, self.make_graph, self.end, self.failure = report, make_graph, end, None

    def run(self):
        try:
            self.loop()
        except BaseException as error:  # noqa: B902  (also catches SystemExit from the driver's calls; the main thread reports it)
            self.failure = str(error)

    def loop(self):
        args, cuda = self.args, self.device.cuda
        stream = Stream(self.device, args.cycles)
        graph = None
        begin, finish = ctypes.c_void_p(), ctypes.c_void_p()
        for event in (begin, finish):
            cuda.cuEventCreate(ctypes.byref(event), ctypes.c_uint(0))
        host = ctypes.create_string_buffer(COPY_BYTES)
        size, burst, milliseconds = ctypes.c_size_t(COPY_BYTES), 0, ctypes.c_float()
        while not self.end.is_set():
            if args.new_graphs:
                if graph is not None:
                    stream.destroy(graph)
                graph = stream.graph(args.launches, GLOBAL)
            if graph is None and self.make_graph.is_set():
                graph = stream.graph(args.launches)
                self.report({"event": "graph", "thread": self.number, "at_ns": time.time_ns()})
            start_ns = time.time_ns()
            for _ in range(args.copies):
                cuda.cuMemcpyHtoDAsync_v2(stream.memory, host, size, stream.handle)
                cuda.cuMemsetD8Async(stream.memory, ctypes.c_ubyte(1), size, stream.handle)
            cuda.cuEventRecord(begin, stream.handle)
            submit = time.perf_counter_ns()
            if graph is None:
                stream.launch(args.launches)
            else:
                stream.replay(graph)
            submit = time.perf_counter_ns() - submit
            cuda.cuEventRecord(finish, stream.handle)
            stream.synchronize()
            cuda.cuEventElapsedTime(ctypes.byref(milliseconds), begin, finish)
            self.report({"event": "burst", "thread": self.number, "burst": burst, "start_ns": start_ns, "end_ns": time.time_ns(),
                         "launches": args.launches, "graph": graph is not None, "copies": args.copies, "sets": args.copies,
                         "submit_ns": submit, "gpu_ns": round(milliseconds.value * 1e6)})
            burst += 1
            time.sleep(args.pause_ms / 1000)


def fork_child(device, uses_cuda):
    """Forks like a data loader's worker. CUDA refuses the calls of a child that uses it by mistake. Returns the child's exit
    code; it is negative if a signal ended the child."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
        sum(range(200_000))
        if uses_cuda:
            free, total, memory, event = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64(), ctypes.c_void_p()
            for _ in range(20):
                device.cuda.lib.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
                device.cuda.lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))
                device.cuda.lib.cuMemsetD8Async(memory, ctypes.c_ubyte(1), ctypes.c_size_t(4096), None)
                device.cuda.lib.cuEventCreate(ctypes.byref(event), ctypes.c_uint(0))
                device.cuda.lib.cuEventDestroy_v2(event)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--launches", type=int, default=300, help="per burst")
    parser.add_argument("--copies", type=int, default=5, help="per burst, and as many memory sets")
    parser.add_argument("--cycles", type=int, default=30000, help="of the GPU's clock, for each kernel")
    parser.add_argument("--pause-ms", type=float, default=20, help="between bursts, so that none straddles its neighbour's stamps")
    parser.add_argument("--graph", action="store_true", help="each burst is one CUDA graph; without this from SIGUSR1 on")
    parser.add_argument("--new-graphs", action="store_true", help="each burst makes its own graph, with a capture of mode global")
    parser.add_argument("--forks", action="store_true", help="also fork short-lived children, one after another")
    parser.add_argument("--children-use-cuda", action="store_true", help="each of these children calls CUDA")
    parser.add_argument("--leave-mb", type=int, help="take all of the GPU's memory but so much")
    parser.add_argument("--log", required=True)
    args = parser.parse_args()

    began = time.monotonic()
    device = Device()
    init_s = time.monotonic() - began
    if args.leave_mb is not None:
        device.leave(args.leave_mb << 20)
    end, make_graph, lock = threading.Event(), threading.Event(), threading.Lock()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    signal.signal(signal.SIGUSR1, lambda *_: make_graph.set())
    if args.graph:
        make_graph.set()
    with open(args.log, "w") as log:
        def report(event):
            with lock:
                log.write(json.dumps(event) + "\n")
                log.flush()

        report({"event": "ready", "cuinit_s": round(init_s, 3), "at_ns": time.time_ns(), "free_bytes": device.free_bytes()})
        lanes = [Lane(device, n, args, report, make_graph, end) for n in range(args.threads)]
        for lane in lanes:
            lane.start()
        deadline = time.monotonic() + args.seconds
        while time.monotonic() < deadline and not end.is_set() and all(lane.is_alive() for lane in lanes):
            if args.forks:
                report({"event": "child", "exit": fork_child(device, args.children_use_cuda)})
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
